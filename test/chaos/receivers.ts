/**
 * The receiving side: domains with their mail servers and DNS. Some are always well, some have moods
 * (moods.ts), some are broken for good. `settle` makes all of them well.
 */
import { type FakeDns, type FakeFailure, startFakeDns } from '../support/fake-dns.ts';
import { type FakeMx, type MxBehaviour, startFakeMx } from '../support/fake-mx.ts';
import type { Dice } from './dice.ts';
import type { Copy } from './ledger-types.ts';
import { MOODS } from './moods.ts';

/** How nodes are told apart in EHLO. */
export const helloName = (node: string): string => `${node}.chaos.example`;

/** Where mail may go, and how it may end there when nothing is lost. */
export const DESTINATIONS: Readonly<Record<string, readonly string[]>> = {
  'well.example': ['delivered'],
  'steps.example': ['delivered'],
  'moody1.example': ['delivered', 'bounced'],
  'moody2.example': ['delivered', 'bounced'],
  'moody3.example': ['delivered', 'bounced'],
  'moody4.example': ['delivered', 'bounced'],
  'second.example': ['delivered', 'bounced'],
  'away.example': ['delivered'],
  'shy.example': ['delivered'],
  'nullmx.example': ['bounced'],
  'unknown.example': ['bounced'],
};
/** Test mail goes there as well; nobody may ever ask the DNS for it. */
export const TEST_ONLY = 'testonly.example';

const DNS_FAILURES: readonly FakeFailure[] = [
  'servfail',
  'refused',
  'timeout',
  'truncated',
  'garbage',
  'wrong_id',
  'forged_first',
];
const MOODY = ['moody1.example', 'moody2.example', 'moody3.example', 'moody4.example'];

export type Receivers = AsyncDisposable & {
  dns: FakeDns;
  /** Of all mail servers. */
  port: number;
  /** One of the servers changes its mood. @returns what happened, for people */
  changeMood(dice: Dice): Promise<string>;
  /** Makes look-ups of one domain fail, or lets them succeed again. */
  changeDns(dice: Dice): string;
  /** Everybody is well from now on. */
  settle(): Promise<void>;
  copies(): Copy[];
  testLookUps(): string[];
};

/** By local part: `gone-…` is nobody, `full-…` and `grey-…` come back later. */
const BY_LOCAL_PART: MxBehaviour['recipients'] = new Proxy(
  {},
  {
    get: (_, key) => {
      const name = String(key);
      if (name.includes('@')) return undefined;
      if (name.startsWith('gone-')) return '550 5.1.1 No such user';
      if (name.startsWith('full-')) return ['452 4.2.2 Mailbox full', '250 2.1.5 Ok'];
      if (name.startsWith('grey-')) return ['451 4.7.1 Greylisted', '250 2.1.5 Ok'];
      return undefined;
    },
  },
);
const WELL: MxBehaviour = { recipients: BY_LOCAL_PART };
const STEP_BY_STEP: MxBehaviour = { ...WELL, pipelining: false };

export async function startReceivers(): Promise<Receivers> {
  const dns = await startFakeDns({}, { ttlS: 2 });
  const servers = new Map<string, FakeMx>();
  const first = await startFakeMx(WELL, { address: '127.0.3.1' });
  const add = async (name: string, behaviour: MxBehaviour, mx?: FakeMx): Promise<void> => {
    const address = `127.0.3.${servers.size + 1}`;
    servers.set(name, mx ?? (await startFakeMx(behaviour, { address, port: first.port })));
    dns.set(`mx.${name}`, 'A', [address]);
    dns.set(name, 'MX', [`10 mx.${name}`]);
  };
  await add('well.example', WELL, first);
  await add('steps.example', STEP_BY_STEP);
  for (const name of [...MOODY, 'second.example', 'away.example']) await add(name, WELL);
  await servers.get('away.example')?.stop();
  dns.set('second.example', 'MX', ['10 mx.moody1.example', '20 mx.second.example']);
  dns.set('shy.example', 'MX', ['10 alias.shy.example']);
  dns.set('alias.shy.example', 'CNAME', ['mx.well.example']);
  dns.set('nullmx.example', 'MX', ['0 .']);
  dns.set(TEST_ONLY, 'MX', ['10 mx.well.example']);
  return {
    dns,
    port: first.port,
    changeMood: (dice) => changeMood(servers, dice),
    changeDns: (dice) => changeDns(dns, dice),
    async settle() {
      for (const name of Object.keys(DESTINATIONS)) dns.setFailure(name, null);
      for (const [name, mx] of servers) {
        mx.set(name === 'steps.example' ? STEP_BY_STEP : WELL);
        await mx.start();
      }
    },
    copies: () => [...servers.values()].flatMap(copiesAt),
    testLookUps: () => [
      ...new Set(dns.queries.map(({ name }) => name).filter((name) => name.endsWith(TEST_ONLY))),
    ],
    async [Symbol.asyncDispose]() {
      for (const mx of servers.values()) await mx[Symbol.asyncDispose]();
      await dns[Symbol.asyncDispose]();
    },
  };
}

async function changeMood(servers: ReadonlyMap<string, FakeMx>, dice: Dice): Promise<string> {
  const name = dice.pick(MOODY);
  const mx = servers.get(name)!;
  await mx.start();
  if (dice.chance(0.3)) {
    mx.set(WELL);
    return `${name} is well`;
  }
  if (dice.chance(0.1)) {
    await mx.stop();
    return `${name} refuses connections`;
  }
  const mood = dice.pick(Object.keys(MOODS));
  mx.set({ ...WELL, ...MOODS[mood] });
  return `${name}: ${mood}`;
}

function changeDns(dns: FakeDns, dice: Dice): string {
  const name = dice.pick(['shy.example', 'second.example', ...MOODY]);
  const failure = dice.chance(0.4) ? null : dice.pick(DNS_FAILURES);
  dns.setFailure(name, failure);
  return `DNS of ${name}: ${failure ?? 'well'}`;
}

function copiesAt(mx: FakeMx): Copy[] {
  return mx.messages.map(({ raw, recipients, at, session }) => {
    const { lines, fromMs } = mx.sessions[session]!;
    const hello = lines.find((line) => /^C: (?:EHLO|HELO) /.test(line)) ?? '';
    return {
      emailId: /^Message-ID: <([^@]+)@/m.exec(raw.toString('latin1'))?.[1] ?? 'none',
      address: recipients[0] ?? 'nobody',
      atMs: at,
      node: hello.slice('C: EHLO '.length).split('.')[0]!,
      sessionBegunMs: performance.timeOrigin + fromMs,
    };
  });
}
