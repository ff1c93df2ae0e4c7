/** The figures of a period, each with its limit, its change and its course. A figure leads to its emails. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Stats } from '../../../../../sdk/src/api.ts';
import { useScope } from '../../../api/scope.ts';
import { inWords } from '../../../lib/time.ts';
import { Figure, Figures } from '../../../ui/figure.tsx';
import type { Tone } from '../../../ui/tone.ts';
import type { RateLimits } from '../findings/findings.ts';
import type { Part } from '../periods/periods.ts';
import { emailsIn } from './emails-in.ts';
import {
  changeOf,
  comparedSums,
  type CountedPart,
  endedOf,
  number,
  percent,
  pointsOf,
  shareOf,
  sharesOf,
  sum,
} from './figures.ts';
import { Sparkline } from './step-line.tsx';

export type PeriodCounts = {
  stats: Stats | undefined;
  before: Stats | undefined;
  parts: readonly CountedPart[];
  /** Null: compared with nothing. */
  partsBefore: readonly CountedPart[] | null;
  /** Name of the period before, like "Day before". */
  comparedLabel: string;
};

/** @param props.limits null while they are not known */
export function Rates(props: { counts: PeriodCounts; limits: RateLimits | null }): ReactNode {
  const { stats, before, parts, partsBefore, comparedLabel } = props.counts;
  const total = sum(parts);
  const compared = comparedSums(parts, partsBefore);
  const rate = (name: 'delivered' | 'bounced' | 'complained', limit?: number) => {
    const share = shareOf(total, name);
    const isAbove = limit !== undefined && share !== null && share > limit;
    return {
      value: percent(share),
      delta: compared && pointsOf(shareOf(compared.now, name), shareOf(compared.before, name)),
      tone: isAbove ? ('bad' as const) : undefined,
      values: sharesOf(parts, name),
      format: percent,
      mark: limit,
      of: `${number(total[name])}${limit === undefined ? ` of ${number(endedOf(total))} that ended` : ` · limit ${percent(limit)}`}`,
    };
  };
  const { limits } = props;
  const shared = { period: parts, comparedLabel };
  const [slowest, slowestBefore] = [slowestOf(stats), slowestOf(before)];
  return (
    <Figures label="Figures of the period">
      <Rate
        {...shared}
        label="Sent to"
        value={number(total.recipients)}
        of={`${total.recipients === 1 ? 'recipient' : 'recipients'}, ${number(total.emails)} ${total.emails === 1 ? 'email' : 'emails'}`}
        delta={compared && changeOf(compared.now.recipients, compared.before.recipients)}
        values={parts.map(({ recipients, isUnfinished }) => (isUnfinished ? null : recipients))}
        format={number}
      />
      <Rate
        {...shared}
        {...rate('delivered')}
        label="Delivered"
        status="delivered"
        scale={deliveredScale(parts)}
      />
      <Rate {...shared} {...rate('bounced', limits?.bounced)} label="Bounced" status="bounced" />
      <Rate
        {...shared}
        {...rate('complained', limits?.complained)}
        label="Complained"
        status="complained"
      />
      <Rate
        {...shared}
        label="95% delivered within"
        value={slowest === null ? '–' : inWords(slowest)}
        of="after acceptance"
        delta={
          compared && slowestBefore !== null && slowestBefore !== slowest
            ? `was ${inWords(slowestBefore)}`
            : null
        }
        values={parts.map(({ slowestS }) => slowestS)}
        format={(seconds) => (seconds === 0 ? '0' : inWords(seconds))}
      />
    </Figures>
  );
}

/** From 90 percent on, where the rate of a healthy project changes, or from the lowest one. */
function deliveredScale(parts: readonly CountedPart[]): { min: number; max: number } {
  const shares = sharesOf(parts, 'delivered').filter((share) => share !== null);
  const lowest = Math.min(0.9, ...shares);
  return { min: Math.floor(lowest * 10) / 10, max: 1 };
}

function slowestOf(stats: Stats | undefined): number | null {
  return stats?.totals[0]?.time_to_delivery.p95_at_most_s ?? null;
}

function Rate(props: {
  label: string;
  value: string;
  of: string;
  delta: string | null;
  tone?: Tone | undefined;
  status?: string;
  values: readonly (number | null)[];
  format: (value: number) => string;
  mark?: number | undefined;
  scale?: { min: number; max: number };
  period: readonly Part[];
  comparedLabel: string;
}): ReactNode {
  const { label, value, of, delta, tone, status, values, format, mark, scale } = props;
  const { period, comparedLabel } = props;
  const scope = useScope();
  const q = emailsIn(period, status === undefined ? '' : `status:${status}`);
  return (
    <Figure
      label={
        <Link
          to="/$project/$environment/emails"
          params={scope}
          search={{ q }}
          className="no-underline after:absolute after:inset-0 hover:text-text"
        >
          {label}
        </Link>
      }
      value={value}
      delta={
        delta && (
          <span title={`Compared with: ${comparedLabel}, without the part that has not ended`}>
            {delta}
          </span>
        )
      }
      limit={of}
      tone={tone}
    >
      <Sparkline values={values} format={format} limit={mark} {...scale} />
    </Figure>
  );
}
