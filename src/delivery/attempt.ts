/**
 * One attempt to deliver one message to one recipient: route, session, transaction.
 *
 * It walks the receiver's hosts in order and says what happened, without judging it
 * (delivery/outcome.ts does). Rules: a host that cannot be reached or greets with a refusal is
 * passed over for the next one, and so is one that does not keep its rule about TLS
 * (net/tls/policy.ts); an answer about the message is the receiver's answer; after the dot was
 * written nobody else is asked, because the message may have been delivered. Hosts that did not
 * answer a moment ago are not asked, and when that is all of them, that is no attempt.
 */
import type { SmtpPhase, SmtpReply } from '../mail/replies/smtp-reply.ts';
import type { MxHost, Route } from '../net/dns/mx.ts';
import type { ConnectResult, SmtpFailureCause, SmtpTlsFacts } from '../net/smtp/client.ts';
import type { TlsResult, TransactionResult } from '../net/smtp/client.ts';
import type { PolicyResult, TlsPolicyName, TlsRule } from '../net/tls/policy.ts';
import type { Connections } from './connections.ts';
import { isSilence, type Postponed, type Target } from './errand.ts';
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
      /** Our address, `''` for the system's choice: whose connections the answer is about. */
      source: string;
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
      source: string;
      transcript: readonly string[];
    }
  | { kind: 'unroutable'; route: Exclude<Route, { kind: 'hosts' }> };

export type AttemptOptions = {
  envelopeFrom: string;
  recipient: string;
  message: readonly Buffer[];
  smtpUtf8: boolean;
  is8Bit?: boolean | undefined;
  /** How each host of the route is to be reached. */
  ruleFor: (host: MxHost) => TlsRule;
  tlsMemory: TlsMemory;
  /** For every new session, and every host that was passed over: what TLS came to. */
  onTls: (rule: TlsRule, result: TlsResult | PolicyResult) => void;
  mayProceed: (step: 'data' | 'dot') => boolean | Promise<boolean>;
  /** Told where the message goes before it does: an attempt may be cut off without a result. */
  onSession: (session: { via: Via; source: string }) => void;
  /** How long it may be put off for hosts that did not answer a moment ago. */
  patienceMs: number;
};

type SessionFailure = Exclude<ConnectResult, { kind: 'ready' }>;
/** What came of asking one host. */
type Met = Exclude<AttemptResult, { kind: 'unroutable' }>;

/** RFC 5321 §5.1 asks for at least two addresses; Postfix stops at five, and two sessions. */
const ADDRESSES_MAX = 5;
const SESSIONS_MAX = 2;
/** A window of 20 connections is down to one after so many halvings. */
const CROWDED_MAX = 4;

export async function attemptDelivery(
  route: Route,
  connections: Connections,
  options: AttemptOptions,
): Promise<AttemptResult | Postponed> {
  if (route.kind !== 'hosts') return { kind: 'unroutable', route };
  let last: Met | null = null;
  let sessions = 0;
  let delayMs = Infinity;
  const silent: string[] = [];
  for (const { host, address, rule } of candidatesOf(route, connections, options)) {
    if (rule.mode === 'barred') {
      options.onTls(rule, rule.problem);
      last ??= barred(host, rule);
      continue;
    }
    const first = firstTarget({ provider: route.provider, host, address }, rule, options);
    const met = await tryTarget(first, { connections, rule, options, isAlone: false });
    if (met.kind === 'postponed') {
      delayMs = Math.min(delayMs, met.delayMs);
      continue;
    }
    last = met;
    if (isSilence(met)) silent.push(address);
    if (met.phase !== 'connect') sessions += 1;
    if (isAnswer(met) || sessions >= SESSIONS_MAX) break;
  }
  if (last === null) return delayMs < Infinity ? { kind: 'postponed', delayMs } : nobodyToAsk();
  if (isSilence(last)) connections.unreached(route.provider, silent, inShort(last));
  return last;
}

function inShort(met: Met): string {
  const { mx, ip } = met.via;
  return `${mx} [${ip}]: ${met.kind === 'failed' ? met.message : met.reply.message}`;
}

type Candidate = { host: string; address: string; rule: TlsRule };

function candidatesOf(
  route: Extract<Route, { kind: 'hosts' }>,
  connections: Connections,
  options: AttemptOptions,
): Candidate[] {
  const candidates: Candidate[] = [];
  let addresses = 0;
  for (const host of openFirst(route, connections, options)) {
    const rule = options.ruleFor(host);
    // A host that nothing may be sent to does not take the place of one that is asked.
    const ofHost =
      rule.mode === 'barred' ? [''] : host.addresses.slice(0, ADDRESSES_MAX - addresses);
    candidates.push(...ofHost.map((address) => ({ host: host.name, address, rule })));
    if (rule.mode !== 'barred') addresses += ofHost.length;
  }
  return candidates;
}

/** Among equal ones those with an idle session: a new one costs more than the message. */
function openFirst(
  { hosts, provider }: Extract<Route, { kind: 'hosts' }>,
  connections: Connections,
  options: AttemptOptions,
): readonly MxHost[] {
  if (hosts.length === 1) return hosts;
  const open = connections.idleHosts(provider, options);
  if (open.size === 0) return hosts;
  const rank = ({ name }: MxHost): number => (open.has(name) ? 0 : 1);
  return hosts.toSorted(
    (one, other) => one.preference - other.preference || rank(one) - rank(other),
  );
}

