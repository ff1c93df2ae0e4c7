/** Choosing several rows of a list, and one action on all of them. */
import { type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { sentenceOf } from './states.tsx';
import type { Column } from './table.tsx';

export type Selection<Row> = {
  chosen: readonly Row[];
  /** The first column of the list, with a box for each row. */
  column: Column<Row>;
  /** Says how many are chosen, beside the actions; nothing while none is. */
  bar: (actions: ReactNode) => ReactNode;
  clear: () => void;
};

/** @param props.nameOf what a row is called, for the box beside it */
export function useSelection<Row>(props: {
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  nameOf: (row: Row) => string;
  isHidden?: boolean;
}): Selection<Row> {
  const { rows, keyOf, nameOf, isHidden = false } = props;
  const [keys, setKeys] = useState<ReadonlySet<string>>(new Set());
  // Rows that are gone from the list are not chosen any more.
  const chosen = rows.filter((row) => keys.has(keyOf(row)));
  const clear = (): void => setKeys(new Set());
  const choose = (row: Row, isChosen: boolean): void => {
    const next = new Set(keys);
    if (isChosen) next.add(keyOf(row));
    else next.delete(keyOf(row));
    setKeys(next);
  };
  const column: Column<Row> = {
    title: 'Choose',
    isNarrow: true,
    isWide: true,
    isHidden,
    cell: (row) => (
      <input
        type="checkbox"
        aria-label={`Choose ${nameOf(row)}`}
        checked={keys.has(keyOf(row))}
        onChange={({ target }) => choose(row, target.checked)}
        className="size-4 align-middle accent-accent"
      />
    ),
  };
  const bar = (actions: ReactNode): ReactNode =>
    chosen.length > 0 && (
      <div
        role="group"
        aria-label="Chosen rows"
        className="flex flex-wrap items-center gap-2 border-b border-line bg-accent-tint px-(--page-x) py-2 text-sm"
      >
        <span role="status" className="font-medium">
          {chosen.length} chosen
        </span>
        {actions}
        {chosen.length < rows.length && (
          <Button size="small" look="quiet" onClick={() => setKeys(new Set(rows.map(keyOf)))}>
            Choose all {rows.length} shown
          </Button>
        )}
        <Button size="small" look="quiet" onClick={clear}>
          Choose none
        </Button>
      </div>
    );
  return { chosen, column, bar, clear };
}

/** Requests under way at the same time. */
const AT_ONCE = 4;

/**
 * Does the same to each row. A failure does not stop the others.
 * @throws Error that says how many failed, and why the first did; the failure itself for one row
 */
export async function forEachChosen<Row>(
  rows: readonly Row[],
  act: (row: Row) => Promise<unknown>,
): Promise<void> {
  const waiting = [...rows];
  const failures: unknown[] = [];
  const work = async (): Promise<void> => {
    for (let row = waiting.shift(); row !== undefined; row = waiting.shift()) {
      await act(row).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  if (failures.length === 0) return;
  if (rows.length === 1) throw failures[0];
  throw new Error(`${failures.length} of ${rows.length} failed. ${sentenceOf(failures[0])}`);
}
