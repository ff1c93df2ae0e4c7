/**
 * The attempt at one address of a mail server: a session, then one transaction.
 *
 * A session that cannot be opened is retried with an easier TLS handshake where the rule permits it, and when our other
 * connections were the reason. A message that failed because of a kept or announced session is sent again, alone on a
 * new session. No part of the message was sent before.
 */
import type { SmtpFailureCause, SmtpPhase } from '../../mail/replies/smtp-reply.ts';
import type {
  ConnectResult,
  SmtpTlsFacts,
  TlsResult,
  TransactionResult,
} from '../../net/smtp/client.ts';
import type { TlsRule } from '../../net/tls/tls-rule.ts';
import type { SmtpTarget } from '../route/smtp-target.ts';
import type { SmtpConnections, Unavailable } from '../shaping/smtp-connections.ts';
import type { AttemptResult, Via } from './outcome.ts';
import type { AttemptContext, Send } from './attempt-context.ts';

export type HostResult = Exclude<AttemptResult, { kind: 'unroutable' }>;
/** The rule for a host that may be tried. */
export type UsableRule = Exclude<TlsRule, { mode: 'barred' }>;

type SessionFailure = Exclude<ConnectResult, { kind: 'ready' }>;
type Acquired = Exclude<Awaited<ReturnType<SmtpConnections['acquire']>>, Unavailable>;
type ReadySession = Extract<Acquired, { kind: 'ready' }>;
type FailedSession = Exclude<Acquired, { kind: 'ready' }>;

type HostAttemptOptions = {
  connections: SmtpConnections;
  rule: UsableRule;
  context: AttemptContext;
  /** True while other addresses of the domain are left. */
  hasOthers: boolean;
};

/**
 * Times that a server may refuse a session because of our other connections: four halvings reduce a window of 20 to
 * one.
 */
const TOO_MANY_CONNECTIONS_RETRIES_MAX = 4;
const TLS_HAS_WORKED =
  'TLS worked with it in the last 3 days, so plain text is used only after TLS has failed for an hour.';

export class HostAttempt {
  readonly #options: HostAttemptOptions;
  readonly #where: Omit<Via, 'tls'>;
  #target: SmtpTarget;
  /** True when the message is large or failed on a kept session. It is then sent alone on a new session. */
  #needsNewSession: boolean;
  #tooManyConnectionsCount = 0;

  constructor(
    server: Pick<SmtpTarget, 'provider' | 'host' | 'address'>,
    options: HostAttemptOptions,
  ) {
    const { rule, context } = options;
    this.#options = options;
    this.#where = { mx: server.host, ip: server.address, tls_policy: rule.policy };
    this.#target = firstTarget(server, rule, context);
    this.#needsNewSession = context.withMessage !== null;
  }

  async run(): Promise<HostResult | Unavailable> {
    for (;;) {
      const result = await this.#tryTarget();
      if (result !== null) return result;
    }
  }

