import type { ReactNode } from 'react';
import { Button } from './button.tsx';
import { Problem, RowsSkeleton } from './states.tsx';

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ReactNode;
  /** Hidden on a phone. */
  isWide?: true;
  isNumber?: true;
  /** As wide as its content, under a title that only screen readers have. */
  isNarrow?: true;
  /** For example when the role permits none of its actions. */
  isHidden?: boolean;
};

type Props<Row> = {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
};

export function Table<Row>({ label, columns: all, rows, keyOf }: Props<Row>): ReactNode {
  const columns = all.filter(({ isHidden }) => !isHidden);
  const look = ({ isWide, isNumber, isNarrow }: Column<Row>): string =>
    `h-row px-3 py-1 first:pl-(--page-x) last:pr-(--page-x) ${isNarrow ? 'w-8' : ''} ${isNumber ? 'text-right tabular-nums' : 'text-left'} ${isWide ? 'max-md:hidden' : ''}`;
  return (
    <div
      className="relative shrink-0 overflow-x-auto"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      <table className="w-full text-sm">
        <thead>
          <tr className="text-xs text-muted">
            {columns.map((column) => (
              <th
                key={column.title}
                scope="col"
                className={`${look(column)} h-8.5! font-medium whitespace-nowrap`}
              >
                {column.title === '' || column.isNarrow ? (
                  <span className="sr-only">{column.title || 'Actions'}</span>
                ) : (
                  column.title
                )}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={keyOf(row)} className="border-t border-line hover:bg-hover">
              {columns.map((column) => (
                <td key={column.title} className={look(column)}>
                  {column.cell(row)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** A list of the API, as far as it is read. */
type List<Row> = {
  rows: readonly Row[];
  isPending: boolean;
  error: unknown;
  refetch: () => unknown;
  hasNextPage?: boolean;
  isFetchingNextPage?: boolean;
  fetchNextPage?: () => unknown;
};

/** A list of the API as a table, with its states. */
export function ListTable<Row>({
  list,
  empty,
  ...table
}: Omit<Props<Row>, 'rows'> & { list: List<Row>; empty: ReactNode }): ReactNode {
  if (list.isPending) return <RowsSkeleton />;
  // A refresh that failed leaves the rows, as they were read before.
  if (list.error !== null && list.rows.length === 0)
    return <Problem error={list.error} retry={() => void list.refetch()} />;
  if (list.rows.length === 0) return empty;
  return (
    <>
      <Table {...table} rows={list.rows} />
      {list.hasNextPage && (
        <div className="border-t border-line px-(--page-x) py-3">
          <Button disabled={list.isFetchingNextPage} onClick={() => void list.fetchNextPage?.()}>
            Show more
          </Button>
        </div>
      )}
    </>
  );
}
