/** Selecting several rows of a list, and one action on all of them. */
import { X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Button, IconButton } from './button.tsx';
import { sentenceOf } from './states.tsx';
import type { Column } from './table.tsx';

export type Selection<Row> = {
  chosen: readonly Row[];
  /** The first column of the list, with a box for each row and one for all. */
  column: Column<Row>;
  /** Says how many are selected, beside the actions; nothing while none is. */
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
  // Rows that are gone from the list are not selected any more.
  const chosen = rows.filter((row) => keys.has(keyOf(row)));
  const clear = (): void => setKeys(new Set());
  const column = selectionColumn({ rows, keyOf, nameOf, selected: keys, onSelect: setKeys });
  const bar = (actions: ReactNode): ReactNode => (
    <SelectionBar
      count={chosen.length}
      total={rows.length}
      onAll={() => setKeys(new Set(rows.map(keyOf)))}
      onClear={clear}
    >
      {actions}
    </SelectionBar>
  );
  return { chosen, column: { ...column, isWide: true, isHidden }, bar, clear };
}

/** The column of boxes. Its head has a box for all rows that are shown. */
export function selectionColumn<Row>(props: {
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  nameOf: (row: Row) => string;
  selected: ReadonlySet<string>;
  onSelect: (selected: ReadonlySet<string>) => void;
}): Column<Row> {
  const { rows, keyOf, nameOf, selected, onSelect } = props;
  const count = rows.filter((row) => selected.has(keyOf(row))).length;
  const toggle = (key: string): void => {
    const next = new Set(selected);
    if (!next.delete(key)) next.add(key);
    onSelect(next);
  };
  return {
    title: 'Select',
    isNarrow: true,
    head: (
      <Box
        label={`Select all ${rows.length}`}
        isOn={count > 0 && count === rows.length}
        isPartly={count > 0 && count < rows.length}
        onChange={() => onSelect(new Set(count === rows.length ? [] : rows.map(keyOf)))}
      />
    ),
    cell: (row) => (
      <Box
        label={`Select ${nameOf(row)}`}
        isOn={selected.has(keyOf(row))}
        onChange={() => toggle(keyOf(row))}
      />
    ),
  };
}

/** The area around a box selects as well. */
function Box(props: {
  label: string;
  isOn: boolean;
  isPartly?: boolean;
  onChange: () => void;
}): ReactNode {
  const { label, isOn, isPartly = false, onChange } = props;
  return (
    <label className="-m-2 inline-flex p-2 align-middle">
      <input
        ref={(box) => {
          if (box !== null) box.indeterminate = isPartly;
        }}
        type="checkbox"
        aria-label={label}
        checked={isOn}
        onChange={onChange}
        className="size-4"
      />
    </label>
  );
}

/** Floats above the page, so that the first selected row moves nothing. */
export function SelectionBar(props: {
  count: number;
  total: number;
  onAll: () => void;
  onClear: () => void;
  children: ReactNode;
}): ReactNode {
  const { count, total, onAll, onClear, children } = props;
  if (count === 0) return null;
  return (
    <div className="pointer-events-none fixed inset-x-0 bottom-4 z-30 flex justify-center px-4 print:hidden">
      <div
        role="group"
        aria-label="Selection"
        className="arrive-from-below pointer-events-auto flex max-w-full flex-wrap items-center gap-2 rounded-lg bg-raised py-1.5 pr-1.5 pl-3.5 text-sm shadow-float"
      >
        <span role="status" className="mr-1 font-medium tabular-nums">
          {count} selected
        </span>
        {children}
        {count < total && (
          <Button size="small" look="quiet" onClick={onAll}>
            Select all {total}
          </Button>
        )}
        <IconButton size="small" label="Clear the selection" onClick={onClear}>
          <X size={14} aria-hidden />
        </IconButton>
      </div>
    </div>
  );
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
