/**
 * The receiving side: the domains of domains.ts with their mail servers and their DNS. Each fails
 * until mail has met the failure, then alternates with normal operation. `settle` ends all failures.
 */
import { type FakeDns, startFakeDns } from '../support/fake-dns.ts';
import { type FakeMx, type MxBehaviour, startFakeMx } from '../support/fake-mx.ts';
import { startBlackHole } from '../support/black-hole.ts';
import type { Dice } from './random.ts';
import type { Copy } from './ledger-types.ts';
import {
  type Place,
  SILENT_ADDRESS,
  SPARED,
  TEST_ONLY,
  TROUBLED,
  WELL,
  type Zone,
} from './domains.ts';

/** How nodes are told apart in EHLO. */
export const helloName = (node: string): string => `${node}.chaos.example`;

export type Receivers = AsyncDisposable & {
  dns: FakeDns;
  /** Of all mail servers. */
  port: number;
  /** The failure of some domain ends or begins again. */
  change(dice: Dice): Promise<void>;
  /** Domains whose failure no mail has met yet. */
  unmet(): string[];
  /** No domain fails from now on. */
  settle(): Promise<void>;
  copies(): Copy[];
  testLookUps(): string[];
};

/** By local part: `gone-…` does not exist, `full-…` and `grey-…` are deferred. */
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
const USUAL: MxBehaviour = { recipients: BY_LOCAL_PART };
const STEP_BY_STEP: MxBehaviour = { ...USUAL, pipelining: false };
/** For mail that asks for a proof. */
const PROVEN: MxBehaviour = { ...USUAL, startTls: 'offered' };

/** A place as it stands there. */
type Standing = {
  domain: string;
  begin(): Promise<void> | void;
  end(): Promise<void> | void;
  /** Whether mail has met its failure. */
  isMet(): boolean;
  isOn: boolean;
};

/** Grows with the questions. */
function namesIn(queries: readonly { name: string }[]): () => ReadonlySet<string> {
  const names = new Set<string>();
  let read = 0;
  return () => {
    for (; read < queries.length; read += 1) names.add(queries[read]!.name);
    return names;
  };
}

export async function startReceivers(): Promise<Receivers> {
  await using stack = new AsyncDisposableStack();
  const dns = stack.use(await startFakeDns({}, { ttlS: 2 }));
  const servers: FakeMx[] = [];
  const first = stack.use(await startFakeMx(USUAL, { address: '127.0.3.1' }));
  servers.push(first);
  const { port } = first;
  const serve = async (behaviour: MxBehaviour, address?: string): Promise<FakeMx> => {
    const own = address ?? `127.0.3.${servers.length + 1}`;
    const mx = stack.use(await startFakeMx(behaviour, { address: own, port }));
    servers.push(mx);
    return mx;
  };
  // Where there is no IPv6, who is asked to use it waits.
  await serve(USUAL, '::1').catch(() => null);
  stack.use(await startBlackHole(SILENT_ADDRESS, port));
  const steps = await serve(STEP_BY_STEP);
  for (const [index, domain] of WELL.entries()) {
    publish({ dns, domain, host: `mx.${domain}`, address: [first, steps][index]!.address });
  }
  dns.set('nullmx.example', 'MX', ['0 .']);
  dns.set(TEST_ONLY, 'MX', ['10 mx.well.example']);
  const places: Standing[] = [];
  const askedFor = namesIn(dns.queries);
  for (const [domain, place] of Object.entries(TROUBLED)) {
    const hasOwn = place.kind === 'mood' || place.kind === 'unproven' || place.kind === 'away';
    const mx = hasOwn ? await serve(USUAL) : first;
    const host = place.kind === 'unproven' ? `${domain.split('.')[0]}.mx.test` : `mx.${domain}`;
    const zone = { dns, domain, host, address: mx.address };
    places.push(standing(place, { mx, zone, askedFor }));
  }
  for (const [domain, best] of Object.entries(SPARED)) {
    dns.set(domain, 'MX', [`10 mx.${best}`, `20 mx.well.example`]);
  }
  for (const place of places) {
    await place.end();
    await place.begin();
  }
  const things = stack.move();
  return {
    dns,
    port,
    async change(dice) {
      const place = dice.pick(places);
      if (!place.isMet()) return;
      place.isOn = !place.isOn;
      await (place.isOn ? place.begin() : place.end());
    },
    unmet: () => places.filter((place) => !place.isMet()).map(({ domain }) => domain),
    async settle() {
      for (const place of places) await place.end();
    },
    copies: () => servers.flatMap(copiesAt),
    testLookUps: () => [...askedFor()].filter((name) => name.endsWith(TEST_ONLY)),
    [Symbol.asyncDispose]: () => things.disposeAsync(),
  };
}

