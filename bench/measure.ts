/**
 * The measurements in their order. Each starts what it needs and stops it again; rates are measured
 * in rounds that alternate between Posthorn and Postfix.
 */
import { measureBurst } from './burst.ts';
import { Sink } from './parts/children.ts';
import { firstCommandLatencies } from './latency.ts';
import { describeMachine, loadNow } from './machine.ts';
import { idleCpu, memoryWithQueued, memoryWithWaiting } from './memory.ts';
import { median, show } from './numbers.ts';
import type { BenchOptions, Row } from './options.ts';
import { Postfix } from './parts/postfix.ts';
import type { CpuByPart } from './parts/processes.ts';
import { acceptRound, endToEndRound, postfixRound, type Rate, type RateOptions } from './rates.ts';
import type { CpuLine, Line, Report } from './report.ts';
import { Rig } from './parts/rig.ts';
import { startTwice } from './startup.ts';
import { measureBoth, sharesOf } from './submission.ts';
import { measureVariants } from './variants.ts';
import { measureWebhooks } from './webhooks.ts';

type Say = (line: string) => void;
type Measured = { lines: Line[]; cpu?: CpuLine[] };
type Context = { options: BenchOptions; counts: Counts; say: Say };

/** How much is sent. A round takes about ten seconds, or about one with --quick. */
type Counts = {
  starts: number;
  accept: number;
  small: number;
  large: number;
  postfixSmall: number;
  postfixLarge: number;
  variant: number;
  webhooks: number;
  latencyKnown: number;
  latencyNew: number;
  queued: number;
  burst: number;
  waiting: number;
  idleS: number;
};

const FULL: Counts = {
  starts: 3,
  accept: 20_000,
  small: 20_000,
  large: 8_000,
  postfixSmall: 3_000,
  postfixLarge: 2_000,
  variant: 10_000,
  webhooks: 20_000,
  latencyKnown: 200,
  latencyNew: 200,
  queued: 50_000,
  burst: 10_000,
  waiting: 1_000_000,
  idleS: 60,
};

const QUICK: Counts = {
  starts: 1,
  accept: 1_000,
  small: 1_000,
  large: 300,
  postfixSmall: 200,
  postfixLarge: 100,
  variant: 400,
  webhooks: 400,
  latencyKnown: 20,
  latencyNew: 20,
  queued: 2_000,
  burst: 300,
  waiting: 1_000,
  idleS: 1,
};

const STEPS: Record<Row, (context: Context) => Promise<Measured>> = {
  start: measureStart,
  accept: measureAccept,
  batch: measureBatch,
  submission: measureSubmission,
  'end-to-end': measureEndToEnd,
  variants: measureWithMore,
  webhooks: measureHooks,
  latency: measureLatency,
  burst: measureBursts,
  memory: measureMemory,
  million: measureMillion,
};

export async function measure(options: BenchOptions, say: Say): Promise<Report> {
  const context = { options, counts: options.quick ? QUICK : FULL, say };
  const machine = describeMachine();
  const lines: Line[] = [];
  const cpu: CpuLine[] = [];
  for (const [row, step] of Object.entries(STEPS) as [Row, (typeof STEPS)[Row]][]) {
    if (options.only !== null && !options.only.includes(row)) continue;
    say(`${row} (load average ${loadNow()})`);
    const measured = await step(context);
    lines.push(...measured.lines);
    cpu.push(...(measured.cpu ?? []));
  }
  return { machine, lines, cpu };
}

async function measureStart({ options, counts, say }: Context): Promise<Measured> {
  const first: number[] = [];
  const later: number[] = [];
  for (let round = 0; round < counts.starts; round += 1) {
    const { firstMs, laterMs } = await startTwice(options);
    say(`  from nothing ${show(firstMs / 1000)} s, again ${show(laterMs / 1000)} s`);
    first.push(firstMs / 1000);
    later.push(laterMs / 1000);
  }
  return {
    lines: [
      { what: 'start, empty data directory', unit: 's', wanted: '< 4', values: first },
      { what: 'start, later', unit: 's', wanted: '< 1.5', values: later },
    ],
  };
}

