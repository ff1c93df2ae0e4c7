/**
 * One attempt to deliver one message to one recipient: route, session, transaction.
 *
 * It walks the receiver's hosts in order and says what happened, without judging it
 * (delivery/outcome.ts does). Rules: a host that cannot be reached or greets with a refusal is
 * passed over for the next one; an answer about the message is the receiver's answer; after the
 * dot was written nobody else is asked, because the message may have been delivered. Hosts that
 * did not answer a moment ago are not asked, and when that is all of them, that is no attempt.
 */
import type { SmtpPhase, SmtpReply } from '../mail/smtp-reply.ts';
import type { SmtpFailureCause, SmtpTlsFacts, SmtpTlsMode } from '../net/smtp-client.ts';
import type { TransactionResult } from '../net/smtp-client.ts';
import type { Route } from '../net/mx.ts';
import type { Connections, Target } from './connections.ts';

/** Where the message went, as far as it came. */
export type Via = { mx: string | null; ip: string | null; tls: SmtpTlsFacts | null };

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
  tls: 'opportunistic' | 'enforced';
  mayProceed: () => boolean;
  /** How long it may be put off for hosts that did not answer a moment ago. */
  patienceMs: number;
};

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
  for (const target of targetsOf(route, connections, options.tls)) {
    const deadForMs = connections.deadForMs(target.address);
    // Rather than let a login code expire unasked, a dead host is asked once more.
    if (deadForMs > 0 && deadForMs < options.patienceMs) {
      delayMs = Math.min(delayMs, deadForMs);
      continue;
    }
    const { result, hadSession } = await tryTarget(target, connections, options);
    last = result;
    if (hadSession) sessions += 1;
    if (isAnswer(result) || sessions >= SESSIONS_MAX) break;
  }
  if (last !== null) return last;
  return delayMs < Infinity ? { kind: 'postponed', delayMs } : nobodyToAsk();
}

function targetsOf(
  route: Extract<Route, { kind: 'hosts' }>,
  connections: Connections,
  tls: 'opportunistic' | 'enforced',
): Target[] {
  return route.hosts
    .flatMap((host) =>
      host.addresses.map((address) => ({
        provider: route.provider,
        host: host.name,
        address,
        tls: tlsModeFor(host.name, connections, tls),
      })),
    )
    .slice(0, ADDRESSES_MAX);
}

function tlsModeFor(host: string, connections: Connections, tls: SmtpTlsMode): SmtpTlsMode {
  return tls === 'opportunistic' && connections.hasBrokenTls(host) ? 'off' : tls;
}

type Tried = { result: AttemptResult; hadSession: boolean };

async function tryTarget(
  target: Target,
  connections: Connections,
  options: AttemptOptions,
): Promise<Tried> {
  const opened = await connections.acquire(target);
  if (opened.kind !== 'ready') {
    if (opened.phase === 'tls' && target.tls === 'opportunistic') {
      connections.markBrokenTls(target.host);
      return tryTarget({ ...target, tls: 'off' }, connections, options);
    }
    if (opened.phase === 'connect') connections.markDead(target.address);
    const via = { mx: target.host, ip: target.address, tls: null };
    const result: AttemptResult =
      opened.kind === 'replied' ? { ...opened, via } : { ...opened, inDoubt: false, via };
    return { result, hadSession: opened.phase !== 'connect' };
  }
  const { connection, reused } = opened;
  const sent = await connection.send(options);
  connections.release(target, connection);
  // A kept session that the server had closed meanwhile says nothing about the message.
  if (reused === true && diedBeforeTheMessage(sent)) {
    return tryTarget(target, connections, options);
  }
  const via = { mx: target.host, ip: target.address, tls: connection.tls };
  return { result: { ...sent, via }, hadSession: true };
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
