/**
 * One attempt to deliver one message to one recipient: route, session, transaction.
 *
 * It walks the receiver's hosts in order and says what happened, without judging it
 * (delivery/outcome.ts does). Rules: a host that cannot be reached or greets with a refusal is
 * passed over for the next one, and so is one that does not keep its rule about TLS
 * (net/tls-policy.ts); an answer about the message is the receiver's answer; after the dot was
 * written nobody else is asked, because the message may have been delivered. Hosts that did not
 * answer a moment ago are not asked, and when that is all of them, that is no attempt.
 */
import type { SmtpPhase, SmtpReply } from '../mail/smtp-reply.ts';
import type { MxHost, Route } from '../net/mx.ts';
import type { ConnectResult, SmtpFailureCause, SmtpTlsFacts } from '../net/smtp-client.ts';
import type { TlsResult, TransactionResult } from '../net/smtp-client.ts';
import type { PolicyResult, TlsPolicyName, TlsRule } from '../net/tls-policy.ts';
import type { Connections, Target } from './connections.ts';
import type { TlsMemory } from './tls-memory.ts';

/** Where the message went, as far as it came. */
export type Via = {
  mx: string | null;
  ip: string | null;
  tls: Omit<SmtpTlsFacts, 'result'> | null;
  tls_policy: TlsPolicyName;
};

export type AttemptResult =
  | {
      kind: 'replied';
      phase: SmtpPhase;
      reply: SmtpReply;
      via: Via;
      transcript: readonly string[];
    }
  | {
      kind: 'failed';
      phase: SmtpPhase;
      cause: SmtpFailureCause;
      message: string;
      /** The dot was written: the message may have been delivered. */
      inDoubt: boolean;
      via: Via;
      transcript: readonly string[];
    }
  | { kind: 'unroutable'; route: Exclude<Route, { kind: 'hosts' }> };

export type AttemptOptions = {
  envelopeFrom: string;
  recipient: string;
  message: readonly Buffer[];
  smtpUtf8: boolean;
  /** How each host of the route is to be reached. */
  ruleFor: (host: MxHost) => TlsRule;
  tlsMemory: TlsMemory;
  /** For every new session, and every host that was passed over: what TLS came to. */
  onTls: (rule: TlsRule, result: TlsResult | PolicyResult) => void;
  mayProceed: () => boolean;
  /** How long it may be put off for hosts that did not answer a moment ago. */
  patienceMs: number;
};

type SessionFailure = Exclude<ConnectResult, { kind: 'ready' }>;

/** Nobody was asked: all hosts are known not to answer, for so long. */
export type Postponed = { kind: 'postponed'; delayMs: number };

/** RFC 5321 §5.1 asks for at least two addresses; Postfix stops at five, and two sessions. */
const ADDRESSES_MAX = 5;
const SESSIONS_MAX = 2;

export async function attemptDelivery(
  route: Route,
  connections: Connections,
  options: AttemptOptions,
): Promise<AttemptResult | Postponed> {
  if (route.kind !== 'hosts') return { kind: 'unroutable', route };
  let last: AttemptResult | null = null;
  let sessions = 0;
  let delayMs = Infinity;
  for (const { host, address, rule } of candidatesOf(route, options)) {
    if (rule.mode === 'barred') {
      options.onTls(rule, rule.problem);
      last ??= barred(host, rule);
      continue;
    }
    const deadForMs = connections.deadForMs(address);
    // Rather than let a login code expire unasked, a dead host is asked once more.
    if (deadForMs > 0 && deadForMs < options.patienceMs) {
      delayMs = Math.min(delayMs, deadForMs);
      continue;
    }
    const first = firstTarget({ provider: route.provider, host, address }, rule, options);
    const { result, hadSession } = await tryTarget(first, { connections, rule, options });
    last = result;
    if (hadSession) sessions += 1;
    if (isAnswer(result) || sessions >= SESSIONS_MAX) break;
  }
  if (last !== null) return last;
  return delayMs < Infinity ? { kind: 'postponed', delayMs } : nobodyToAsk();
}

type Candidate = { host: string; address: string; rule: TlsRule };

function candidatesOf(
  route: Extract<Route, { kind: 'hosts' }>,
  { ruleFor }: AttemptOptions,
): Candidate[] {
  const candidates: Candidate[] = [];
  let addresses = 0;
  for (const host of route.hosts) {
    const rule = ruleFor(host);
    // A host that nothing may be sent to does not take the place of one that is asked.
    const ofHost =
      rule.mode === 'barred' ? [''] : host.addresses.slice(0, ADDRESSES_MAX - addresses);
    candidates.push(...ofHost.map((address) => ({ host: host.name, address, rule })));
    if (rule.mode !== 'barred') addresses += ofHost.length;
  }
  return candidates;
}

