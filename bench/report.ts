/** Formats the final tables: figures, CPU per message by part, and the machine. */
import type { Machine } from './machine.ts';
import { median, quantile, show } from './numbers.ts';
import type { CpuByPart } from './parts/processes.ts';
import type { Cpu, ProcessCost, Rate } from './rates.ts';

export type Line = {
  what: string;
  unit: '/s' | 'ms' | 'MB' | 's' | '%' | '×';
  /** Goal of the project for this figure. */
  wanted: string;
  /** Values, one for each round or sample. */
  values: readonly number[];
  /** Quantile that the column `figure` shows. Default: the median. */
  share?: number;
  /** Values of Postfix with OpenDKIM from the same rounds. */
  postfix?: readonly number[];
};

/** CPU figures of one kind of round, as medians. */
export type CpuLine = { what: string; cpu: Cpu; messageBytes: number | null };

export type Report = { machine: Machine; lines: readonly Line[]; cpu: readonly CpuLine[] };

export function formatReport({ machine, lines, cpu }: Report): string {
  return [formatMachine(machine), '', alignColumns(figureRows(lines)), ...formatCpu(cpu), ''].join(
    '\n',
  );
}

export function formatMachine(machine: Machine): string {
  const { cpus, memoryGb, kernel, node, postgres, load } = machine;
  return `${cpus}, ${memoryGb} GB, ${kernel}; Node ${node}, PostgreSQL ${postgres}; load average ${load} before`;
}

/** Returns the lines of the CPU tables; none when no CPU figure could be read. */
export function formatCpu(cpu: readonly CpuLine[]): string[] {
  if (cpu.length === 0) return [];
  return [
    '',
    'CPU per message, in µs, and the cores that other programs kept busy:',
    alignColumns(cpuRows(cpu)),
    '',
    'The same by process, with context switches per message:',
    alignColumns(processRows(cpu)),
  ];
}

/** Returns medians over the rounds, by part and by process. */
export function cpuLine(what: string, rates: readonly Rate[]): CpuLine[] {
  const each = rates.map((rate) => rate.cpu).filter((cpu) => cpu !== null);
  if (each.length === 0) return [];
  const byPartUs: CpuByPart = {};
  for (const part of Object.keys(each[0]?.byPartUs ?? {})) {
    byPartUs[part] = median(each.map((cpu) => cpu.byPartUs[part] ?? 0));
  }
  const othersCores = median(each.map((cpu) => cpu.othersCores));
  const bytes = rates.map((rate) => rate.messageBytes).filter((one) => one !== null);
  const messageBytes = bytes.length > 0 ? median(bytes) : null;
  const byName = Map.groupBy(
    each.flatMap(({ processes }) => processes),
    ({ name }) => name,
  );
  const processes = [...byName].map(([name, costs]) => medianCost(name, costs));
  return [{ what, cpu: { byPartUs, othersCores, processes }, messageBytes }];
}

function medianCost(name: string, costs: readonly ProcessCost[]): ProcessCost {
  return {
    name,
    cpuUs: median(costs.map((one) => one.cpuUs)),
    voluntary: median(costs.map((one) => one.voluntary)),
    involuntary: median(costs.map((one) => one.involuntary)),
  };
}

/** Formats a report as JSON for programs. It has every value, and none is rounded. */
export function reportAsJson(report: object): string {
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

/** Microseconds of CPU per message from which a process is in the table. The JSON has all processes. */
const SHOWN_FROM_US = 1;

function processRows(cpu: readonly CpuLine[]): string[][] {
  return [
    ['', 'CPU, µs', 'voluntary', 'involuntary'],
    ...cpu.flatMap(({ what, cpu: { processes } }) => [
      [what, '', '', ''],
      ...processes
        .filter(({ cpuUs }) => cpuUs >= SHOWN_FROM_US)
        .map(({ name, cpuUs, voluntary, involuntary }) => [
          `  ${name}`,
          show(cpuUs),
          voluntary.toFixed(2),
          involuntary.toFixed(2),
        ]),
    ]),
  ];
}

/** Aligns the first column to the left and the others to the right. */
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