type Surroundings = { mx: FakeMx; zone: Zone; askedFor: () => ReadonlySet<string> };

function standing(place: Place, { mx, zone, askedFor }: Surroundings): Standing {
  const { dns, domain, host } = zone;
  const isAskedFor = (name: string): boolean => askedFor().has(name);
  const isSpokenTo = (): boolean => mx.sessions.some(({ lines }) => lines.some(isHello));
  const usual = { domain, isOn: true };
  switch (place.kind) {
    case 'mood': {
      const { behaviour } = place.mood;
      return {
        ...usual,
        begin: () => mx.set({ ...USUAL, ...behaviour }),
        end: () => (publish(zone), mx.set(USUAL)),
        isMet: behaviour.phases === undefined ? isSpokenTo : () => mx.acted > 0,
      };
    }
    case 'unproven':
      return {
        ...usual,
        begin: () => mx.set({ ...USUAL, ...place.behaviour }),
        end: () => (publish(zone), mx.set(PROVEN)),
        isMet: isSpokenTo,
      };
    case 'away':
      return {
        ...usual,
        begin: () => mx.stop(),
        end: () => (publish(zone), mx.start()),
        isMet: () => isAskedFor(host),
      };
    case 'address':
      return {
        ...usual,
        begin: () => dns.set(host, 'A', [place.address]),
        end: () => publish(zone),
        isMet: () => isAskedFor(host),
      };
    case 'dns':
      return {
        ...usual,
        begin: () => dns.setFailure(domain, place.failure),
        end: () => (publish(zone), dns.setFailure(domain, null)),
        isMet: () => isAskedFor(domain),
      };
    case 'records':
      return {
        ...usual,
        begin: () => place.begin(zone),
        end: () => publish(zone),
        isMet: () => isAskedFor(domain),
      };
  }
}

/** What the DNS says of a place that is well; the domain's own address is for who remembers no MX. */
function publish({ dns, domain, host, address }: Zone): void {
  dns.remove(domain);
  dns.remove(host);
  dns.set(host, 'A', [address]);
  dns.set(domain, 'MX', [`10 ${host}`]);
  dns.set(domain, 'A', [address]);
}

function isHello(line: string): boolean {
  return /^C: (?:EHLO|HELO) /.test(line);
}

/** More than the header of any message. */
const HEADER_BYTES_MAX = 16_384;

function copiesAt(mx: FakeMx): Copy[] {
  return mx.messages.map(({ raw, recipients, at, session, certificate }) => {
    const { lines, fromMs } = mx.sessions[session]!;
    const hello = lines.find(isHello) ?? '';
    const header = raw.toString('latin1', 0, HEADER_BYTES_MAX);
    return {
      emailId: /^Message-ID: <([^@]+)@/m.exec(header)?.[1] ?? 'none',
      address: recipients[0] ?? 'nobody',
      atMs: at,
      node: hello.slice('C: EHLO '.length).split('.')[0]!,
      sessionBegunMs: performance.timeOrigin + fromMs,
      isProven: certificate === 'trusted',
    };
  });
}
