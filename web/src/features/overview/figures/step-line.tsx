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

/** A small course below a figure. @param props.limit is drawn as a dashed line */
export function Sparkline(props: {
  values: readonly (number | null)[];
  limit?: number | undefined;
}): ReactNode {
  const { values, limit } = props;
  const known = values.filter((value) => value !== null);
  const max = Math.max(...known, limit ?? 0) * 1.1;
  // A single step would be a dash without a beginning.
  if (known.length < 2 || max === 0) return null;
  return (
    <svg
      aria-hidden
      viewBox={`0 -2 ${values.length} 104`}
      preserveAspectRatio="none"
      className="mt-2 block h-7 w-full overflow-visible"
    >
      {limit !== undefined && (
        <path
          d={`M0 ${heightOf(limit, max)}H${values.length}`}
          className="fill-none stroke-control [stroke-dasharray:3_3]"
          vectorEffect="non-scaling-stroke"
        />
      )}
      <path
        d={stepPath(values, max)}
        className="fill-none stroke-(--tone,var(--color-muted)) stroke-[1.5]"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}
