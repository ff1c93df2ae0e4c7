/**
 * Compares two versions in one run: the version of a commit and the current one. Each has its own service. They take
 * turns within each round (old, new, new, old, …), so that other load and a warming processor affect both. The load
 * generators and the sink are those of the current version.
 */
import { endToEndKinds, type EndToEndCounts, said, shareOf } from './end-to-end.ts';
import { describeMachine } from './machine.ts';
import { median, ratiosOf, show } from './numbers.ts';
import type { Row } from './options.ts';
import { Checkout } from './parts/checkout.ts';
import { Sink } from './parts/children.ts';
import { Rig } from './parts/rig.ts';
import { acceptRound, endToEndRound, perSeconds, type Rate, type RateOptions } from './rates.ts';
import { alignColumns, cpuLine, type CpuLine, formatCpu, formatMachine } from './report.ts';
import type { Machine } from './machine.ts';

type Side = 'old' | 'new';
type Kind = {
  what: string;
  load: RateOptions;
  run: (side: Side, load: RateOptions) => Promise<Rate>;
};

type ComparedLine = {
  what: string;
  /** Messages per second, one value for each round. */
  old: readonly number[];
  new: readonly number[];
  /** Median over the rounds of the ratio new to old. */
  ratio: number;
};

export type Comparison = {
  machine: Machine;
  commit: string;
  lines: readonly ComparedLine[];
  cpu: readonly CpuLine[];
};

export type CompareOptions = {
  commit: string;
  workers: number;
  rounds: number;
  only: readonly Row[] | null;
  counts: EndToEndCounts & { accept: number };
};

export async function compareVersions(
  options: CompareOptions,
  say: (line: string) => void,
): Promise<Comparison> {
  const machine = describeMachine();
  say(`checking out ${options.commit}`);
  using checkout = await Checkout.of(options.commit);
  const lines: ComparedLine[] = [];
  const cpu: CpuLine[] = [];
  for (const measureAll of [compareAccept, compareEndToEnd]) {
    const found = await measureAll(options, checkout, say);
    for (const [what, { old, new: present }] of found) {
      const [before, after] = [perSeconds(old), perSeconds(present)];
      lines.push({ what, old: before, new: after, ratio: median(ratiosOf(after, before)) });
      cpu.push(...cpuLine(`${what}, old`, old), ...cpuLine(`${what}, new`, present));
    }
  }
  return { machine, commit: options.commit, lines, cpu };
}

type Found = ReadonlyMap<string, Record<Side, Rate[]>>;

async function compareAccept(
  options: CompareOptions,
  { launcher, env }: Checkout,
  say: (line: string) => void,
): Promise<Found> {
  if (options.only !== null && !options.only.includes('accept')) return new Map();
  const rigOptions = { workers: options.workers, mxPort: 9, only: 'api' };
  await using old = await Rig.start({ ...rigOptions, launcher, env });
  await using present = await Rig.start(rigOptions);
  const rigs = { old, new: present };
  const kind: Kind = {
    what: 'accept only, 2 KB',
    load: { count: options.counts.accept, htmlBytes: 2_048 },
    run: (side, load) => acceptRound(rigs[side], load),
  };
  return await alternate([kind], options.rounds, say);
}

async function compareEndToEnd(
  options: CompareOptions,
  { launcher, env }: Checkout,
  say: (line: string) => void,
): Promise<Found> {
  const measured = endToEndKinds(options.only, options.counts);
  if (measured.length === 0) return new Map();
  await using sink = await Sink.start();
  const rigOptions = { workers: options.workers, mxPort: sink.port };
  await using old = await Rig.start({ ...rigOptions, launcher, env });
  await using present = await Rig.start(rigOptions);
  const rigs = { old, new: present };
  const kinds = measured.map(({ what, fullLoad }): Kind => {
    const run: Kind['run'] = (side, load) => endToEndRound({ rig: rigs[side], sink }, load);
    return { what: `end to end, ${what}`, load: fullLoad, run };
  });
  return await alternate(kinds, options.rounds, say);
}

/** Runs both versions in turn. Round 0 warms up and is not counted. */
async function alternate(
  kinds: readonly Kind[],
  rounds: number,
  say: (line: string) => void,
): Promise<Found> {
  const found = new Map(kinds.map(({ what }) => [what, { old: [] as Rate[], new: [] as Rate[] }]));
  for (let round = 0; round <= rounds; round += 1) {
    const turns = kinds.flatMap((kind) => orderOf(round).map((side) => ({ ...kind, side })));
    for (const { what, load, run, side } of turns) {
      const rate = await run(side, shareOf(load, round === 0 ? 0.5 : 1));
      say(`  ${round === 0 ? 'warming up, ' : ''}${what}, ${side}: ${said(rate)}`);
      if (round > 0) found.get(what)![side].push(rate);
    }
  }
  return found;
}

/** Returns the order of the two versions in a round. It alternates, so that neither version is always second. */
export function orderOf(round: number): readonly Side[] {
  return round % 2 === 0 ? ['new', 'old'] : ['old', 'new'];
}

export function formatComparison({ machine, commit, lines, cpu }: Comparison): string {
  const rows = lines.map(({ what, old, new: present, ratio }) => {
    const ratios = ratiosOf(present, old);
    const range = [Math.min(...ratios), Math.max(...ratios)].map((one) => one.toFixed(2));
    const rates = [show(median(old)), show(median(present))];
    return [what, '/s', ...rates, ratio.toFixed(3), range.join(' – ')];
  });
  return [
    formatMachine(machine),
    '',
    alignColumns([['', '', `old: ${commit}`, 'new', 'ratio', 'min – max'], ...rows]),
    ...formatCpu(cpu),
    '',
  ].join('\n');
}
