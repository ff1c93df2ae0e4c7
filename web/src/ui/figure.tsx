/** A number with its name, its change and its limit. Figures stand together in one row. */
import type { ReactNode } from 'react';
import type { Tone } from './tone.ts';

/** On a phone a figure that has a row of its own has its course beside it, as wide as those above. */
const WIDE =
  'max-sm:[&>:last-child:nth-child(odd)>dd]:flex-row max-sm:[&>:last-child:nth-child(odd)>dd]:gap-x-8 max-sm:[&>:last-child:nth-child(odd)>dd>div]:flex-1';

/** The row of figures. */
export function Figures({ label, children }: { label: string; children: ReactNode }): ReactNode {
  return (
    <dl
      aria-label={label}
      className={`grid shrink-0 grid-cols-[repeat(auto-fit,minmax(8rem,1fr))] overflow-hidden rounded-card border border-line bg-surface max-sm:grid-cols-2 max-sm:*:last:odd:col-span-2 ${WIDE}`}
    >
      {children}
    </dl>
  );
}

/**
 * @param props.delta the change since the period before, like "+2.3 pts"
 * @param props.limit what the number is measured by, like "347 · limit 2 %"
 * @param props.tone colours the number, and its change, when it is beyond its limit
 * @param props.children at the bottom, like a line of its course, which is in line with those beside it
 */
export function Figure(props: {
  label: ReactNode;
  value: ReactNode;
  delta?: ReactNode;
  limit?: ReactNode;
  tone?: Tone | undefined;
  size?: 'normal' | 'small';
  children?: ReactNode;
}): ReactNode {
  const { label, value, delta, limit, tone, size = 'normal', children } = props;
  return (
    <div
      data-tone={tone}
      className="relative flex min-w-0 flex-col px-4 py-3 shadow-[1px_1px_var(--color-line)]"
    >
      <dt className="text-sm text-muted">{label}</dt>
      <dd className="flex grow flex-col">
        <div className="min-w-0">
          <span className="flex flex-wrap items-baseline gap-x-2">
            <span
              className={`font-semibold tabular-nums ${size === 'small' ? 'text-xl' : 'text-2xl'} ${tone ? 'text-(--tone)' : ''}`}
            >
              {value}
            </span>
            {delta && (
              <span
                className={`text-xs font-medium whitespace-nowrap tabular-nums ${tone ? 'text-(--tone)' : 'text-muted'}`}
              >
                {delta}
              </span>
            )}
          </span>
          {limit && <span className="block text-xs text-balance text-muted">{limit}</span>}
        </div>
        {children && <div className="mt-auto min-w-0">{children}</div>}
      </dd>
    </div>
  );
}
