/**
 * Tries the hosts of a route in their order, a session and then a transaction each, until one answers.
 *
 * A host is skipped for the next one if it cannot be reached, refuses in its greeting, or does not keep its TLS rule
 * (net/tls/policy.ts). An answer about the message is final for the attempt. After the final dot no further host is
 * tried, because the message may have been delivered (RFC 5321 §4.2.5). Hosts that failed to answer in the last
 * minutes are skipped. If that is all of them, the delivery is released and no attempt is counted.
 */
import type { SmtpPhase } from '../../mail/replies/smtp-reply.ts';
import type { MxHost, MailHosts } from '../../net/dns/mx.ts';
import type { ConnectResult, SmtpFailureCause, SmtpTlsFacts } from '../../net/smtp/client.ts';
import type { TlsResult, Transaction, TransactionResult } from '../../net/smtp/client.ts';
import { lacksSmtpUtf8 } from '../../net/smtp/client-transaction.ts';
import type { TlsRule } from '../../net/tls/policy.ts';
import { type SmtpConnections, hasNoReply, type Unavailable } from '../shaping/smtp-connections.ts';
import type { SmtpTarget } from '../route/smtp-target.ts';
import type { AttemptResult, Via } from './outcome.ts';
import type { AttemptBlocks, BlockedServer } from '../blocks/attempt-blocks.ts';
import type { SlotHolder } from '../shaping/slots.ts';
import type { TlsForAttempt } from '../route/tls-rules.ts';

export type RouteAttempt = TlsForAttempt & {
  transaction: Transaction;
  /** Loads a large message when a server is ready, calls `send`, and drops it. null: the message is in memory. */
  withMessage: ((send: Send) => Promise<TransactionResult | Unavailable>) | null;
  /** Milliseconds until the message expires. Hosts that are skipped for longer are tried nevertheless. */
  untilExpiryMs: number;
  /** Set before the message is sent, because an attempt may be ended without a result. */
  progress: { startedMs: number; session: { via: Via; source: string } };
  /** Returns whether a block allows the server to be tried (delivery/blocks/attempt-blocks.ts). */
  gate: AttemptBlocks['checkServer'];
  slot: SlotHolder | undefined;
};

type Send = () => Promise<TransactionResult>;
type SessionFailure = Exclude<ConnectResult, { kind: 'ready' }>;
type HostResult = Exclude<AttemptResult, { kind: 'unroutable' }>;

/** RFC 5321 §5.1 asks for at least two addresses; Postfix stops at five, and two sessions. */
const ADDRESSES_MAX = 5;
/** Limit on addresses of one host while others are left, because all addresses of a host usually fail together. */
const ADDRESSES_OF_HOST_MAX = 3;
const SESSIONS_MAX = 2;
/** Halvings from a window of 20 connections to one. */
const CROWDED_MAX = 4;

