/** The filters that both logs have: a person, and days of this member's own zone. */
import { useQuery } from '@tanstack/react-query';
import type { ReactNode } from 'react';
import { useApi } from '../../api/scope.ts';
import { INPUT } from '../../ui/field.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { dayOf } from './log-days.ts';

/** The row of filters above a log. On a phone they stand in two columns. */
export function Filters({ children }: { children: ReactNode }): ReactNode {
  return (
    <div
      role="group"
      aria-label="Filter"
      className="flex flex-wrap items-center gap-2 max-sm:grid max-sm:grid-cols-2 max-sm:[&_select]:w-full! max-sm:[&>button]:col-span-2 max-sm:[&>button]:justify-self-start max-sm:[&>button]:-ml-3 max-sm:[&>select:last-of-type:nth-of-type(odd)]:col-span-2"
    >
      {children}
    </div>
  );
}

export function MemberFilter(props: {
  actor: string | undefined;
  onChoose: (actor: string) => void;
}): ReactNode {
  const members =
    useQuery(useApi().query('listMembers', { query: { limit: 100 } })).data?.data ?? [];
  const { actor = '', onChoose } = props;
  const isListed = members.some(({ id }) => id === actor);
  return (
    <InlineSelect
      label="Person"
      value={actor}
      onChange={onChoose}
      options={[
        ['', 'Everybody'],
        ...members.map(({ id, name }) => [id, name] as const),
        ...(actor !== '' && !isListed ? [[actor, 'One person or key'] as const] : []),
      ]}
    />
  );
}

type ShownDays = { from?: string | undefined; to?: string | undefined };

/** Days by name, and any two days. */
export function DayFilter(props: {
  days: ShownDays;
  onChoose: (days: { from: string; to: string }) => void;
}): ReactNode {
  const { from = '', to = '' } = props.days;
  const named = NAMED_DAYS.find(([, ago]) => from === dayOf(ago) && to === from)?.[0] ?? '';
  const chooseNamed = (name: string): void => {
    const ago = NAMED_DAYS.find(([one]) => one === name)?.[1];
    const day = ago === undefined ? '' : dayOf(ago);
    props.onChoose({ from: day, to: day });
  };
  return (
    <>
      <InlineSelect
        label="Day"
        value={named}
        onChange={chooseNamed}
        options={[['', from === '' && to === '' ? 'Any day' : 'Chosen days'], ...NAMES]}
      />
      <span className="flex gap-2 max-sm:col-span-2 max-sm:grid max-sm:grid-cols-2">
        <Day label="From" value={from} onChoose={(day) => props.onChoose({ from: day, to })} />
        <Day label="To" value={to} onChoose={(day) => props.onChoose({ from, to: day })} />
      </span>
    </>
  );
}

const NAMED_DAYS = [
  ['today', 0, 'Today'],
  ['yesterday', 1, 'Yesterday'],
] as const;
const NAMES = NAMED_DAYS.map(([name, , words]) => [name, words] as const);

function Day(props: { label: string; value: string; onChoose: (day: string) => void }): ReactNode {
  return (
    <label className="flex min-w-0 items-center gap-1.5 text-sm text-muted max-sm:flex-col max-sm:items-stretch max-sm:gap-0.5">
      {props.label}
      <input
        type="date"
        value={props.value}
        onChange={({ target }) => props.onChoose(target.value)}
        className={`${INPUT} w-auto! min-w-0 grow text-text`}
      />
    </label>
  );
}
