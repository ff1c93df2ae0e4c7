/**
 * Recipients over a period: a bar for each part, the unfinished one hatched, the compared period as a line. Below it
 * are the share of bounces with its limit, and the deferred attempts. A click on a part opens its emails, one on a
 * colour those with that outcome. By keyboard the chart is a slider over the parts, whose value is read out. Enter
 * opens the emails of the part. The table has all figures.
 */
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import { useScope } from '../../../api/scope.ts';
import { Card } from '../../../ui/card.tsx';
import type { Period } from '../periods/periods.ts';
import { Bars, type ChartProps, SERIES, type SeriesKey } from './bars.tsx';

import { emailsIn } from './emails-in.ts';
import { type CountedPart, endedOf, number, outcomesOf } from './figures.ts';
import { FiguresTable } from './figures-table.tsx';
import { partText } from './part-text.ts';
import { BounceStrip, DeferralStrip } from './strips.tsx';

const UNITS = {
  hour: 'hour',
  'six-hours': 'six hours',
  day: 'day',
  'utc-day': 'day (UTC)',
} as const;

type Props = ChartProps & { bounceLimit: number | undefined };

export function VolumeChart(props: Props): ReactNode {
  const { period, parts, partsBefore, comparedLabel } = props;
  const [isTable, setTable] = useState(false);
  return (
    <Card
      title={`Recipients by ${UNITS[period.length]}`}
      actions={
        <>
          <Legend comparedLabel={partsBefore && comparedLabel} />
          <button type="button" onClick={() => setTable(!isTable)} className="link text-sm sm:ml-2">
            {isTable ? 'Show chart' : 'Show table'}
          </button>
        </>
      }
      {...(isTable && {
        wide: <FiguresTable period={period} parts={parts} partsBefore={partsBefore} />,
      })}
    >
      {!isTable && (hasOutcomes(props) ? <Charts {...props} /> : <NoOutcomes />)}
    </Card>
  );
}

function hasOutcomes({ parts, partsBefore }: ChartProps): boolean {
  return [...parts, ...(partsBefore ?? [])].some((part) => outcomesOf(part) > 0);
}

function NoOutcomes(): ReactNode {
  return (
    <p className="text-sm text-muted">
      No email of this period was delivered, deferred or bounced yet.
    </p>
  );
}

function Legend({ comparedLabel }: { comparedLabel: string | null }): ReactNode {
  return (
    <ul className="flex flex-wrap items-center gap-x-4 gap-y-1 text-xs text-muted">
      {SERIES.map(({ label, tone }) => (
        <li key={label} data-tone={tone} className="flex items-center gap-1.5">
          <i className="size-2 rounded-[2px] bg-(--tone-fill)" />
          {label}
        </li>
      ))}
      {comparedLabel !== null && (
        <li className="flex items-center gap-1.5">
          <i className="h-px w-4 bg-muted" />
          {comparedLabel}
        </li>
      )}
    </ul>
  );
}

function Charts(props: Props): ReactNode {
  const { period, parts, bounceLimit } = props;
  const scope = useScope();
  const navigate = useNavigate();
  const [pointed, setPointed] = useState<number | null>(null);
  const [chosen, setChosen] = useState<number | null>(null);
  const shown = pointed ?? chosen;
  const open = (index: number, key?: SeriesKey): void => {
    const part = parts[index];
    if (part === undefined) return;
    const filter = key === undefined ? '' : `status:${key}`;
    void navigate({
      to: '/$project/$environment/emails',
      params: scope,
      search: { q: emailsIn([part], filter) },
    });
  };
  const onKey = (event: KeyboardEvent<HTMLInputElement>): void => {
    if (event.key === 'Enter') open(Number(event.currentTarget.value));
  };
  const last = parts.length - 1;
  return (
    <div className="relative" onMouseLeave={() => setPointed(null)}>
      <input
        type="range"
        min={0}
        max={last}
        value={chosen ?? last}
        aria-label="Part of the period. Enter shows its emails."
        aria-valuetext={partSentence(parts[chosen ?? last]!, period)}
        onChange={(event) => setChosen(Number(event.target.value))}
        onFocus={() => setChosen((now) => now ?? last)}
        onBlur={() => setChosen(null)}
        onKeyDown={onKey}
        className="peer sr-only"
      />
      <div className="relative rounded outline-offset-4 outline-accent peer-focus-visible:outline-2">
        <Bars {...props} shown={shown} onPoint={setPointed} onOpen={open} />
        {shown !== null && <Tip {...props} index={shown} />}
      </div>
      <BounceStrip parts={parts} limit={bounceLimit} />
      <DeferralStrip parts={parts} />
    </div>
  );
}

function partSentence(part: CountedPart, period: Period): string {
  const counts = SERIES.map(({ key, label }) => `${number(part[key])} ${label.toLowerCase()}`);
  return `${partText(part, period)}: ${counts.join(', ')}; ${number(part.deferred)} deferred attempts`;
}

function Tip({
  parts,
  partsBefore,
  comparedLabel,
  period,
  index,
}: Props & { index: number }): ReactNode {
  const part = parts[index];
  if (part === undefined) return null;
  const isRight = index >= parts.length / 2;
  const at = ((index + (isRight ? 0 : 1)) / parts.length) * 100;
  // The bars leave room for the axis.
  const edge = isRight
    ? { right: `calc(3rem + (100% - 3rem) * ${(100 - at) / 100} + 6px)` }
    : { left: `calc((100% - 3rem) * ${at / 100} + 6px)` };
  const before = partsBefore?.[index];
  return (
    <div
      style={edge}
      className="pointer-events-none absolute top-1 z-10 min-w-44 rounded-md bg-raised px-3 py-2 text-xs shadow-float"
    >
      <p className="mb-1 flex justify-between gap-4 font-medium">
        <span className="whitespace-nowrap">{partText(part, period)}</span>
        <span className="tabular-nums">{number(endedOf(part))}</span>
      </p>
      <ul className="space-y-0.5">
        {SERIES.map(({ key, label, tone }) => (
          <li key={key} data-tone={tone} className="flex items-center gap-2">
            <i className="size-2 rounded-[2px] bg-(--tone-fill)" />
            {label}
            <span className="ml-auto tabular-nums">{number(part[key])}</span>
          </li>
        ))}
        {before !== undefined && (
          <li className="flex items-center gap-2 text-muted">
            <i className="h-px w-2 bg-muted" />
            {comparedLabel}
            <span className="ml-auto tabular-nums">{number(endedOf(before))}</span>
          </li>
        )}
        {part.deferred > 0 && (
          <li className="flex items-center gap-2 text-muted" data-tone="wait">
            <i className="h-0.5 w-2 bg-(--tone-fill)" />
            Deferred attempts
            <span className="ml-auto tabular-nums">{number(part.deferred)}</span>
          </li>
        )}
      </ul>
      {part.isUnfinished && <p className="mt-1 text-muted">Not over yet</p>}
    </div>
  );
}