export async function tryHosts(
  route: MailHosts,
  connections: SmtpConnections,
  options: RouteAttempt,
): Promise<AttemptResult | Unavailable> {
  if (route.kind !== 'hosts') return { kind: 'unroutable', route };
  let last: HostResult | null = null;
  let lacking: HostResult | null = null;
  let sessions = 0;
  let delayMs = Infinity;
  let closed: BlockedServer | null = null;
  const silent = new Map<string, string[]>();
  const candidates = candidatesOf(route, connections, options);
  for (const [index, { host, address, provider, rule }] of candidates.entries()) {
    if (rule.mode === 'barred') {
      options.onTls(rule, rule.problem);
      last ??= barred(host, rule);
      continue;
    }
    // A block may be avoided with another source address, but not with a server of another provider.
    if (closed !== null && closed.block.provider !== provider) continue;
    const { envelopeFrom } = options.transaction;
    const found = await options.gate({ provider, address, envelopeFrom });
    if (found !== null) {
      closed ??= found;
      continue;
    }
    const hasOthers = index < candidates.length - 1;
    const first = firstTarget({ provider, host, address }, rule, options);
    const result = await tryTarget(first, {
      connections,
      rule,
      options,
      hasOthers,
      needsNewSession: options.withMessage !== null,
    });
    if (result.kind === 'unavailable') {
      delayMs = Math.min(delayMs, result.delayMs);
      continue;
    }
    if (lacksSmtpUtf8(result)) {
      // Another server of the domain may have the extension, even one that is unreachable now.
      lacking ??= result;
      continue;
    }
    last = result;
    if (options.slot?.signal.aborted === true) return last;
    if (hasNoReply(result)) silent.set(provider, [...(silent.get(provider) ?? []), address]);
    if (result.phase !== 'connect') sessions += 1;
    if (isAnswer(result) || sessions >= SESSIONS_MAX) break;
  }
  if (last === null && delayMs < Infinity) return { kind: 'unavailable', delayMs };
  if (last === null && closed !== null) return { kind: 'unavailable', ...closed };
  if (last === null) return lacking ?? noAddress();
  if (!hasNoReply(last)) return last;
  if (isExcused(connections, options)) return last;
  const reason = summaryOf(last);
  for (const [provider, addresses] of silent)
    connections.reportUnreached(provider, addresses, reason);
  return last;
}

/** Returns whether the uplink was down when the attempt began, and is up now. */
function isExcused({ uplink }: SmtpConnections, { progress }: RouteAttempt): boolean {
  return !uplink.isDown && uplink.wasDownSince(progress.startedMs);
}

function summaryOf(result: HostResult): string {
  const { mx, ip } = result.via;
  return `${mx} [${ip}]: ${result.kind === 'failed' ? result.message : result.reply.message}`;
}

/** Returns the provider of the host that replied. A domain may list hosts of other providers after its own. */
export function providerAt(
  { hosts, provider }: Extract<MailHosts, { kind: 'hosts' }>,
  hostName: string | null,
): string {
  return hosts.find(({ name }) => name === hostName)?.provider ?? provider;
}

type Candidate = { host: string; address: string; provider: string; rule: TlsRule };

function candidatesOf(
  route: Extract<MailHosts, { kind: 'hosts' }>,
  connections: SmtpConnections,
  options: RouteAttempt,
): Candidate[] {
  const candidates: Candidate[] = [];
  let left = ADDRESSES_MAX;
  const hosts = openFirst(route, connections, options).map((host) => {
    return { ...host, rule: options.ruleFor(host) };
  });
  const lastOpen = hosts.findLastIndex(({ rule }) => rule.mode !== 'barred');
  for (const [index, hostWithRule] of hosts.entries()) {
    const { name: host, addresses, provider = route.provider, rule } = hostWithRule;
    // A barred host does not count towards ADDRESSES_MAX.
    if (rule.mode === 'barred') {
      candidates.push({ host, address: '', provider, rule });
      continue;
    }
    const max = index < lastOpen ? Math.min(left, ADDRESSES_OF_HOST_MAX) : left;
    const chosen = firstAlive(addresses, max, (address) => isSkipped(address));
    candidates.push(...chosen.map((address) => ({ host, address, provider, rule })));
    left -= chosen.filter((address) => !isSkipped(address)).length;
  }
  return candidates;

  /** A skipped address takes no time and does not count towards ADDRESSES_MAX. */
  function isSkipped(address: string): boolean {
    const deadForMs = connections.deadForMs(address);
    return deadForMs > 0 && deadForMs < options.untilExpiryMs;
  }
}

function firstAlive(
  addresses: readonly string[],
  max: number,
  isSkipped: (address: string) => boolean,
): string[] {
  let alive = 0;
  return addresses.filter((address) => {
    if (!isSkipped(address)) alive += 1;
    return isSkipped(address) || alive <= max;
  });
}

