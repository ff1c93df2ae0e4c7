/**
 * Tries the hosts of a domain in their order, a session and then a transaction each, until one replies.
 *
 * A host is skipped for the next one if it cannot be reached, refuses in its greeting, or breaks its TLS rule
 * (net/tls/tls-rule.ts). A reply about the message is final for the attempt. After the final dot no further host is
 * tried, because the message may have been delivered (RFC 5321 §4.2.5). Hosts that failed to reply in the last
 * minutes are skipped. If that is all of them, the delivery is released and no attempt is counted.
 */
import type { MailHosts, MxHost } from '../../net/dns/mx.ts';
import { lacksSmtpUtf8 } from '../../net/smtp/client-transaction.ts';
import type { TlsRule } from '../../net/tls/tls-rule.ts';
import type { BlockedServer } from '../blocks/attempt-blocks.ts';
import {
  type SmtpConnections,
  hasNoSession,
  type Unavailable,
} from '../shaping/smtp-connections.ts';
import {
  HostAttempt,
  type HostResult,
  hasUplinkRecovered,
  type UsableRule,
} from './host-attempt.ts';
import type { AttemptResult } from './outcome.ts';
import type { AttemptContext } from './attempt-context.ts';

type KnownHosts = Extract<MailHosts, { kind: 'hosts' }>;
type BarredRule = Extract<TlsRule, { mode: 'barred' }>;
/** One address of a host, in the order of attempts. A host without a usable rule has no address. */
type Candidate = { host: string; provider: string; address: string; rule: TlsRule };

/** RFC 5321 §5.1 asks for at least two addresses; Postfix stops at five, and two sessions. */
const ADDRESSES_MAX = 5;
/** Limit on addresses of one host while others are left, because all addresses of a host usually fail together. */
const ADDRESSES_OF_HOST_MAX = 3;
const SESSIONS_MAX = 2;

const NO_ADDRESS: AttemptResult = {
  kind: 'unroutable',
  noHosts: { kind: 'temporary', message: 'No host of the recipient has an address.' },
};

export async function tryHosts(
  hosts: MailHosts,
  connections: SmtpConnections,
  context: AttemptContext,
): Promise<AttemptResult | Unavailable> {
  if (hosts.kind !== 'hosts') return { kind: 'unroutable', noHosts: hosts };
  return new HostSequence(hosts, connections, context).run();
}

/** Returns the provider of the host that replied. A domain may list hosts of other providers after its own. */
export function providerAt({ hosts, provider }: KnownHosts, hostName: string | null): string {
  return hosts.find(({ name }) => name === hostName)?.provider ?? provider;
}

class HostSequence {
  readonly #hosts: KnownHosts;
  readonly #connections: SmtpConnections;
  readonly #context: AttemptContext;
  #last: HostResult | null = null;
  /** The refusal for want of SMTPUTF8. Another server may have it, even one that is unreachable now. */
  #lackingSmtpUtf8: HostResult | null = null;
  #sessions = 0;
  #delayMs = Infinity;
  #blockedServer: BlockedServer | null = null;
  readonly #silentAddresses = new Map<string, string[]>();

  constructor(hosts: KnownHosts, connections: SmtpConnections, context: AttemptContext) {
    this.#hosts = hosts;
    this.#connections = connections;
    this.#context = context;
  }

  async run(): Promise<AttemptResult | Unavailable> {
    const candidates = candidatesOf(this.#hosts, this.#connections, this.#context);
    for (const [index, candidate] of candidates.entries()) {
      const hasOthers = index < candidates.length - 1;
      const result = await this.#tryCandidate(candidate, hasOthers);
      if (result === null) continue;
      if (this.#context.slot?.signal.aborted === true) return result; // given up
      if (isAboutTheMessage(result) || this.#sessions >= SESSIONS_MAX) break;
    }
    this.#reportSilence();
    return this.#last ?? this.#resultWithoutReply();
  }

  /** Returns the result of the host, or null when it was not tried or another one may do better. */
  async #tryCandidate(candidate: Candidate, hasOthers: boolean): Promise<HostResult | null> {
    const { host, provider, address, rule } = candidate;
    if (rule.mode === 'barred') {
      this.#skipBarred(host, rule);
      return null;
    }
    if (await this.#isBlocked(candidate)) return null;
    return this.#recordResult(
      await this.#attemptAt({ provider, host, address }, rule, hasOthers),
      candidate,
    );
  }

  #skipBarred(host: string, rule: BarredRule): void {
    this.#context.onTls(rule, rule.problem);
    this.#last ??= barredResult(host, rule);
  }

  async #isBlocked({ provider, address }: Candidate): Promise<boolean> {
    // A block may be avoided with another source address, but not with a server of another provider.
    if (this.#blockedServer !== null && this.#blockedServer.block.provider !== provider)
      return true;
    const { envelopeFrom } = this.#context.transaction;
    const blocked = await this.#context.checkServer({ provider, address, envelopeFrom });
    this.#blockedServer ??= blocked;
    return blocked !== null;
  }

  #attemptAt(
    server: Pick<Candidate, 'provider' | 'host' | 'address'>,
    rule: UsableRule,
    hasOthers: boolean,
  ): Promise<HostResult | Unavailable> {
    const options = { connections: this.#connections, rule, context: this.#context, hasOthers };
    return new HostAttempt(server, options).run();
  }

  #recordResult(
    result: HostResult | Unavailable,
    { provider, address }: Candidate,
  ): HostResult | null {
    if (result.kind === 'unavailable') {
      this.#delayMs = Math.min(this.#delayMs, result.delayMs);
      return null;
    }
    if (lacksSmtpUtf8(result)) {
      this.#lackingSmtpUtf8 ??= result;
      return null;
    }
    this.#last = result;
    if (result.phase !== 'connect') this.#sessions += 1;
    if (hasNoSession(result)) {
      const addresses = this.#silentAddresses.get(provider) ?? [];
      this.#silentAddresses.set(provider, [...addresses, address]);
    }
    return result;
  }