async function measureAccept({ options, counts, say }: Context): Promise<Measured> {
  const load = { count: counts.accept, htmlBytes: 2_048 };
  await using rig = await Rig.start({ workers: options.workers, mxPort: 9, only: 'api' });
  await acceptRound(rig, shareOf(load, 0.25));
  const rates: Rate[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rates.push(await acceptRound(rig, load));
    say(`  accept only: ${said(rates.at(-1)!)}`);
  }
  return {
    lines: [{ what: 'accept only, 2 KB', unit: '/s', wanted: '≥ 5,000', values: perSecond(rates) }],
    cpu: cpuLine('accept only, 2 KB', rates),
  };
}

const BATCH = 100;

async function measureBatch({ options, counts, say }: Context): Promise<Measured> {
  const what = 'accept in batches of 100, 2 KB';
  const load = { count: counts.accept, htmlBytes: 2_048, batch: BATCH };
  await using rig = await Rig.start({ workers: options.workers, mxPort: 9, only: 'api' });
  await acceptRound(rig, { ...load, count: BATCH * Math.ceil(counts.accept / BATCH / 4) });
  const rates: Rate[] = [];
  for (let round = 0; round < options.rounds; round += 1) {
    rates.push(await acceptRound(rig, load));
    say(`  ${what}: ${said(rates.at(-1)!)}`);
  }
  return {
    lines: [{ what, unit: '/s', wanted: '≥ 8,000', values: perSecond(rates) }],
    cpu: cpuLine(what, rates),
  };
}

async function measureSubmission({ options, counts, say }: Context): Promise<Measured> {
  const what = 'accept by SMTP, 2 KB';
  const rates = await measureBoth({ count: counts.accept, htmlBytes: 2_048 }, { ...options, say });
  return {
    lines: [
      { what, unit: '/s', wanted: '', values: perSecond(rates.submission) },
      { what: 'accept by SMTP, of HTTP', unit: '%', wanted: '≥ 60', values: sharesOf(rates) },
    ],
    cpu: [...cpuLine('accept by HTTP, 2 KB', rates.accept), ...cpuLine(what, rates.submission)],
  };
}

const SIZES = [
  { what: '2 KB', htmlBytes: 2_048, wanted: '≥ 1,800, 6 ×', counts: ['small', 'postfixSmall'] },
  { what: '20 KB', htmlBytes: 20_480, wanted: '≥ 700, 3 ×', counts: ['large', 'postfixLarge'] },
] as const;

async function measureEndToEnd({ options, counts, say }: Context): Promise<Measured> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers: options.workers, mxPort: sink.port });
  await using postfix = options.postfix ? await Postfix.start(sink.port) : null;
  const sizes = SIZES.map((size) => ({
    ...size,
    load: { count: counts[size.counts[0]], htmlBytes: size.htmlBytes },
    postfixLoad: { count: counts[size.counts[1]], htmlBytes: size.htmlBytes },
    ours: [] as Rate[],
    theirs: [] as Rate[],
  }));
  // Round 0 warms up and is not counted.
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const { what, load, postfixLoad, ours, theirs } of sizes) {
      const share = round === 0 ? 0.25 : 1;
      const rate = await endToEndRound({ rig, sink }, shareOf(load, share));
      const their = postfix && (await postfixRound({ postfix, sink }, shareOf(postfixLoad, share)));
      say(`  ${round === 0 ? 'warming up' : what}: ${compare(rate, their)}`);
      if (round === 0) continue;
      ours.push(rate);
      if (their) theirs.push(their);
    }
  }
  return {
    lines: sizes.map(({ what, wanted, ours, theirs }) => ({
      what: `end to end, ${what}`,
      unit: '/s',
      wanted,
      values: perSecond(ours),
      ...(postfix && { postfix: perSecond(theirs) }),
    })),
    cpu: sizes.flatMap(({ what, ours, theirs }) => [
      ...cpuLine(`end to end, ${what}`, ours),
      ...cpuLine(`Postfix + OpenDKIM, ${what}`, theirs),
    ]),
  };
}

async function measureWithMore({ options, counts, say }: Context): Promise<Measured> {
  const found = await measureVariants({ ...options, count: counts.variant }, say);
  return {
    lines: found.map(({ what, wanted, rates }) => ({
      what: `2 KB, ${what}`,
      unit: '/s',
      wanted,
      values: perSecond(rates),
    })),
    cpu: found.flatMap(({ what, rates }) => cpuLine(`2 KB, ${what}`, rates)),
  };
}