/** Sorts hosts with an idle session first among those of equal preference, because a new session costs more. */
function openFirst(
  { hosts, provider }: Extract<MailHosts, { kind: 'hosts' }>,
  connections: SmtpConnections,
  options: RouteAttempt,
): readonly MxHost[] {
  if (hosts.length === 1) return hosts;
  const open = connections.idleHosts(provider, options.transaction);
  if (open.size === 0) return hosts;
  const rank = ({ name }: MxHost): number => (open.has(name) ? 0 : 1);
  return hosts.toSorted(
    (one, other) => one.preference - other.preference || rank(one) - rank(other),
  );
}

function barred(host: string, { why, policy }: Extract<TlsRule, { mode: 'barred' }>): HostResult {
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

type OpenRule = Exclude<TlsRule, { mode: 'barred' }>;
type HostTry = {
  connections: SmtpConnections;
  rule: OpenRule;
  options: RouteAttempt;
  hasOthers: boolean;
  crowded?: number;
  /** True when the message is large or failed on a kept session. It is then sent alone on a new session. */
  needsNewSession: boolean;
};

function firstTarget(
  where: Pick<SmtpTarget, 'provider' | 'host' | 'address'>,
  rule: OpenRule,
  { tlsMemory }: RouteAttempt,
): SmtpTarget {
  const { host } = where;
  const reduced = tlsMemory.needsReduced(host) ? { reducedHello: true } : {};
  if (rule.mode === 'opportunistic') {
    if (tlsMemory.isBroken(host)) return { ...where, tls: 'off' };
    return { ...where, tls: rule.mode, expectsTls: tlsMemory.expectsTls(host), ...reduced };
  }
  if (rule.mode !== 'dane') return { ...where, tls: rule.mode, ...reduced };
  return { ...where, tls: 'dane', dane: rule.dane, daneKey: rule.key, ...reduced };
}

/** Tries one address. An address that is skipped is tried if the message would expire earlier. */
async function tryTarget(target: SmtpTarget, hostTry: HostTry): Promise<HostResult | Unavailable> {
  const { connections, rule, options, needsNewSession, hasOthers } = hostTry;
  const { transaction, untilExpiryMs, slot } = options;
  const where = { mx: target.host, ip: target.address, tls_policy: rule.policy };
  options.progress.session = { via: { ...where, tls: null }, source: '' };
  const request = { transaction, untilExpiryMs, needsNewSession, hasOthers, slot };
  const opened = await connections.acquire(target, request);
  if (opened.kind === 'unavailable') return opened;
  const { source } = opened;
  if (opened.kind !== 'ready' && opened.isCrowded && (hostTry.crowded ?? 0) < CROWDED_MAX) {
    return tryTarget(target, { ...hostTry, crowded: (hostTry.crowded ?? 0) + 1 });
  }
  if (opened.kind !== 'ready') {
    if (slot?.signal.aborted === true && opened.kind === 'failed') {
      return { ...opened, inDoubt: false, via: { ...where, tls: null } };
    }
    const easier = easierTarget(target, opened);
    const mustWait = lacksExpectedTls(target, opened);
    if (easier?.tls === 'off' || mustWait) options.tlsMemory.recordFailure(target.host);
    if (easier !== null) return tryTarget(easier, hostTry);
    if (opened.kind === 'failed' && (opened.phase === 'tls' || opened.cause === 'tls')) {
      options.onTls(rule, opened.tlsResult ?? 'validation-failure');
    }
    if (opened.kind === 'failed' && isDead(opened) && !isExcused(connections, options)) {
      connections.markDead(target.address, { timedOut: opened.cause === 'timeout' });
    }
    const via = { ...where, tls: null };
    if (opened.kind === 'replied') return { ...opened, via };
    const message = mustWait ? `${opened.message} ${TLS_HAS_WORKED}` : opened.message;
    return { ...opened, message, inDoubt: false, via };
  }
  const { session, reused, announced } = opened;
  slot?.markGreeted();
  if (reused !== true) {
    const { host, reducedHello: reduced = false } = target;
    if (session.tls !== null) options.tlsMemory.recordSuccess(host, { reduced });
    options.onTls(rule, rule.problem ?? resultOf(target, rule, session.tls));
  }
  const via = { ...where, tls: shown(session.tls) };
  options.progress.session = { via, source };
  const send = () => session.send(transaction);
  const sent = await (options.withMessage?.(send) ?? send()).catch((error: unknown) => {
    session.release();
    throw error;
  });
  const isSuspect = sent.kind !== 'unavailable' && reused === true && isAboutTheSession(sent);
  session.release(!isSuspect);
  if (sent.kind === 'replied' && !('local' in sent))
    connections.uplink.reportReply(target.provider);
  if (sent.kind === 'unavailable') return sent;
  if (announced === true && sent.phase === 'mail') {
    // It refused the envelope that came with the dot, or never answered it.
    if (sent.kind === 'replied' || sent.cause !== 'closed') connections.stopAnnouncing(target.host);
  }
  if (isSuspect || (announced === true && sent.phase === 'mail')) {
    return tryTarget(target, { ...hostTry, needsNewSession: true });
  }
  return { ...sent, via, source };
}

const TLS_HAS_WORKED =
  'TLS worked with it in the last 3 days, so plain text is used only after TLS has failed for an hour.';

function isDead({ phase, cause }: { phase: SmtpPhase; cause: SmtpFailureCause }): boolean {
  return phase === 'connect' || (phase === 'greeting' && cause === 'timeout');
}

/** Returns the next target after a failed handshake: a small ClientHello, then plain text if opportunistic. */
function easierTarget(target: SmtpTarget, failure: SessionFailure): SmtpTarget | null {
  if (failure.kind !== 'failed' || failure.phase !== 'tls') return null;
  if (failure.tlsResult !== undefined) return null;
  if (target.reducedHello !== true) return { ...target, reducedHello: true };
  const mayBePlain = target.tls === 'opportunistic' && target.expectsTls !== true;
  return mayBePlain ? { ...target, tls: 'off' } : null;
}

/** Returns whether TLS failed that has worked before. TlsMemory decides how long the mail waits. */
function lacksExpectedTls(
  { expectsTls, reducedHello }: SmtpTarget,
  failure: SessionFailure,
): boolean {
  if (expectsTls !== true || failure.kind !== 'failed') return false;
  return failure.phase === 'starttls' || (failure.phase === 'tls' && reducedHello === true);
}

/** Returns the TLS result for reports. A bad certificate is a failure only under a policy. */
function resultOf(target: SmtpTarget, { policy }: TlsRule, tls: SmtpTlsFacts | null): TlsResult {
  if (tls !== null) return policy === 'none' || policy === 'provider' ? null : tls.result;
  return target.tls === 'off' ? 'validation-failure' : 'starttls-not-supported';
}

function shown(tls: SmtpTlsFacts | null): Via['tls'] {
  if (tls === null) return null;
  const { version, cipher, verified, problem } = tls;
  return { version, cipher, verified, problem };
}

/**
 * Returns whether the answer is about a kept session: the server ended it, or accepts no more messages on it. Nothing
 * of the message was sent. Some servers use a 5xx for this, which must not bounce.
 */
function isAboutTheSession(sent: TransactionResult): boolean {
  if (sent.phase === 'rset') return true;
  if (sent.phase !== 'mail' || 'local' in sent) return false;
  if (sent.kind === 'failed') return sent.cause === 'closed';
  return sent.reply.code === 421 || sent.reply.code >= 500;
}

/** Returns whether no further host is tried: the answer is about the message, or its delivery is in doubt. */
function isAnswer(result: HostResult): boolean {
  if (result.kind === 'failed') return result.inDoubt || result.cause === 'withheld';
  return result.phase !== 'greeting' && result.phase !== 'ehlo';
}

function noAddress(): AttemptResult {
  const message = 'No host of the recipient has an address.';
  return { kind: 'unroutable', route: { kind: 'temporary', message } };
}
