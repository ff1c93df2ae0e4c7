/** The filters that both logs have: a person, and days of this member's own zone. */
import { useQuery } from '@tanstack/react-query';
import { Fragment, type ReactNode, useState } from 'react';
import { useApi } from '../../api/scope.ts';
import { Button } from '../../ui/button.tsx';
import { useFadedEdges } from '../../ui/faded-edges.ts';
import { INPUT } from '../../ui/field.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { dayOf } from './log-days.ts';

/**
 * The row of filters above a log. Where it is wider than a phone it scrolls.
 * @param props.onClear null: nothing is filtered
 */
export function Filters(props: { onClear: (() => void) | null; children: ReactNode }): ReactNode {
  const { onClear, children } = props;
  const row = useFadedEdges<HTMLDivElement>();
  const [clearings, setClearings] = useState(0);
  return (
    <div
      ref={row}
      role="group"
      aria-label="Filter"
      className="-m-1 flex items-center gap-2 p-1 max-md:overflow-x-auto max-md:[scrollbar-width:none] max-md:*:shrink-0 md:flex-wrap"
    >
      {/* Fields of days that were wanted are gone as well. */}
      <Fragment key={clearings}>{children}</Fragment>
      {onClear !== null && (
        <Button
          look="quiet"
          onClick={() => {
            setClearings(clearings + 1);
            onClear();
          }}
        >
          Clear filters
        </Button>
      )}
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

/** Days by name, and any two days, which have fields once they are wanted. */
export function DayFilter(props: {
  days: ShownDays;
  onChoose: (days: { from: string; to: string }) => void;
}): ReactNode {
  const { from = '', to = '' } = props.days;
  const [isAsked, setAsked] = useState(false);
  const named = NAMED_DAYS.find(([, ago]) => from === dayOf(ago) && to === from)?.[0];
  const hasDays = named === undefined && (isAsked || from !== '' || to !== '');
  const choose = (name: string): void => {
    setAsked(name === CHOSEN);
    const ago = NAMED_DAYS.find(([one]) => one === name)?.[1];
    const day = ago === undefined ? '' : dayOf(ago);
    if (name !== CHOSEN) props.onChoose({ from: day, to: day });
    else if (named !== undefined) props.onChoose({ from: '', to: '' });
  };
  return (
    <>
      <InlineSelect
        label="Day"
        value={named ?? (hasDays ? CHOSEN : '')}
        onChange={choose}
        options={[['', 'Any day'], ...NAMES, [CHOSEN, 'Other days']]}
      />
      {hasDays && (
        <span className="flex gap-2">
          <Day label="From" value={from} onChoose={(day) => props.onChoose({ from: day, to })} />
          <Day label="To" value={to} onChoose={(day) => props.onChoose({ from, to: day })} />
        </span>
      )}
    </>
  );
}

const CHOSEN = 'chosen';
const NAMED_DAYS = [
  ['today', 0, 'Today'],
  ['yesterday', 1, 'Yesterday'],
] as const;
const NAMES = NAMED_DAYS.map(([name, , words]) => [name, words] as const);

function Day(props: { label: string; value: string; onChoose: (day: string) => void }): ReactNode {
  return (
    <label className="flex min-w-0 items-center gap-1.5 text-sm text-muted">
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