  #resultWithoutReply(): AttemptResult | Unavailable {
    if (this.#delayMs < Infinity) return { kind: 'unavailable', delayMs: this.#delayMs };
    if (this.#blockedServer !== null) return { kind: 'unavailable', ...this.#blockedServer };
    return this.#lackingSmtpUtf8 ?? NO_ADDRESS;
  }

  /** Reports the servers that were silent, unless another one replied or the uplink was at fault. */
  #reportSilence(): void {
    const last = this.#last;
    if (last === null || !hasNoSession(last)) return;
    if (hasUplinkRecovered(this.#connections, this.#context)) return;
    const reason = summaryOf(last);
    for (const [provider, addresses] of this.#silentAddresses) {
      this.#connections.reportUnreached(provider, addresses, reason);
    }
  }
}

function candidatesOf(
  hosts: KnownHosts,
  connections: SmtpConnections,
  context: AttemptContext,
): Candidate[] {
  const candidates: Candidate[] = [];
  let leftMax = ADDRESSES_MAX;
  const hostsWithRules = withIdleSessionsFirst(hosts, connections, context).map((host) => {
    return { ...host, rule: context.ruleFor(host) };
  });
  const lastUsable = hostsWithRules.findLastIndex(({ rule }) => rule.mode !== 'barred');
  for (const [index, hostWithRule] of hostsWithRules.entries()) {
    const { name: host, addresses, provider = hosts.provider, rule } = hostWithRule;
    // A barred host does not count towards ADDRESSES_MAX.
    if (rule.mode === 'barred') {
      candidates.push({ host, address: '', provider, rule });
      continue;
    }
    const max = index < lastUsable ? Math.min(leftMax, ADDRESSES_OF_HOST_MAX) : leftMax;
    const chosen = firstAlive(addresses, max, isSkipped);
    candidates.push(...chosen.map((address) => ({ host, address, provider, rule })));
    leftMax -= chosen.filter((address) => !isSkipped(address)).length;
  }
  return candidates;

  /** A skipped address takes no time and does not count towards ADDRESSES_MAX. */
  function isSkipped(address: string): boolean {
    const skippedForMs = connections.skippedForMs(address);
    return skippedForMs > 0 && skippedForMs < context.untilExpiryMs;
  }
}

function firstAlive(
  addresses: readonly string[],
  max: number,
  isSkipped: (address: string) => boolean,
): string[] {
  let alive = 0;
  return addresses.filter((address) => {
    if (isSkipped(address)) return true;
    alive += 1;
    return alive <= max;
  });
}

/** Among hosts of equal preference, sorts hosts with an idle session first, because a new session costs more. */
function withIdleSessionsFirst(
  { hosts, provider }: KnownHosts,
  connections: SmtpConnections,
  { transaction }: AttemptContext,
): readonly MxHost[] {
  if (hosts.length === 1) return hosts;
  const idle = connections.idleHosts(provider, transaction);
  if (idle.size === 0) return hosts;
  const rank = ({ name }: MxHost): number => (idle.has(name) ? 0 : 1);
  return hosts.toSorted(
    (host, next) => host.preference - next.preference || rank(host) - rank(next),
  );
}

function barredResult(host: string, { why, policy }: BarredRule): HostResult {
  return {
    kind: 'failed',
    phase: 'tls',
    cause: 'tls',
    message: why,
    inDoubt: false,
    via: { mx: host, ip: null, tls: null, tls_policy: policy },
    source: '',
    transcript: [`(${host}: ${why})`],
  };
}

/** Returns whether no further host is tried: the reply is about the message, or its delivery is in doubt. */
function isAboutTheMessage(result: HostResult): boolean {
  if (result.kind === 'failed') return result.inDoubt || result.cause === 'withheld';
  return result.phase !== 'greeting' && result.phase !== 'ehlo';
}

function summaryOf(result: HostResult): string {
  const { mx, ip } = result.via;
  return `${mx} [${ip}]: ${result.kind === 'failed' ? result.message : result.reply.message}`;
}
