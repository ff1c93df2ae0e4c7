/**
 * Measures the rate from the request to the stored outcome. Several kinds of load alternate on one service: message
 * sizes, ten receivers and one, one signature and two, many clients and few. With --postfix, Postfix and OpenDKIM run
 * in the same rounds.
 */
import { Sink } from './parts/children.ts';
import { TWICE_SIGNED_DOMAIN } from './parts/mail-text.ts';
import { Postfix } from './parts/postfix.ts';
import { DOMAINS, Rig } from './parts/rig.ts';
import { ratiosOf, show } from './numbers.ts';
import type { EndToEndRow, Row } from './options.ts';
import { endToEndRound, perSeconds, postfixRound, type Rate, type RateOptions } from './rates.ts';
import { cpuLine, type CpuLine, type Line } from './report.ts';

/** Emails in a round, by size. Each kind of load sends its share of them. */
export type EndToEndCounts = Record<'small' | 'large' | 'postfixSmall' | 'postfixLarge', number>;

type Size = 'small' | 'large';
type Kind = {
  what: string;
  /** Rows of --only. Each of them causes this kind to be measured. */
  rows: readonly EndToEndRow[];
  size: Size;
  share: number;
  wanted: string;
  load: Partial<RateOptions>;
  withPostfix?: boolean;
};

const HTML_BYTES: Record<Size, number> = { small: 2_048, large: 20_480 };
const TEN_RECEIVERS = '2 KB';
const ONE_RECEIVER = '2 KB, one receiver';
const MANY_CLIENTS = '2 KB, 64 clients';
const FEW_CLIENTS = '2 KB, 20 clients';

const KINDS: readonly Kind[] = [
  {
    what: TEN_RECEIVERS,
    rows: ['end-to-end', 'receivers', 'signatures'],
    size: 'small',
    share: 1,
    wanted: '≥ 1,800, 6 ×',
    load: {},
    withPostfix: true,
  },
  {
    what: ONE_RECEIVER,
    rows: ['receivers'],
    size: 'small',
    share: 0.5,
    wanted: '',
    load: { domains: DOMAINS.slice(0, 1) },
  },
  {
    what: '2 KB, RSA and Ed25519',
    rows: ['signatures'],
    size: 'small',
    share: 0.5,
    wanted: '',
    load: { sender: TWICE_SIGNED_DOMAIN },
  },
  {
    what: MANY_CLIENTS,
    rows: ['clients'],
    size: 'small',
    share: 0.5,
    wanted: '',
    load: { connections: 64 },
  },
  {
    what: FEW_CLIENTS,
    rows: ['clients'],
    size: 'small',
    share: 0.5,
    wanted: '',
    load: { connections: 20 },
  },
  {
    what: '20 KB',
    rows: ['end-to-end'],
    size: 'large',
    share: 1,
    wanted: '≥ 700, 3 ×',
    load: {},
    withPostfix: true,
  },
];

const RATIOS = [
  { what: 'one receiver, of ten', of: ONE_RECEIVER, to: TEN_RECEIVERS, wanted: '≥ 90' },
  { what: '20 clients, of 64', of: FEW_CLIENTS, to: MANY_CLIENTS, wanted: '≥ 85' },
] as const;

type Measured = Kind & { ours: Rate[]; theirs: Rate[] };

/** Returns the kinds of load that belong to these rows, with their full load. */
export function endToEndKinds(
  only: readonly Row[] | null,
  counts: EndToEndCounts,
): (Kind & { fullLoad: RateOptions })[] {
  return KINDS.filter(({ rows }) => only === null || rows.some((row) => only.includes(row))).map(
    (kind) => {
      const count = Math.ceil(counts[kind.size] * kind.share);
      return { ...kind, fullLoad: { ...kind.load, count, htmlBytes: HTML_BYTES[kind.size] } };
    },
  );
}

export async function measureEndToEnd(
  options: {
    workers: number;
    rounds: number;
    postfix: boolean;
    only: readonly Row[] | null;
    counts: EndToEndCounts;
  },
  say: (line: string) => void,
): Promise<{ lines: Line[]; cpu: CpuLine[] }> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers: options.workers, mxPort: sink.port });
  await using postfix = options.postfix ? await Postfix.start(sink.port) : null;
  const kinds = endToEndKinds(options.only, options.counts).map((kind) => ({
    ...kind,
    postfixLoad: {
      count: options.counts[kind.size === 'small' ? 'postfixSmall' : 'postfixLarge'],
      htmlBytes: HTML_BYTES[kind.size],
    },
    ours: [] as Rate[],
    theirs: [] as Rate[],
  }));
  // Round 0 warms up and is not counted.
  for (let round = 0; round <= options.rounds; round += 1) {
    for (const { what, fullLoad, postfixLoad, withPostfix, ours, theirs } of kinds) {
      const share = round === 0 ? 0.25 : 1;
      const rate = await endToEndRound({ rig, sink }, shareOf(fullLoad, share));
      const their =
        postfix &&
        withPostfix === true &&
        (await postfixRound({ postfix, sink }, shareOf(postfixLoad, share)));
      say(`  ${round === 0 ? 'warming up, ' : ''}${what}: ${compare(rate, their || null)}`);
      if (round === 0) continue;
      ours.push(rate);
      if (their) theirs.push(their);
    }
  }
  return { lines: linesOf(kinds), cpu: kinds.flatMap(cpuOf) };
}

function linesOf(kinds: readonly Measured[]): Line[] {
  const lines: Line[] = kinds.map(({ what, wanted, ours, theirs }) => ({
    what: `end to end, ${what}`,
    unit: '/s',
    wanted,
    values: perSeconds(ours),
    ...(theirs.length > 0 && { postfix: perSeconds(theirs) }),
  }));
  const ratios = RATIOS.flatMap(({ what, of, to, wanted }): Line[] => {
    const [part, whole] = [of, to].map((name) => kinds.find((kind) => kind.what === name));
    if (part === undefined || whole === undefined) return [];
    const values = ratiosOf(perSeconds(part.ours), perSeconds(whole.ours));
    return [{ what, unit: '%', wanted, values: values.map((ratio) => ratio * 100) }];
  });
  return [...lines, ...ratios];
}

function cpuOf({ what, ours, theirs }: Measured): CpuLine[] {
  return [
    ...cpuLine(`end to end, ${what}`, ours),
    ...cpuLine(`Postfix + OpenDKIM, ${what}`, theirs),
  ];
}

export function shareOf(load: RateOptions, share: number): RateOptions {
  return { ...load, count: Math.ceil(load.count * share) };
}

function compare(ours: Rate, theirs: Rate | null): string {
  if (theirs === null) return said(ours);
  const ratio = (ours.perSecond / theirs.perSecond).toFixed(1);
  return `${said(ours)}, Postfix + OpenDKIM ${said(theirs)}, ratio ${ratio}`;
}

export function said({ perSecond: rate, cpu }: Rate): string {
  return `${show(rate)}/s${cpu ? ` (others: ${cpu.othersCores.toFixed(1)} cores)` : ''}`;
}
