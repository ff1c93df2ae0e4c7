/** Tables. On a desk they have columns; on a phone each row folds into two lines, and nothing scrolls sideways. */
import { Fragment, type ReactNode } from 'react';
import { Button } from './button.tsx';
import { Problem, RowsSkeleton } from './states.tsx';

export type Column<Row> = {
  title: string;
  cell: (row: Row) => ReactNode;
  /** Hidden on a phone. */
  isWide?: true;
  isNumber?: true;
  /** On a phone beside the name. */
  isState?: true;
  /** Hides the title on a phone, because the value is clear without it. */
  isPlain?: true;
  /** On a phone it has a line of its own. */
  isLine?: true;
  /** As wide as its content, under a title that only screen readers have. */
  isNarrow?: true;
  /** Takes the width that the other columns leave, and cuts what is longer. */
  isRest?: true;
  /** Replaces the title in the head, like a box that chooses all rows. */
  head?: ReactNode;
  /** For example when the role permits none of its actions. */
  isHidden?: boolean;
};

type Props<Row> = {
  label: string;
  columns: readonly Column<Row>[];
  rows: readonly Row[];
  keyOf: (row: Row) => string;
  /** The columns have fixed widths, so that those of tables below each other are in line. */
  isEven?: true;
  /** The name of the group of a row. Rows of a group stand together below its name. */
  groupOf?: (row: Row) => string;
  /** Marks a row. */
  isChosen?: (row: Row) => boolean;
};

/** On a phone a row is two lines: the first column with the state and the actions, and what is left below. */
const ROW =
  'border-t border-line hover:bg-hover data-chosen:bg-accent-tint max-md:flex max-md:flex-wrap max-md:items-center max-md:gap-x-3 max-md:gap-y-1 max-md:px-(--page-x) max-md:py-2.5 max-md:first:border-t-0 max-md:after:order-1 max-md:after:w-full';
const CELL =
  '[&_time]:text-muted text-pretty px-3 py-2 first:pl-(--page-x) last:pr-(--page-x) md:h-row max-md:p-0! max-md:empty:hidden max-md:has-[>[data-dash]:only-child]:hidden';
const IN_FIRST_LINE = 'max-md:shrink-0';
/** A box or a button, which is higher than the first line and centred on it. */
const ACTION = `${IN_FIRST_LINE} max-md:flex max-md:h-[1lh] max-md:items-center max-md:self-start`;
/** Beside the first line of a name that has several. */
const STATE = `${IN_FIRST_LINE} max-md:self-baseline`;
/** Lines below a name are lighter than the name. */
const NAME =
  'max-md:min-w-0 max-md:flex-1 max-md:self-baseline max-md:font-medium max-md:[&_.text-muted]:font-normal';
/** Shows the title before the value where the table has no column heads, after a point (app.css). */
const BELOW =
  'max-md:order-2 max-md:min-w-0 max-md:self-baseline max-md:text-muted max-md:data-title:before:mr-1 max-md:data-title:before:content-[attr(data-title)]';

/** @param index from the column of names, which is 0 */
function lookOf<Row>(column: Column<Row>, index: number, isEven = false): string {
  const { title, isWide, isNumber, isNarrow, isState, isRest, isLine } = column;
  const place = index === 0 ? NAME : isState ? STATE : isNarrow || title === '' ? ACTION : BELOW;
  const align = isNumber ? 'md:text-right tabular-nums' : 'text-left';
  const width = isNarrow
    ? 'w-8'
    : isRest
      ? 'md:w-full md:max-w-0'
      : isEven
        ? evenly(column, index)
        : '';
  const line = isWide ? 'max-md:hidden' : isLine ? 'max-md:basis-full' : '';
  return `${CELL} ${place} ${align} ${width} ${line}`;
}

/** Whether a phone shows it below the name, beside others. */
function isBelow<Row>(column: Column<Row>, index: number): boolean {
  const { title, isNarrow, isState, isWide, isLine } = column;
  return index > 0 && title !== '' && !isNarrow && !isState && !isWide && !isLine;
}

function evenly<Row>({ title }: Column<Row>, index: number): string {
  if (index === 0) return 'md:w-[32%]';
  return title === '' ? 'md:w-32' : '';
}

/** Stands for a value that a row does not have. A phone has no columns, so nothing is missing there. */
export function Dash(): ReactNode {
  return (
    <span data-dash className="text-muted max-md:hidden">
      –
    </span>
  );
}

/** Says that something has not happened. On a phone it goes on from its label. */
export function Never(): ReactNode {
  return <span className="text-muted max-md:lowercase">Never</span>;
}

export function Table<Row>(props: Props<Row>): ReactNode {
  const { label, columns: all, rows, keyOf, groupOf, isChosen, isEven } = props;
  const columns = all.filter(({ isHidden }) => !isHidden);
  const groupBefore = (at: number) => (at === 0 ? null : groupOf?.(rows[at - 1]!));
  const named = columns.findIndex(({ isNarrow, isState }) => !isNarrow && !isState);
  return (
    <div
      className="relative shrink-0 overflow-x-auto"
      tabIndex={0}
      role="region"
      aria-label={label}
    >
      {/* Roles, because a browser may not take what is laid out as lines for a table. */}
      <table
        role="table"
        className={`w-full text-sm max-md:block ${isEven ? 'md:table-fixed' : ''}`}
      >
        <thead role="rowgroup" className="max-md:sr-only">
          <tr role="row" className="text-xs text-muted">
            {columns.map((column, index) => (
              <th
                key={column.title}
                role="columnheader"
                scope="col"
                className={`${lookOf(column, index - named, isEven)} h-8.5! font-medium whitespace-nowrap`}
              >
                {column.head ??
                  (column.title === '' || column.isNarrow ? (
                    <span className="sr-only">{column.title || 'Actions'}</span>
                  ) : (
                    column.title
                  ))}
              </th>
            ))}
          </tr>
        </thead>
        <tbody role="rowgroup" className="max-md:block">
          {rows.map((row, at) => (
            <Fragment key={keyOf(row)}>
              {groupOf && groupOf(row) !== groupBefore(at) && (
                <GroupName name={groupOf(row)} columns={columns.length} />
              )}
              <tr role="row" data-chosen={isChosen?.(row) || undefined} className={ROW}>
                {columns.map((column, index) => (
                  <td
                    key={column.title}
                    role="cell"
                    data-title={column.isPlain ? undefined : column.title}
                    data-below={isBelow(column, index - named) || undefined}
                    className={lookOf(column, index - named, isEven)}
                  >
                    {column.cell(row)}
                  </td>
                ))}
              </tr>
            </Fragment>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function GroupName({ name, columns }: { name: string; columns: number }): ReactNode {
  return (
    <tr role="row" className="border-t border-line max-md:block max-md:first:border-t-0">
      <th
        role="rowheader"
        scope="rowgroup"
        colSpan={columns}
        className="bg-sunken px-(--page-x) py-1.5 text-left text-xs font-semibold text-muted max-md:block"
      >
        {name}
      </th>
    </tr>
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
