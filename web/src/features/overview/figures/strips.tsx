/**
 * Lines below the bars, each on its own scale, because beside the volume they would be too small: the share of bounces
 * with its limit, and the deferred attempts.
 */
import type { ReactNode } from 'react';
import type { Tone } from '../../../ui/tone.ts';
import { type CountedPart, number, percent, sharesOf, sum } from './figures.ts';
import { heightOf, stepPath } from './step-line.tsx';

export function BounceStrip(props: {
  parts: readonly CountedPart[];
  limit: number | undefined;
}): ReactNode {
  const { parts, limit } = props;
  const values = sharesOf(parts, 'bounced');
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  const max = Math.max(highest * 1.1, (limit ?? 0) * 1.6, 0.01);
  const above = limit === undefined ? 0 : known.filter((value) => value > limit).length;
  const label = `Bounce rate: at most ${percent(highest)}${
    limit === undefined ? '' : `, ${above} of ${parts.length} above the limit of ${percent(limit)}`
  }`;
  return (
    <Strip
      title="Bounce rate"
      tone="bad"
      label={label}
      values={values}
      max={max}
      maxText={percent(max)}
      limit={limit}
      about={
        limit !== undefined && (
          <>
            <svg width="16" height="8" aria-hidden>
              <path d="M0 4H16" className="stroke-bad [stroke-dasharray:3_3]" />
            </svg>
            Limit {percent(limit)}
          </>
        )
      }
    />
  );
}

/** Shows nothing for a period without deferred attempts. */
export function DeferralStrip({ parts }: { parts: readonly CountedPart[] }): ReactNode {
  const values = parts.map(({ deferred }) => deferred);
  const total = sum(parts).deferred;
  if (total === 0) return null;
  const highest = Math.max(...values);
  return (
    <Strip
      title="Deferred attempts"
      tone="wait"
      label={`Deferred attempts: ${number(total)}, at most ${number(highest)} in a part`}
      values={values}
      max={highest * 1.1}
      maxText={number(highest)}
      about={`${number(total)}, retried automatically`}
    />
  );
}

function Strip(props: {
  title: string;
  tone: Tone;
  label: string;
  values: readonly (number | null)[];
  max: number;
  maxText: string;
  limit?: number | undefined;
  about: ReactNode;
}): ReactNode {
  const { title, tone, label, values, max, maxText, limit, about } = props;
  return (
    <div className="mt-4" data-tone={tone}>
      <p className="mb-2 flex flex-wrap items-center gap-x-2 text-sm font-medium">
        {title}
        {about && (
          <span className="flex items-center gap-1.5 text-xs font-normal text-muted">{about}</span>
        )}
      </p>
      <div className="relative pr-12">
        <svg
          role="img"
          aria-label={label}
          viewBox={`0 0 ${values.length} 100`}
          preserveAspectRatio="none"
          className="block h-14 w-full border-b border-edge"
        >
          {limit !== undefined && <AboveLimit values={values} limit={limit} max={max} />}
          <path
            d={stepPath(values, max)}
            className="fill-none stroke-(--tone) stroke-[1.5]"
            vectorEffect="non-scaling-stroke"
          />
        </svg>
        {/* In line with the axis of the bars above (bars.tsx). */}
        <span className="absolute inset-y-0 right-1 flex flex-col justify-between text-right text-xs leading-none text-muted tabular-nums">
          <span>{maxText}</span>
          <span>0</span>
        </span>
      </div>
    </div>
  );
}

function AboveLimit(props: {
  values: readonly (number | null)[];
  limit: number;
  max: number;
}): ReactNode {
  const { values, limit, max } = props;
  return (
    <>
      {values.map((value, index) =>
        value === null || value <= limit ? null : (
          <rect key={index} x={index} width={1} height={100} className="fill-(--tone-tint)" />
        ),
      )}
      <path
        d={`M0 ${heightOf(limit, max)}H${values.length}`}
        className="fill-none stroke-(--tone) [stroke-dasharray:3_3]"
        vectorEffect="non-scaling-stroke"
      />
    </>
  );
}
