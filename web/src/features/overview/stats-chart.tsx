/** Outcomes over time. The table below the chart has the same figures for screen readers. */
import { type ReactNode, useEffect, useRef } from 'react';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Stats } from '../../../../sdk/src/api.ts';
import type { Range } from './ranges.ts';

const HEIGHT_PX = 240;
const SERIES = [
  ['Delivered', '--color-good', ({ delivered, sent }: Period) => delivered + sent],
  ['Deferred', '--color-wait', ({ deferred }: Period) => deferred],
  ['Bounced', '--color-bad', ({ bounced, failed }: Period) => bounced + failed],
  ['Complained', '--color-spam', ({ complained }: Period) => complained],
] as const;

type Period = Stats['data'][number];

export function StatsChart({ data, range }: { data: Stats; range: Range }): ReactNode {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current!;
    let chart = draw(element, data, range);
    const resized = new ResizeObserver(() => {
      chart.setSize({ width: element.clientWidth, height: HEIGHT_PX });
    });
    resized.observe(element);
    // The colours of a canvas do not follow the theme by themselves.
    const dark = matchMedia('(prefers-color-scheme: dark)');
    const redraw = (): void => {
      chart.destroy();
      chart = draw(element, data, range);
    };
    dark.addEventListener('change', redraw);
    const themed = new MutationObserver(redraw);
    themed.observe(document.documentElement, { attributeFilter: ['data-theme'] });
    return () => {
      resized.disconnect();
      themed.disconnect();
      dark.removeEventListener('change', redraw);
      chart.destroy();
    };
  }, [data, range]);
  return (
    <div className="px-4 pt-4">
      <div
        ref={frame}
        role="img"
        aria-label={`Recipients in the last ${range.label}, by outcome`}
        className="min-w-0 overflow-hidden"
      />
    </div>
  );
}

function draw(element: HTMLElement, data: Stats, range: Range): uPlot {
  const { periodMs, periods } = range;
  const last = Math.floor(Date.now() / periodMs) * periodMs;
  const times = Array.from(
    { length: periods },
    (_, index) => last - (periods - 1 - index) * periodMs,
  );
  const byTime = new Map(data.data.map((period) => [Date.parse(period.period), period]));
  const columns = SERIES.map(([, , count]) =>
    times.map((time) => {
      const period = byTime.get(time);
      return period ? count(period) : 0;
    }),
  );
  const muted = colourOf(element, '--color-muted');
  const line = colourOf(element, '--color-line');
  const axis = {
    stroke: muted,
    grid: { stroke: line, width: 1 },
    ticks: { show: false },
    font: '12px system-ui',
  };
  return new uPlot(
    {
      width: element.clientWidth,
      height: HEIGHT_PX,
      cursor: { y: false, drag: { setScale: false } },
      legend: { live: true },
      scales: { y: { range: (_chart, _min, max) => [0, Math.max(4, max * 1.1)] } },
      // The last time would be cut off at the edge.
      padding: [null, 28, null, null],
      axes: [axis, { ...axis, size: (_chart, values) => widthOf(values) }],
      series: [
        { label: 'Time', value: (_chart, seconds) => shownTime(seconds, range) },
        ...SERIES.map(([label, colour]) => {
          const stroke = colourOf(element, colour);
          const value = (_chart: uPlot, count: number | null) => count?.toLocaleString() ?? '';
          return { label, stroke, width: 1.75, points: { show: false }, value };
        }),
      ],
    },
    [times.map((time) => time / 1000), ...columns],
    element,
  );
}

/** Pixels that the longest number of the axis takes. */
function widthOf(values: readonly string[] | null): number {
  const longest = Math.max(0, ...(values ?? []).map(({ length }) => length));
  return Math.max(44, 16 + longest * 7.5);
}

/** The time of the point under the pointer; null: there is none. */
function shownTime(seconds: number | null, { granularity }: Range): string {
  if (seconds === null) return '';
  const date = { month: 'short', day: 'numeric' } as const;
  const time = granularity === 'hour' ? ({ hour: '2-digit', minute: '2-digit' } as const) : {};
  return new Date(seconds * 1000).toLocaleString(undefined, { ...date, ...time });
}

/** A canvas needs a colour without variables. */
function colourOf(element: HTMLElement, name: string): string {
  const before = element.style.color;
  element.style.color = `var(${name})`;
  const { color } = getComputedStyle(element);
  element.style.color = before;
  return color;
}
