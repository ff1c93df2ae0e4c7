/**
 * The bars of the chart: the recipients that ended in each part, on an axis, with the compared period as a step line.
 * Deferred attempts are no part of them, because a deferred recipient ends later.
 */
import { type ReactNode, useId } from 'react';
import type { Tone } from '../../../ui/tone.ts';
import type { Period } from '../periods/periods.ts';
import { type CountedPart, endedOf, marksUpTo, number } from './figures.ts';
import { tickText } from './part-text.ts';
import { heightOf, stepPath } from './step-line.tsx';

export const SERIES = [
  { key: 'delivered', label: 'Delivered', tone: 'good' },
  { key: 'bounced', label: 'Bounced', tone: 'bad' },
] as const satisfies readonly { key: keyof CountedPart; label: string; tone: Tone }[];
export type SeriesKey = (typeof SERIES)[number]['key'];

export type ChartProps = {
  period: Period;
  parts: readonly CountedPart[];
  /** Null: compared with nothing. */
  partsBefore: readonly CountedPart[] | null;
  comparedLabel: string;
};

const HEIGHT = 176;
export function Bars(
  props: ChartProps & {
    shown: number | null;
    onPoint: (index: number) => void;
    onOpen: (index: number, key?: SeriesKey) => void;
  },
): ReactNode {
  const { period, parts, partsBefore, comparedLabel, shown } = props;
  const before = partsBefore?.map(endedOf) ?? [];
  const marks = marksUpTo(Math.max(...parts.map(endedOf), ...before));
  const max = marks.at(-1)!;
  const hatch = useId();
  const step = 100 / parts.length;
  const total = parts.reduce((all, part) => all + endedOf(part), 0);
  const label = `Recipients in the period ${period.label}: ${number(total)} in all${
    partsBefore === null
      ? ''
      : `; ${comparedLabel}: ${number(before.reduce((all, one) => all + one, 0))}`
  }`;
  return (
    <div className="pr-12">
      <svg
        role="img"
        aria-label={label}
        height={HEIGHT + 22}
        className="block w-full overflow-visible text-xs tabular-nums"
      >
        <defs>
          <pattern id={hatch} width="6" height="6" patternUnits="userSpaceOnUse">
            <path d="M-1 7L7 -1M5 7L7 5M-1 1L1 -1" className="stroke-surface stroke-2" />
          </pattern>
        </defs>
        <Axis marks={marks} max={max} />
        {parts.map((part, index) => (
          <Bar
            key={part.startMs}
            part={part}
            x={index * step}
            width={step}
            max={max}
            hatch={hatch}
            isShown={shown === index}
            onPoint={() => props.onPoint(index)}
            onOpen={(key) => props.onOpen(index, key)}
          />
        ))}
        {partsBefore !== null && <Line values={before.slice(0, parts.length)} max={max} />}
        <Ticks period={period} parts={parts} />
      </svg>
    </div>
  );
}

/** Lines at round numbers, which stand at the right. */
function Axis({ marks, max }: { marks: readonly number[]; max: number }): ReactNode {
  return marks.map((mark) => (
    <g key={mark}>
      <line
        x2="100%"
        y1={yOf(mark, max)}
        y2={yOf(mark, max)}
        className={mark === 0 ? 'stroke-edge' : 'stroke-line'}
      />
      <text x="100%" dx="44" y={yOf(mark, max) + 4} textAnchor="end" className="fill-muted">
        {number(mark)}
      </text>
    </g>
  ));
}

function Line({ values, max }: { values: readonly number[]; max: number }): ReactNode {
  return (
    <svg
      height={HEIGHT}
      width="100%"
      viewBox={`0 0 ${values.length} 100`}
      preserveAspectRatio="none"
      className="pointer-events-none overflow-visible"
    >
      <path
        d={stepPath(values, max)}
        className="fill-none stroke-muted"
        vectorEffect="non-scaling-stroke"
      />
    </svg>
  );
}

function yOf(value: number, max: number): number {
  return (heightOf(value, max) / 100) * HEIGHT;
}

function Bar(props: {
  part: CountedPart;
  x: number;
  width: number;
  max: number;
  hatch: string;
  isShown: boolean;
  onPoint: () => void;
  onOpen: (key?: SeriesKey) => void;
}): ReactNode {
  const { part, x, width, max, hatch, isShown } = props;
  const [left, across] = [`${x + width * 0.13}%`, `${width * 0.74}%`];
  let base = 0;
  const segments = SERIES.map((series) => {
    const from = base;
    base += part[series.key];
    return { ...series, y: yOf(base, max), height: yOf(from, max) - yOf(base, max) };
  });
  return (
    <g onMouseEnter={props.onPoint} onClick={() => props.onOpen()} className="cursor-pointer">
      <rect
        x={`${x}%`}
        width={`${width}%`}
        height={HEIGHT}
        className={isShown ? 'fill-hover' : 'fill-transparent'}
      />
      {segments.map(({ key, tone, y, height }) =>
        height <= 0 ? null : (
          <rect
            key={key}
            data-tone={tone}
            x={left}
            y={y}
            width={across}
            height={height}
            className="fill-(--tone-fill)"
            onClick={(event) => {
              event.stopPropagation();
              props.onOpen(key);
            }}
          />
        ),
      )}
      {part.isUnfinished && base > 0 && (
        <rect
          x={left}
          y={yOf(base, max)}
          width={across}
          height={HEIGHT - yOf(base, max)}
          fill={`url(#${hatch})`}
          className="pointer-events-none"
        />
      )}
    </g>
  );
}

/** About eight times below the bars, fewer on a phone. */
function Ticks({ period, parts }: Pick<ChartProps, 'period' | 'parts'>): ReactNode {
  const every = Math.max(1, Math.ceil(parts.length / 8));
  return parts.map((part, index) =>
    index % every !== Math.floor(every / 2) ? null : (
      <text
        key={part.startMs}
        x={`${((index + 0.5) / parts.length) * 100}%`}
        y={HEIGHT + 18}
        textAnchor="middle"
        className={`fill-muted ${Math.floor(index / every) % 2 === 1 ? 'max-sm:hidden' : ''}`}
      >
        {tickText(part, period)}
      </text>
    ),
  );
}
