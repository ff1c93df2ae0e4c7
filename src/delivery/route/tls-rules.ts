/**
 * Collects the TLS rules for the hosts of a route before the first connection, remembers which hosts support TLS
 * (TlsMemory), and counts TLS results (TlsCounters).
 *
 * A domain without policies costs little: its MTA-STS result is in memory after the first look-up, and TLSA records
 * are looked up only where DNSSEC authenticated the route (net/dns/mx.ts sets `daneNames`). With a configured relay,
 * policies of recipient domains do not apply.
 */
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import type { TlsResult } from '../../net/smtp/client.ts';
import type { StsCache, StsPolicy } from '../../net/tls/mta-sts.ts';
import type { MxHost, MailHosts } from '../../net/dns/mx.ts';
import {
  type DaneFinding,
  findDane,
  type PolicyResult,
  type TlsRule,
  tlsRuleFor,
} from '../../net/tls/policy.ts';
import { BufferedSums } from '../../database/buffered-sums.ts';
import type { TlsCount } from './transport-security-store.ts';

export type TlsForAttempt = {
  ruleFor: (host: MxHost) => TlsRule;
  tlsMemory: TlsMemory;
  /** Called for every new session and every skipped host, with the result for TLS reports. */
  onTls: (rule: TlsRule, result: TlsResult | PolicyResult) => void;
};

export type TlsRequest = {
  destination: string;
  demand: 'opportunistic' | 'enforced';
  sts: StsPolicy | null;
};

type TlsRulesOptions = {
  resolver: Pick<Resolver, 'tlsa'>;
  /** null with a relay. */
  policies: StsCache | null;
  counters: TlsCounters;
  port: number;
  world: Pick<World, 'now' | 'monotonicMs'>;
};

const NO_DANE: DaneFinding = { kind: 'none' };

export class TlsRules {
  readonly #options: TlsRulesOptions;
  readonly #memory: TlsMemory;

  constructor(options: TlsRulesOptions) {
    this.#options = options;
    this.#memory = new TlsMemory(options.world);
  }

  /** Returns the domain's MTA-STS policy, without a promise when it is in memory. */
  policyOf(destination: string): StsPolicy | null | Promise<StsPolicy | null> {
    return this.#options.policies?.of(destination) ?? null;
  }

  /** Returns the rules for an attempt, without a promise when no host can have TLSA records. */
  forAttempt(route: MailHosts, wanted: TlsRequest): TlsForAttempt | Promise<TlsForAttempt> {
    if (!mayHaveDane(route)) return this.#rulesFor(wanted, null);
    const { resolver, port, world } = this.#options;
    const options = { resolver, port, domain: wanted.destination, nowMs: world.now() };
    return findDaneOf(route, options).then((dane) => this.#rulesFor(wanted, dane));
  }

  #rulesFor(
    { destination, demand, sts }: TlsRequest,
    dane: ReadonlyMap<string, DaneFinding> | null,
  ): TlsForAttempt {
    const { counters } = this.#options;
    return {
      ruleFor: (host: MxHost): TlsRule =>
        tlsRuleFor(host.name, { demand, sts, dane: dane?.get(host.name) ?? NO_DANE }),
      tlsMemory: this.#memory,
      onTls: ({ reportedAs }, result) => {
        counters.add({ domain: destination, policy: reportedAs, result: result ?? 'success' });
      },
    };
  }

  /** Returns the policy if it has changed since the attempt, else null (RFC 8461 §5.1). */
  async newerPolicy({ destination, sts }: TlsRequest): Promise<{ sts: StsPolicy | null } | null> {
    const { policies } = this.#options;
    if (policies === null || sts?.mode !== 'enforce') return null;
    const now = await policies.recheck(destination);
    return JSON.stringify(now) === JSON.stringify(sts) ? null : { sts: now };
  }
}

type Hosts = Extract<MailHosts, { kind: 'hosts' }>;

function mayHaveDane(route: MailHosts): route is Hosts {
  return route.kind === 'hosts' && route.hosts.some(({ daneNames }) => daneNames !== undefined);
}

async function findDaneOf(
  { hosts }: Hosts,
  options: Parameters<typeof findDane>[1],
): Promise<Map<string, DaneFinding>> {
  const found = hosts.map(async (host) => [host.name, await findDane(host, options)] as const);
  return new Map(await Promise.all(found));
}

