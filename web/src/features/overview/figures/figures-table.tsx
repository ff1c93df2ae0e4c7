/** The figures of the chart as a table, each part with a link to its emails. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useScope } from '../../../api/scope.ts';
import { Table } from '../../../ui/table.tsx';
import type { Period } from '../periods/periods.ts';
import { emailsIn } from './emails-in.ts';
import { type CountedPart, endedOf, number, percentInColumn, shareOf } from './figures.ts';
import { partText } from './part-text.ts';

export function FiguresTable(props: {
  period: Period;
  parts: readonly CountedPart[];
  partsBefore: readonly CountedPart[] | null;
}): ReactNode {
  const { period, parts, partsBefore } = props;
  const scope = useScope();
  const rows = parts.map((part, index) => ({ part, before: partsBefore?.[index] })).toReversed();
  return (
    <Table
      label="Recipients in the period"
      rows={rows}
      keyOf={({ part }) => String(part.startMs)}
      columns={[
        {
          title: 'Time',
          cell: ({ part }) => (
            <Link
              to="/$project/$environment/emails"
              params={scope}
              search={{ q: emailsIn([part]) }}
              className="cell-link whitespace-nowrap"
            >
              {partText(part, period)}
              {part.isUnfinished && ' (not over yet)'}
            </Link>
          ),
        },
        { title: 'Delivered', isNumber: true, cell: ({ part }) => number(part.delivered) },
        { title: 'Bounced', isNumber: true, cell: ({ part }) => number(part.bounced) },
        {
          title: 'Bounce rate',
          isNumber: true,
          cell: ({ part }) => percentInColumn(shareOf(part, 'bounced')),
        },
        { title: 'Deferred attempts', isNumber: true, cell: ({ part }) => number(part.deferred) },
        {
          title: 'Compared',
          isNumber: true,
          isWide: true,
          isHidden: partsBefore === null,
          cell: ({ before }) => (before === undefined ? '–' : number(endedOf(before))),
        },
      ]}
    />
  );
}