  /** Returns null when the host is tried again, with another target or a new session. */
  async #tryTarget(): Promise<HostResult | Unavailable | null> {
    const { connections, hasOthers, context } = this.#options;
    const { transaction, untilExpiryMs, slot, phases } = context;
    context.progress.server = { via: this.#viaWith(null), source: '' };
    const acquired = await connections.acquire(this.#target, {
      transaction,
      untilExpiryMs,
      needsNewSession: this.#needsNewSession,
      hasOthers,
      slot,
      phases,
    });
    if (acquired.kind === 'unavailable') return acquired;
    return acquired.kind === 'ready' ? this.#sendOn(acquired) : this.#afterFailure(acquired);
  }

  #afterFailure(failure: FailedSession): HostResult | null {
    if (
      failure.hasTooManyConnections &&
      this.#tooManyConnectionsCount < TOO_MANY_CONNECTIONS_RETRIES_MAX
    ) {
      this.#tooManyConnectionsCount += 1;
      return null;
    }
    const isGivenUp = this.#options.context.slot?.signal.aborted === true;
    if (isGivenUp && failure.kind === 'failed') {
      return { ...failure, inDoubt: false, via: this.#viaWith(null) };
    }
    const easier = easierTarget(this.#target, failure);
    const mustWait = lacksExpectedTls(this.#target, failure);
    if (easier?.tls === 'off' || mustWait) {
      this.#options.context.tlsMemory.recordFailure(this.#target.host);
    }
    if (easier !== null) {
      this.#target = easier;
      return null;
    }
    this.#reportFailure(failure);
    const result = this.#resultOfFailure(failure);
    return mustWait && result.kind === 'failed'
      ? { ...result, message: `${result.message} ${TLS_HAS_WORKED}` }
      : result;
  }

  #reportFailure(failure: FailedSession): void {
    if (failure.kind !== 'failed') return;
    const { connections, rule, context } = this.#options;
    if (failure.phase === 'tls' || failure.cause === 'tls') {
      context.onTls(rule, failure.tlsResult ?? 'validation-failure');
    }
    if (isUnreachable(failure) && !hasUplinkRecovered(connections, context)) {
      connections.skipAddress(this.#target.address, { timedOut: failure.cause === 'timeout' });
    }
  }

  #resultOfFailure(failure: FailedSession): HostResult {
    const via = this.#viaWith(null);
    return failure.kind === 'replied' ? { ...failure, via } : { ...failure, inDoubt: false, via };
  }

  async #sendOn(ready: ReadySession): Promise<HostResult | Unavailable | null> {
    const { session, source, isReused = false, isAnnounced = false } = ready;
    const { context } = this.#options;
    context.slot?.markGreeted();
    if (!isReused) this.#noteTls(session.tls);
    const via = this.#viaWith(session.tls);
    context.progress.server = { via, source };
    const sent = await this.#send(session);
    const isSessionAtFault = sent.kind !== 'unavailable' && isReused && isAboutTheSession(sent);
    session.release(!isSessionAtFault);
    if (sent.kind === 'unavailable') return sent;
    const isAnnouncementAtFault = isAnnounced && sent.phase === 'mail';
    this.#noteReply(sent, { isAnnouncementAtFault });
    if (isSessionAtFault || isAnnouncementAtFault) {
      this.#needsNewSession = true;
      return null;
    }
    return { ...sent, via, source };
  }

  async #send(session: ReadySession['session']): Promise<TransactionResult | Unavailable> {
    const { transaction, withMessage } = this.#options.context;
    const send: Send = () => session.send(transaction);
    try {
      return await (withMessage === null ? send() : withMessage(send));
    } catch (error) {
      session.release();
      throw error;
    }
  }

  /** Remembers that TLS worked, and counts the result of a new session for TLS reports. */
  #noteTls(tls: SmtpTlsFacts | null): void {
    const { rule, context } = this.#options;
    const { host, reducedHello: reduced = false } = this.#target;
    if (tls !== null) context.tlsMemory.recordSuccess(host, { reduced });
    context.onTls(rule, rule.problem ?? tlsResultOf(this.#target, rule, tls));
  }

  #noteReply(
    sent: TransactionResult,
    { isAnnouncementAtFault }: { isAnnouncementAtFault: boolean },
  ): void {
    const { connections } = this.#options;
    const { provider, host } = this.#target;
    if (sent.kind === 'replied' && !('local' in sent)) connections.uplink.reportReply(provider);
    // The server refused the envelope that came with the dot, or never replied to it.
    const isRefused = sent.kind === 'replied' || sent.cause !== 'closed';
    if (isAnnouncementAtFault && isRefused) connections.stopAnnouncing(host);
  }

  #viaWith(tls: SmtpTlsFacts | null): Via {
    return { ...this.#where, tls: tls && withoutTlsResult(tls) };
  }
}

/** Returns whether the uplink was down for some of the attempt and is up now, so that the server is not to blame. */
export function hasUplinkRecovered(
  { uplink }: SmtpConnections,
  { progress }: Pick<AttemptContext, 'progress'>,
): boolean {
  return !uplink.isDown && uplink.wasDownSince(progress.startedMs);
}

function firstTarget(
  server: Pick<SmtpTarget, 'provider' | 'host' | 'address'>,
  rule: UsableRule,
  { tlsMemory }: AttemptContext,
): SmtpTarget {
  const { host } = server;
  const reduced = tlsMemory.needsReduced(host) ? { reducedHello: true } : {};
  if (rule.mode === 'opportunistic') {
    if (tlsMemory.isBroken(host)) return { ...server, tls: 'off' };
    return { ...server, tls: rule.mode, expectsTls: tlsMemory.expectsTls(host), ...reduced };
  }
  if (rule.mode !== 'dane') return { ...server, tls: rule.mode, ...reduced };
  return { ...server, tls: 'dane', dane: rule.dane, daneKey: rule.key, ...reduced };
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

function isUnreachable({ phase, cause }: { phase: SmtpPhase; cause: SmtpFailureCause }): boolean {
  return phase === 'connect' || (phase === 'greeting' && cause === 'timeout');
}

/** Returns the TLS result for reports. A bad certificate is a failure only under a policy. */
function tlsResultOf(target: SmtpTarget, { policy }: TlsRule, tls: SmtpTlsFacts | null): TlsResult {
  if (tls !== null) return policy === 'none' || policy === 'provider' ? null : tls.result;
  return target.tls === 'off' ? 'validation-failure' : 'starttls-not-supported';
}

function withoutTlsResult({ version, cipher, verified, problem }: SmtpTlsFacts): Via['tls'] {
  return { version, cipher, verified, problem };
}

/**
 * Returns whether the reply is about a kept session: the server ended it, or accepts no more messages on it. Nothing
 * of the message was sent. Some servers use a 5xx for this, which must not bounce.
 */
function isAboutTheSession(sent: TransactionResult): boolean {
  if (sent.phase === 'rset') return true;
  if (sent.phase !== 'mail' || 'local' in sent) return false;
  if (sent.kind === 'failed') return sent.cause === 'closed';
  return sent.reply.code === 421 || sent.reply.code >= 500;
}
