/** The tables at the end: figures, CPU per message by part, and the machine. */
import type { Machine } from './machine.ts';
import { median, quantile, show } from './numbers.ts';
import type { Cpu } from './rates.ts';

export type Line = {
  what: string;
  unit: '/s' | 'ms' | 'MB' | 's' | '%';
  /** The goal of the project. */
  wanted: string;
  /** One per round or sample. */
  values: readonly number[];
  /** What stands in the middle column; default: the median. */
  share?: number;
  /** Postfix with OpenDKIM in the same rounds. */
  postfix?: readonly number[];
};

/** CPU of one kind of round: medians. */
export type CpuLine = { what: string; cpu: Cpu; messageBytes: number | null };

export type Report = { machine: Machine; lines: readonly Line[]; cpu: readonly CpuLine[] };

export function formatReport({ machine, lines, cpu }: Report): string {
  const { cpus, memoryGb, kernel, node, postgres, load } = machine;
  return [
    `${cpus}, ${memoryGb} GB, ${kernel}; Node ${node}, PostgreSQL ${postgres}; load average ${load} before`,
    '',
    alignColumns(figureRows(lines)),
    ...(cpu.length > 0
      ? [
          '',
          'CPU per message, in µs, and the cores that other programs kept busy:',
          alignColumns(cpuRows(cpu)),
        ]
      : []),
    '',
  ].join('\n');
}

/** The same for programs: every value, nothing rounded. */
export function reportAsJson(report: Report): string {
  return `${JSON.stringify(report, null, 2)}\n`;
}

function figureRows(lines: readonly Line[]): string[][] {
  const withPostfix = lines.some((line) => line.postfix);
  const compared = withPostfix ? ['Postfix + OpenDKIM', 'min – max', 'ratio'] : [];
  return [
    ['', '', 'figure', 'min – max', ...compared, 'wanted'],
    ...lines.map((line) => [
      line.what,
      line.unit,
      show(middle(line)),
      range(line.values),
      ...(withPostfix ? comparison(line) : []),
      line.wanted,
    ]),
  ];
}

function middle({ values, share }: Line): number {
  return share === undefined ? median(values) : quantile(values, share);
}

function range(values: readonly number[]): string {
  if (values.length < 2) return '';
  return `${show(Math.min(...values))} – ${show(Math.max(...values))}`;
}

function comparison({ values, postfix }: Line): string[] {
  if (!postfix) return ['', '', ''];
  const ratio = median(values) / median(postfix);
  return [show(median(postfix)), range(postfix), `${ratio.toFixed(1)} ×`];
}

function cpuRows(cpu: readonly CpuLine[]): string[][] {
  const parts = [...new Set(cpu.flatMap((line) => Object.keys(line.cpu.byPartUs)))];
  return [
    ['', ...parts, 'together', 'bytes sent', 'others'],
    ...cpu.map(({ what, cpu: { byPartUs, othersCores }, messageBytes }) => [
      what,
      ...parts.map((part) => (byPartUs[part] === undefined ? '' : show(byPartUs[part]))),
      show(Object.values(byPartUs).reduce((sum, us) => sum + us, 0)),
      messageBytes === null ? '' : show(messageBytes),
      othersCores.toFixed(1),
    ]),
  ];
}

/** The first column to the left, the others to the right. */
export function alignColumns(rows: readonly (readonly string[])[]): string {
  const widths = (rows[0] ?? []).map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  return rows
    .map((row) =>
      row
        .map((cell, column) =>
          column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0),
        )
        .join('  ')
        .trimEnd(),
    )
    .join('\n');
}