async function measureHooks({ options, counts, say }: Context): Promise<Measured> {
  const { alone, besideDead } = await measureWebhooks({ ...options, count: counts.webhooks }, say);
  const lines: Line[] = [
    { what: 'webhooks to one receiver', unit: '/s', wanted: '≥ 2,000', values: perSecond(alone) },
    {
      what: 'webhooks beside a dead endpoint',
      unit: '/s',
      wanted: '',
      values: perSecond(besideDead),
    },
  ];
  return { lines, cpu: cpuLine('webhooks to one receiver', alone) };
}

async function measureLatency({ options, counts }: Context): Promise<Measured> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers: options.workers, mxPort: sink.port });
  const known = await firstCommandLatencies(
    { rig, sink },
    { count: counts.latencyKnown, to: 'known' },
  );
  const fresh = await firstCommandLatencies({ rig, sink }, { count: counts.latencyNew, to: 'new' });
  const both = (what: string, values: number[]): Line[] => [
    { what: `${what}, median`, unit: 'ms', wanted: '< 10', values },
    { what: `${what}, p99`, unit: 'ms', wanted: '', values, share: 0.99 },
  ];
  return {
    lines: [
      ...both('202 → first SMTP command, known receiver', known),
      ...both('202 → first SMTP command, new receiver', fresh),
    ],
  };
}

async function measureBursts({ options, counts, say }: Context): Promise<Measured> {
  return { lines: await measureBurst({ ...options, count: counts.burst }, say) };
}

async function measureMillion({ options, counts }: Context): Promise<Measured> {
  const idle = await idleCpu(counts.idleS, options);
  const waiting = await memoryWithWaiting(counts.waiting, options);
  if (idle === null || waiting === null) return { lines: [] };
  const many = counts.waiting.toLocaleString('en-US');
  const of = `memory of a worker, ${many} in the table`;
  return {
    lines: [
      { what: 'CPU of all processes, idle', unit: '%', wanted: '< 1', values: [idle] },
      { what: of, unit: 'MB', wanted: '< 300', values: [waiting.nowMb] },
      { what: 'its peak', unit: 'MB', wanted: '', values: [waiting.peakMb] },
    ],
  };
}

async function measureMemory({ options, counts }: Context): Promise<Measured> {
  const memory = await memoryWithQueued(counts.queued, options);
  if (memory === null) return { lines: [] };
  const queued = counts.queued.toLocaleString('en-US');
  return {
    lines: [
      { what: 'memory of a worker, idle', unit: 'MB', wanted: '', values: [memory.idleMb] },
      {
        what: `memory of a worker, ${queued} queued`,
        unit: 'MB',
        wanted: '< 250',
        values: [memory.queuedMb],
      },
      {
        what: 'its peak while they came',
        unit: 'MB',
        wanted: '',
        values: [memory.peakMb],
      },
    ],
  };
}

function shareOf(load: RateOptions, share: number): RateOptions {
  return { ...load, count: Math.ceil(load.count * share) };
}

function perSecond(rates: readonly Rate[]): number[] {
  return rates.map((rate) => rate.perSecond);
}

function compare(ours: Rate, theirs: Rate | null): string {
  if (theirs === null) return `Posthorn ${said(ours)}`;
  const ratio = (ours.perSecond / theirs.perSecond).toFixed(1);
  return `Posthorn ${said(ours)}, Postfix + OpenDKIM ${said(theirs)}, ratio ${ratio}`;
}

function said({ perSecond: rate, cpu }: Rate): string {
  return `${show(rate)}/s${cpu ? ` (others: ${cpu.othersCores.toFixed(1)} cores)` : ''}`;
}

/** Medians over the rounds, part by part. */
function cpuLine(what: string, rates: readonly Rate[]): CpuLine[] {
  const each = rates.map((rate) => rate.cpu).filter((cpu) => cpu !== null);
  if (each.length === 0) return [];
  const byPartUs: CpuByPart = {};
  for (const part of Object.keys(each[0]?.byPartUs ?? {})) {
    byPartUs[part] = median(each.map((cpu) => cpu.byPartUs[part] ?? 0));
  }
  const othersCores = median(each.map((cpu) => cpu.othersCores));
  const bytes = rates.map((rate) => rate.messageBytes).filter((one) => one !== null);
  const messageBytes = bytes.length > 0 ? median(bytes) : null;
  return [{ what, cpu: { byPartUs, othersCores }, messageBytes }];
}