const REDUCED_FOR_MS = 3 * 24 * 3600_000;
const BROKEN_FOR_MS = 10 * 60_000;
const WORKED_FOR_MS = 3 * 24 * 3600_000;
const REQUIRED_WHILE_FAILING_MS = 3600_000;
const REMEMBERED_MAX = 10_000;

type HostTls = {
  reducedUntilMs: number;
  brokenUntilMs: number;
  workedUntilMs: number;
  /** When TLS began to fail after it had worked; null: it does not fail. */
  failingSinceMs: number | null;
};

const NOTHING_KNOWN: HostTls = {
  reducedUntilMs: -Infinity,
  brokenUntilMs: -Infinity,
  workedUntilMs: -Infinity,
  failingSinceMs: null,
};

/**
 * Opportunistic TLS with each mail server: which servers need a small ClientHello, which offer STARTTLS but fail it,
 * and which have used TLS successfully. One worker keeps it in memory.
 *
 * An attacker on the path can break a handshake. A server whose handshakes fail therefore gets plain text only for
 * minutes. Where TLS worked in the last 3 days it is required: mail waits until TLS has failed for an hour. This
 * never relaxes a rule of net/tls/policy.ts.
 */
export class TlsMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #hosts = new LRUCache<string, HostTls>({ max: REMEMBERED_MAX });

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /**
   * Records a session with TLS.
   * @param reduced the ClientHello was a small one
   */
  recordSuccess(host: string, { reduced }: { reduced: boolean }): void {
    const nowMs = this.#world.monotonicMs();
    const { reducedUntilMs } = this.#known(host);
    this.#hosts.set(host, {
      reducedUntilMs: reduced ? nowMs + REDUCED_FOR_MS : reducedUntilMs,
      brokenUntilMs: -Infinity,
      workedUntilMs: nowMs + WORKED_FOR_MS,
      failingSinceMs: null,
    });
  }

  /** Records a failed handshake, or that STARTTLS was no longer offered. */
  recordFailure(host: string): void {
    const nowMs = this.#world.monotonicMs();
    const known = this.#known(host);
    if (!this.expectsTls(host)) {
      return void this.#hosts.set(host, { ...known, brokenUntilMs: nowMs + BROKEN_FOR_MS });
    }
    this.#hosts.set(host, { ...known, failingSinceMs: known.failingSinceMs ?? nowMs });
  }

  /** Returns whether the server needs a small ClientHello. Some fail with one of normal size. */
  needsReduced(host: string): boolean {
    return this.#known(host).reducedUntilMs > this.#world.monotonicMs();
  }

  /** Returns whether TLS failed in the last 10 minutes. */
  isBroken(host: string): boolean {
    return this.#known(host).brokenUntilMs > this.#world.monotonicMs();
  }

  /** Returns whether TLS is required because it worked recently, so breaking it gains an attacker nothing. */
  expectsTls(host: string): boolean {
    const nowMs = this.#world.monotonicMs();
    const { workedUntilMs, failingSinceMs } = this.#known(host);
    return workedUntilMs > nowMs && nowMs - (failingSinceMs ?? nowMs) < REQUIRED_WHILE_FAILING_MS;
  }

  #known(host: string): HostTls {
    return this.#hosts.get(host) ?? NOTHING_KNOWN;
  }
}

/** Limit on kinds of result. At this number the counts are stored at once. */
const KINDS_MAX = 2_000;

/** Counts results of TLS sessions (RFC 8460) in memory. A crash loses the counts of the last seconds. */
export class TlsCounters {
  readonly #sums: BufferedSums<TlsCount>;

  constructor(write: (counts: readonly TlsCount[]) => Promise<void>) {
    this.#sums = new BufferedSums({
      write,
      kindOf: ({ domain, policy, result }) => `${domain} ${policy} ${result}`,
      merge: (sum, { sessions }) => (sum.sessions += sessions),
    });
  }

  add(kind: Omit<TlsCount, 'sessions'>): void {
    const isNew = this.#sums.add({ ...kind, sessions: 1 });
    // `===`, not `>=`: while the database is unavailable only the timer retries.
    if (isNew && this.#sums.size === KINDS_MAX) void this.flush();
  }

  flush(): Promise<void> {
    return this.#sums.flush();
  }
}
