/**
 * The course of a value over the parts of a period: a step for each part, so that a single part is visible and a part
 * without a value is a gap. It is always shown with its figures.
 */
import type { ReactNode } from 'react';

/** The step line as a path, in a box of one unit for each value and 100 units of height. */
export function stepPath(values: readonly (number | null)[], max: number): string {
  let isDrawing = false;
  return values
    .map((value, index) => {
      if (value === null) {
        isDrawing = false;
        return '';
      }
      const y = heightOf(value, max).toFixed(1);
      const start = isDrawing ? `V${y}` : `M${index} ${y}`;
      isDrawing = true;
      return `${start}H${index + 1}`;
    })
    .join('');
}

/** Down from the top, in hundredths. */
export function heightOf(value: number, max: number): number {
  return max === 0 ? 100 : 100 - (Math.min(value, max) / max) * 100;
}

/** The area below the steps. */
function areaPath(values: readonly (number | null)[], max: number): string {
  return values
    .map((value, index) =>
      value === null ? '' : `M${index} 100V${heightOf(value, max).toFixed(1)}H${index + 1}V100Z`,
    )
    .join('');
}

/** A course that changes by less of its scale is a flat line, which says nothing. */
const CHANGE_SEEN = 0.1;

/**
 * A small course below a figure, with its scale. Shows nothing for a course that hardly changes.
 * @param props.limit is drawn as a dashed line
 * @param props.min the lower end of the scale
 * @param props.max the upper end of the scale; by default the highest value or the limit
 */
export function Sparkline(props: {
  values: readonly (number | null)[];
  format: (value: number) => string;
  limit?: number | undefined;
  min?: number;
  max?: number;
}): ReactNode {
  const { values, format, limit, min = 0 } = props;
  const known = values.filter((value) => value !== null);
  const max = props.max ?? Math.max(...known, limit ?? 0);
  const change = Math.max(...known) - Math.min(...known);
  // A single step would be a dash without a beginning.
  if (known.length < 2 || change === 0 || change < CHANGE_SEEN * (max - min)) return null;
  const shown = values.map((value) => (value === null ? null : value - min));
  return (
    <div aria-hidden className="mt-3 flex items-stretch gap-2">
      <svg
        viewBox={`0 0 ${values.length} 100`}
        preserveAspectRatio="none"
        className="block h-8 min-w-0 grow overflow-visible"
      >
        {limit !== undefined && (
          <path
            d={`M0 ${heightOf(limit - min, max - min)}H${values.length}`}
            className="fill-none stroke-control [stroke-dasharray:3_3]"
            vectorEffect="non-scaling-stroke"
          />
        )}
        <path
          d={areaPath(shown, max - min)}
          className="fill-(--tone,var(--color-muted)) opacity-12"
        />
        <path
          d={stepPath(shown, max - min)}
          className="fill-none stroke-(--tone,var(--color-muted)) stroke-[1.5]"
          vectorEffect="non-scaling-stroke"
        />
      </svg>
      <span className="-my-1.5 flex min-w-9 flex-col justify-between text-right text-xs leading-none text-muted tabular-nums">
        <span>{format(max)}</span>
        <span>{format(min)}</span>
      </span>
    </div>
  );
}