function barred(host: string, { why, policy }: Extract<TlsRule, { mode: 'barred' }>): Met {
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

type AskableRule = Exclude<TlsRule, { mode: 'barred' }>;
type Walk = {
  connections: Connections;
  rule: AskableRule;
  options: AttemptOptions;
  /** How often it was turned away because others of ours are there. */
  crowded?: number;
  /** It was announced behind another message, in vain. */
  isAlone: boolean;
};

function firstTarget(
  where: Pick<Target, 'provider' | 'host' | 'address'>,
  rule: AskableRule,
  { tlsMemory }: AttemptOptions,
): Target {
  const { host } = where;
  const reduced = tlsMemory.needsReduced(host) ? { reducedHello: true } : {};
  if (rule.mode === 'opportunistic') {
    if (tlsMemory.isBroken(host)) return { ...where, tls: 'off' };
    return { ...where, tls: rule.mode, expectsTls: tlsMemory.expectsTls(host), ...reduced };
  }
  if (rule.mode !== 'dane') return { ...where, tls: rule.mode, ...reduced };
  return { ...where, tls: 'dane', dane: rule.dane, daneKey: rule.key, ...reduced };
}

/**
 * A host that did not answer a moment ago is not asked, except when the message would expire first:
 * rather than let a login code expire unasked, it is asked once more.
 */
async function tryTarget(target: Target, walk: Walk): Promise<Met | Postponed> {
  const { connections, rule, options, isAlone } = walk;
  const request = { transaction: options, patienceMs: options.patienceMs, isAlone };
  const opened = await connections.acquire(target, request);
  if (opened.kind === 'postponed') return opened;
  const { source } = opened;
  if (opened.isCrowded === true && (walk.crowded ?? 0) < CROWDED_MAX) {
    return tryTarget(target, { ...walk, crowded: (walk.crowded ?? 0) + 1 });
  }
  const where = { mx: target.host, ip: target.address, tls_policy: rule.policy };
  if (opened.kind !== 'ready') {
    const easier = easierTarget(target, opened);
    const isHeld = lacksExpectedTls(target, opened);
    if (easier?.tls === 'off' || isHeld) options.tlsMemory.failed(target.host);
    if (easier !== null) return tryTarget(easier, walk);
    if (opened.kind === 'failed' && (opened.phase === 'tls' || opened.cause === 'tls')) {
      options.onTls(rule, opened.tlsResult ?? 'validation-failure');
    }
    if (opened.kind === 'failed' && isDead(opened)) {
      connections.markDead(target.address, { timedOut: opened.cause === 'timeout' });
    }
    const via = { ...where, tls: null };
    if (opened.kind === 'replied') return { ...opened, via };
    const message = isHeld ? `${opened.message} ${TLS_HAS_WORKED}` : opened.message;
    return { ...opened, message, inDoubt: false, via };
  }
  const { connection, reused, announced } = opened;
  if (reused !== true) {
    const { host, reducedHello: reduced = false } = target;
    if (connection.tls !== null) options.tlsMemory.worked(host, { reduced });
    options.onTls(rule, rule.problem ?? resultOf(target, rule, connection.tls));
  }
  const via = { ...where, tls: shown(connection.tls) };
  options.onSession({ via, source });
  const sent = await connection.send(options, connections.followerOn(connection));
  connections.release(connection);
  if (announced === true && sent.phase === 'mail') {
    // Whatever it was, the message had no part in it: it goes again, with nothing before it.
    if (sent.kind === 'replied' || sent.cause !== 'closed') connections.markAlone(target.host);
    return tryTarget(target, { ...walk, isAlone: true });
  }
  // A kept session that the server had closed meanwhile says nothing about the message.
  if (reused === true && diedBeforeTheMessage(sent)) return tryTarget(target, walk);
  return { ...sent, via, source };
}

const TLS_HAS_WORKED =
  'TLS has worked with it lately: plain text is not used before that has failed for an hour.';

/** No connection, or one on which nobody says a word. */
function isDead({ phase, cause }: { phase: SmtpPhase; cause: SmtpFailureCause }): boolean {
  return phase === 'connect' || (phase === 'greeting' && cause === 'timeout');
}

/**
 * After a handshake that failed: the same with a small ClientHello; then, where nothing but
 * opportunism asks for TLS, plain text. A certificate that proves nothing is no failed handshake.
 */
function easierTarget(target: Target, failure: SessionFailure): Target | null {
  if (failure.kind !== 'failed' || failure.phase !== 'tls') return null;
  if (failure.tlsResult !== undefined) return null;
  if (target.reducedHello !== true) return { ...target, reducedHello: true };
  const mayBePlain = target.tls === 'opportunistic' && target.expectsTls !== true;
  return mayBePlain ? { ...target, tls: 'off' } : null;
}

/** Somebody broke it, or the server has lost it: tls-memory.ts decides for how long that is waited out. */
function lacksExpectedTls({ expectsTls, reducedHello }: Target, failure: SessionFailure): boolean {
  if (expectsTls !== true || failure.kind !== 'failed') return false;
  return failure.phase === 'starttls' || (failure.phase === 'tls' && reducedHello === true);
}

/** A certificate that proves nothing is only a finding where somebody wishes for proof. */
function resultOf(target: Target, { policy }: TlsRule, tls: SmtpTlsFacts | null): TlsResult {
  if (tls !== null) return policy === 'none' || policy === 'provider' ? null : tls.result;
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
function isAnswer(result: Met): boolean {
  if (result.kind === 'failed') return result.inDoubt || result.cause === 'withheld';
  return result.phase !== 'greeting' && result.phase !== 'ehlo';
}

function nobodyToAsk(): AttemptResult {
  const message = 'No host of the recipient has an address.';
  return { kind: 'unroutable', route: { kind: 'temporary', message } };
}
