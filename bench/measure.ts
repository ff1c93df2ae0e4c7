/**
 * Runs the measurements in order. Each measurement starts the processes that it needs and stops them again.
 * measureEndToEnd alternates the rounds of Letterhaus and Postfix.
 */
import { measureAttachments } from './attachments.ts';
import { measureBurst } from './burst.ts';
import { Sink } from './parts/children.ts';
import type { CompareOptions } from './compare.ts';
import { type EndToEndCounts, measureEndToEnd, said, shareOf } from './end-to-end.ts';
import { measureEvents } from './events.ts';
import { firstCommandLatencies } from './latency.ts';
import { describeMachine, loadNow } from './machine.ts';
import { idleCpu, memoryWithQueued, memoryWithWaiting } from './memory.ts';
import { show } from './numbers.ts';
import { type BenchOptions, END_TO_END_ROWS, type EndToEndRow, type Row } from './options.ts';
import { acceptRound, perSeconds, type Rate } from './rates.ts';
import { cpuLine, type CpuLine, type Line, type Report } from './report.ts';
import { Rig } from './parts/rig.ts';
import { startTwice } from './startup.ts';
import { measureBoth, sharesOf } from './submission.ts';
import { measureVariants } from './variants.ts';
import { measureWebhooks } from './webhooks.ts';

type Say = (line: string) => void;
type Measured = { lines: Line[]; cpu?: CpuLine[] };
type Context = { options: BenchOptions; counts: Counts; say: Say };

/** The rows of end-to-end.ts form one step, so that they alternate. */
type Step = Exclude<Row, EndToEndRow> | 'end-to-end';

/** Counts of messages, and other sizes of a round. A round takes about ten seconds, or about one with --quick. */
type Counts = EndToEndCounts & {
  starts: number;
  accept: number;
  attachments: number;
  variant: number;
  webhooks: number;
  events: number;
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
  attachments: 400,
  small: 20_000,
  large: 8_000,
  postfixSmall: 3_000,
  postfixLarge: 2_000,
  variant: 10_000,
  webhooks: 20_000,
  events: 50_000,
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
  attachments: 32,
  small: 1_000,
  large: 300,
  postfixSmall: 200,
  postfixLarge: 100,
  variant: 400,
  webhooks: 400,
  events: 1_000,
  latencyKnown: 20,
  latencyNew: 20,
  queued: 2_000,
  burst: 300,
  waiting: 1_000,
  idleS: 1,
};

const STEPS: Record<Step, (context: Context) => Promise<Measured>> = {
  start: measureStart,
  accept: measureAccept,
  batch: measureBatch,
  attachments: measureWithAttachments,
  submission: measureSubmission,
  'end-to-end': measureAllEndToEnd,
  variants: measureWithMore,
  webhooks: measureHooks,
  events: measureReading,
  latency: measureLatency,
  burst: measureBursts,
  memory: measureMemory,
  million: measureMillion,
};

/** Share of a full round in a comparison. Many short rounds measure a ratio better than few long ones. */
const COMPARED_SHARE = 0.25;

/** Returns the options of a comparison between this commit and the current version. */
export function comparisonOf(options: BenchOptions, commit: string): CompareOptions {
  const counts = options.quick ? QUICK : FULL;
  const share = options.quick ? 1 : COMPARED_SHARE;
  const { accept, small, large } = counts;
  const [acceptCount, smallCount, largeCount] = [accept, small, large].map((one) => one * share);
  return {
    ...options,
    commit,
    counts: { ...counts, accept: acceptCount!, small: smallCount!, large: largeCount! },
  };
}

export async function measure(options: BenchOptions, say: Say): Promise<Report> {
  const context = { options, counts: options.quick ? QUICK : FULL, say };
  const machine = describeMachine();
  const lines: Line[] = [];
  const cpu: CpuLine[] = [];
  for (const [row, step] of Object.entries(STEPS) as [Step, (typeof STEPS)[Step]][]) {
    const rows = row === 'end-to-end' ? END_TO_END_ROWS : [row];
    if (options.only !== null && !rows.some((one) => options.only?.includes(one))) continue;
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
    lines: [
      { what: 'accept only, 2 KB', unit: '/s', wanted: '≥ 5,000', values: perSeconds(rates) },
    ],
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
    lines: [{ what, unit: '/s', wanted: '≥ 8,000', values: perSeconds(rates) }],
    cpu: cpuLine(what, rates),
  };
}

async function measureWithAttachments({ options, counts, say }: Context): Promise<Measured> {
  const what = 'accept with 1 MB attached, one worker';
  const { rates, memory } = await measureAttachments(
    { ...options, count: counts.attachments },
    say,
  );
  const ofMemory = {
    what: 'memory of such a request, of its size',
    unit: '×' as const,
    wanted: '≤ 4',
  };
  return {
    lines: [
      { what, unit: '/s', wanted: '', values: perSeconds(rates) },
      ...(memory === null ? [] : [{ ...ofMemory, values: [memory] }]),
    ],
    cpu: cpuLine(what, rates),
  };
}

async function measureSubmission({ options, counts, say }: Context): Promise<Measured> {
  const what = 'accept by SMTP, 2 KB';
  const rates = await measureBoth({ count: counts.accept, htmlBytes: 2_048 }, { ...options, say });
  return {
    lines: [
      { what, unit: '/s', wanted: '', values: perSeconds(rates.submission) },
      { what: 'accept by SMTP, of HTTP', unit: '%', wanted: '≥ 60', values: sharesOf(rates) },
    ],
    cpu: [...cpuLine('accept by HTTP, 2 KB', rates.accept), ...cpuLine(what, rates.submission)],
  };
}

async function measureAllEndToEnd({ options, counts, say }: Context): Promise<Measured> {
  return measureEndToEnd({ ...options, counts }, say);
}

async function measureWithMore({ options, counts, say }: Context): Promise<Measured> {
  const found = await measureVariants({ ...options, count: counts.variant }, say);
  return {
    lines: found.map(({ what, wanted, rates }) => ({
      what: `2 KB, ${what}`,
      unit: '/s',
      wanted,
      values: perSeconds(rates),
    })),
    cpu: found.flatMap(({ what, rates }) => cpuLine(`2 KB, ${what}`, rates)),
  };
}

async function measureHooks({ options, counts, say }: Context): Promise<Measured> {
  const { alone, besideDead } = await measureWebhooks({ ...options, count: counts.webhooks }, say);
  const lines: Line[] = [
    { what: 'webhooks to one receiver', unit: '/s', wanted: '≥ 2,000', values: perSeconds(alone) },
    {
      what: 'webhooks beside a dead endpoint',
      unit: '/s',
      wanted: '',
      values: perSeconds(besideDead),
    },
  ];
  return { lines, cpu: cpuLine('webhooks to one receiver', alone) };
}

async function measureReading({ options, counts, say }: Context): Promise<Measured> {
  const { pages, stream } = await measureEvents({ ...options, count: counts.events }, say);
  const lines: Line[] = [
    { what: 'events read in pages of 100', unit: '/s', wanted: '', values: perSeconds(pages) },
    { what: 'events read from a stream', unit: '/s', wanted: '', values: perSeconds(stream) },
  ];
  return {
    lines,
    cpu: [...cpuLine('events in pages', pages), ...cpuLine('events from a stream', stream)],
  };
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
