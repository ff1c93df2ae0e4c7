/**
 * Runs the receiving side: the domains of domains.ts and attacker/hostile-domains.ts with their mail servers and their
 * DNS. Each domain of domains.ts fails until its failure has met mail, then alternates with normal operation. `settle`
 * ends all failures.
 */
import { type FakeDns, startFakeDns } from '../../support/fake-dns.ts';
import { type FakeMx, type MxBehaviour, startFakeMx } from '../../support/fake-mx.ts';
import { startBlackHole } from '../../support/black-hole.ts';
import type { RandomSource } from '../random.ts';
import type { Copy } from '../ledger/ledger-types.ts';
import { startHostileDomains } from '../attacker/hostile-domains.ts';
import {
  type DomainFault,
  SILENT_ADDRESS,
  FALLBACK_DOMAINS,
  TEST_ONLY,
  FAILING_DOMAINS,
  HEALTHY_DOMAINS,
  type Zone,
} from './domains.ts';

/** Returns the name in EHLO, which identifies the node. */
export const helloName = (node: string): string => `${node}.chaos.example`;

export type Receivers = AsyncDisposable & {
  dns: FakeDns;
  /** Port of all mail servers. */
  port: number;
  /** Ends or begins again the failure of a random domain. */
  change(random: RandomSource): Promise<void>;
  /** Returns the domains whose failure has met no mail yet, including those of the attacker. */
  unexercised(): string[];
  /** Ends the failures of all domains. */
  settle(): Promise<void>;
  copies(): Copy[];
  testLookups(): string[];
};

/** Replies by local part: `gone-…` does not exist, `full-…` and `grey-…` are deferred. */
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
const WORKING: MxBehaviour = { recipients: BY_LOCAL_PART };
const STEP_BY_STEP: MxBehaviour = { ...WORKING, pipelining: false };
/** Behaviour of a server for mail that requires a verified certificate. */
const VERIFIED_TLS: MxBehaviour = { ...WORKING, startTls: 'offered' };

/** A failure that can begin and end. */
type ActiveFault = {
  domain: string;
  begin(): Promise<void> | void;
  end(): Promise<void> | void;
  /** Returns whether the failure has met mail. */
  isExercised(): boolean;
  isOn: boolean;
};

/** Returns a function that returns the names in all queries so far. */
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
  const first = stack.use(await startFakeMx(WORKING, { address: '127.0.3.1' }));
  servers.push(first);
  const { port } = first;
  const serve = async (behaviour: MxBehaviour, address?: string): Promise<FakeMx> => {
    const own = address ?? `127.0.3.${servers.length + 1}`;
    const mx = stack.use(await startFakeMx(behaviour, { address: own, port }));
    servers.push(mx);
    return mx;
  };
  // On a machine without IPv6 there is no such server, and mail to it waits.
  await serve(WORKING, '::1').catch(() => null);
  stack.use(await startBlackHole(SILENT_ADDRESS, port));
  const steps = await serve(STEP_BY_STEP);
  for (const [index, domain] of HEALTHY_DOMAINS.entries()) {
    publish({ dns, domain, host: `mx.${domain}`, address: [first, steps][index]!.address });
  }
  dns.set('nullmx.example', 'MX', ['0 .']);
  dns.set(TEST_ONLY, 'MX', ['10 mx.well.example']);
  const faults: ActiveFault[] = [];
  const askedFor = namesIn(dns.queries);
  for (const [domain, fault] of Object.entries(FAILING_DOMAINS)) {
    const hasOwn =
      fault.kind === 'server' || fault.kind === 'unverified_tls' || fault.kind === 'away';
    const mx = hasOwn ? await serve(WORKING) : first;
    const host =
      fault.kind === 'unverified_tls' ? `${domain.split('.')[0]}.mx.test` : `mx.${domain}`;
    const zone = { dns, domain, host, address: mx.address };
    faults.push(controlOf(fault, { mx, zone, askedFor }));
  }
  for (const [domain, best] of Object.entries(FALLBACK_DOMAINS)) {
    dns.set(domain, 'MX', [`10 mx.${best}`, `20 mx.well.example`]);
  }
  for (const fault of faults) {
    await fault.end();
    await fault.begin();
  }
  const accepting = first.address;
  const hostile = await startHostileDomains({ dns, serve, askedFor, working: WORKING, accepting });
  const things = stack.move();
  return {
    dns,
    port,
    async change(random) {
      const fault = random.pick(faults);
      if (!fault.isExercised()) return;
      fault.isOn = !fault.isOn;
      await (fault.isOn ? fault.begin() : fault.end());
    },
    unexercised: () => [
      ...faults.filter((fault) => !fault.isExercised()).map(({ domain }) => domain),
      ...hostile.unexercised(),
    ],
    async settle() {
      hostile.settle();
      for (const fault of faults) await fault.end();
    },
    copies: () => servers.flatMap(copiesAt),
    testLookups: () => [...askedFor()].filter((name) => name.endsWith(TEST_ONLY)),
    [Symbol.asyncDispose]: () => things.disposeAsync(),
  };
}

type FaultContext = { mx: FakeMx; zone: Zone; askedFor: () => ReadonlySet<string> };

function controlOf(fault: DomainFault, { mx, zone, askedFor }: FaultContext): ActiveFault {
  const { dns, domain, host } = zone;
  const isAskedFor = (name: string): boolean => askedFor().has(name);
  const hasSessions = (): boolean => mx.sessions.some(({ lines }) => lines.some(isHello));
  const common = { domain, isOn: true };
  switch (fault.kind) {
    case 'server': {
      const { behaviour } = fault.fault;
      return {
        ...common,
        begin: () => mx.set({ ...WORKING, ...behaviour }),
        end: () => (publish(zone), mx.set(WORKING)),
        isExercised: behaviour.phases === undefined ? hasSessions : () => mx.acted > 0,
      };
    }
    case 'unverified_tls':
      return {
        ...common,
        begin: () => mx.set({ ...WORKING, ...fault.behaviour }),
        end: () => (publish(zone), mx.set(VERIFIED_TLS)),
        isExercised: hasSessions,
      };
    case 'away':
      return {
        ...common,
        begin: () => mx.stop(),
        end: () => (publish(zone), mx.start()),
        isExercised: () => isAskedFor(host),
      };
    case 'address':
      return {
        ...common,
        begin: () => dns.set(host, 'A', [fault.address]),
        end: () => publish(zone),
        isExercised: () => isAskedFor(host),
      };
    case 'dns':
      return {
        ...common,
        begin: () => dns.setFailure(domain, fault.failure),
        end: () => (publish(zone), dns.setFailure(domain, null)),
        isExercised: () => isAskedFor(domain),
      };
    case 'records':
      return {
        ...common,
        begin: () => fault.begin(zone),
        end: () => publish(zone),
        isExercised: () => isAskedFor(domain),
      };
  }
}

/**
 * Publishes the DNS records of a domain without a failure. The A record is for nodes that remember that the domain has
 * no MX.
 */
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

/** Bytes that hold the header of any message. */
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
      isTlsVerified: certificate === 'trusted',
    };
  });
}