function barred(
  host: string,
  { why, policy }: Extract<TlsRule, { mode: 'barred' }>,
): AttemptResult {
  return {
    kind: 'failed',
    phase: 'tls',
    cause: 'tls',
    message: why,
    inDoubt: false,
    via: { mx: host, ip: null, tls: null, tls_policy: policy },
    transcript: [`(${host}: ${why})`],
  };
}

type AskableRule = Exclude<TlsRule, { mode: 'barred' }>;
type Walk = { connections: Connections; rule: AskableRule; options: AttemptOptions };

function firstTarget(
  where: Pick<Target, 'provider' | 'host' | 'address'>,
  rule: AskableRule,
  { tlsMemory }: AttemptOptions,
): Target {
  const known = tlsMemory.of(where.host);
  if (known === 'broken' && rule.mode === 'opportunistic') return { ...where, tls: 'off' };
  const reduced = known === 'reduced' ? { reducedHello: true } : {};
  if (rule.mode !== 'dane') return { ...where, tls: rule.mode, ...reduced };
  return { ...where, tls: 'dane', dane: rule.dane, daneKey: rule.key, ...reduced };
}

type Tried = { result: AttemptResult; hadSession: boolean };

async function tryTarget(target: Target, walk: Walk): Promise<Tried> {
  const { connections, rule, options } = walk;
  const opened = await connections.acquire(target);
  const where = { mx: target.host, ip: target.address, tls_policy: rule.policy };
  if (opened.kind !== 'ready') {
    const easier = easierTarget(target, opened);
    if (easier !== null) {
      if (easier.tls === 'off') options.tlsMemory.learn(target.host, 'broken');
      return tryTarget(easier, walk);
    }
    if (opened.kind === 'failed' && (opened.phase === 'tls' || opened.cause === 'tls')) {
      options.onTls(rule, opened.tlsResult ?? 'validation-failure');
    }
    if (opened.phase === 'connect') connections.markDead(target.address);
    const via = { ...where, tls: null };
    const result: AttemptResult =
      opened.kind === 'replied' ? { ...opened, via } : { ...opened, inDoubt: false, via };
    return { result, hadSession: opened.phase !== 'connect' };
  }
  const { connection, reused } = opened;
  if (reused !== true) {
    if (target.reducedHello === true) options.tlsMemory.learn(target.host, 'reduced');
    options.onTls(rule, rule.problem ?? resultOf(target, connection.tls));
  }
  const sent = await connection.send(options);
  connections.release(target, connection);
  // A kept session that the server had closed meanwhile says nothing about the message.
  if (reused === true && diedBeforeTheMessage(sent)) return tryTarget(target, walk);
  const via = { ...where, tls: shown(connection.tls) };
  return { result: { ...sent, via }, hadSession: true };
}

/**
 * After a handshake that failed: the same with a small ClientHello; then, where nothing but
 * opportunism asks for TLS, plain text. A certificate that proves nothing is no failed handshake.
 */
function easierTarget(target: Target, failure: SessionFailure): Target | null {
  if (failure.kind !== 'failed' || failure.phase !== 'tls') return null;
  if (failure.tlsResult !== undefined) return null;
  if (target.reducedHello !== true) return { ...target, reducedHello: true };
  return target.tls === 'opportunistic' ? { ...target, tls: 'off' } : null;
}

function resultOf(target: Target, tls: SmtpTlsFacts | null): TlsResult {
  if (tls !== null) return tls.result;
  return target.tls === 'off' ? 'validation-failure' : 'starttls-not-supported';
}

function shown(tls: SmtpTlsFacts | null): Via['tls'] {
  if (tls === null) return null;
  const { version, cipher, verified, problem } = tls;
  return { version, cipher, verified, problem };
}

function diedBeforeTheMessage(sent: TransactionResult): boolean {
  if (sent.phase !== 'mail' && sent.phase !== 'rset') return false;
  return sent.kind === 'failed' ? sent.cause === 'closed' : sent.reply.code === 421;
}

/** What ends the walk: an answer about the message, or a doubt about it. */
function isAnswer(result: AttemptResult): boolean {
  if (result.kind === 'unroutable') return true;
  if (result.kind === 'failed') return result.inDoubt || result.cause === 'withheld';
  return result.phase !== 'greeting' && result.phase !== 'ehlo';
}

function nobodyToAsk(): AttemptResult {
  const message = 'No host of the recipient has an address.';
  return { kind: 'unroutable', route: { kind: 'temporary', message } };
}
