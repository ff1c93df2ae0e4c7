/** The share of bounces over a period with its limit, on its own scale: beside the volume it would be too small. */
import type { ReactNode } from 'react';
import { type CountedPart, percent, shareOf } from './figures.ts';
import { heightOf, stepPath } from './step-line.tsx';

export function BounceStrip(props: {
  parts: readonly CountedPart[];
  limit: number | undefined;
}): ReactNode {
  const { parts, limit } = props;
  const values = parts.map((part) => shareOf(part, 'bounced'));
  const known = values.filter((value) => value !== null);
  if (known.length === 0) return null;
  const highest = Math.max(...known);
  const max = Math.max(highest * 1.1, (limit ?? 0) * 1.6, 0.01);
  const above = limit === undefined ? 0 : known.filter((value) => value > limit).length;
  const label = `Bounce rate: at most ${percent(highest)}${
    limit === undefined ? '' : `, ${above} of ${parts.length} above the limit of ${percent(limit)}`
  }`;
  return (
    <div className="mt-4">
      <p className="mb-2 flex items-center gap-2 text-sm font-medium">
        Bounce rate
        {limit !== undefined && (
          <span className="flex items-center gap-1.5 text-xs font-normal text-muted">
            <svg width="16" height="8" aria-hidden>
              <path d="M0 4H16" className="stroke-bad [stroke-dasharray:3_3]" />
            </svg>
            Limit {percent(limit)}
          </span>
        )}
      </p>
      <div className={`relative pr-12`} data-tone="bad">
        <svg
          role="img"
          aria-label={label}
          viewBox={`0 0 ${parts.length} 100`}
          preserveAspectRatio="none"
          className="block h-14 w-full border-b border-edge"
        >
          {limit !== undefined &&
            values.map((value, index) =>
              value === null || value <= limit ? null : (
                <rect
                  key={parts[index]!.startMs}
                  x={index}
                  width={1}
                  height={100}
                  className="fill-bad-tint"
                />
              ),
            )}
          {limit !== undefined && (
            <path
              d={`M0 ${heightOf(limit, max)}H${parts.length}`}
              className="fill-none stroke-bad [stroke-dasharray:3_3]"
              vectorEffect="non-scaling-stroke"
            />
          )}
          <path
            d={stepPath(values, max)}
            className="fill-none stroke-bad stroke-[1.5]"
            vectorEffect="non-scaling-stroke"
          />
        </svg>
        <span className="absolute top-0 right-0 text-xs text-muted tabular-nums">
          {percent(max)}
        </span>
      </div>
    </div>
  );
}
