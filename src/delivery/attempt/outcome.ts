/**
 * Decides the outcome of an attempt. Pure decisions, no I/O. mail/replies/meanings.ts decides what a reply means and
 * whether it suppresses the address. endings.ts has the outcomes of deliveries without a reply.
 *
 * `bounced`: a permanent answer of the recipient's server or DNS (no such domain, null MX). `failed`: the service
 * gave up. Everything else is deferred until it expires.
 */
import { mailRetryDelayMs, simulatedRetryDelayMs } from '../../core/retry.ts';
import type { StoredStatus } from '../../core/statuses.ts';
import type { World } from '../../lib/world.ts';
import { classifyFailure, classifyReply } from '../../mail/replies/classify.ts';
import {
  type MeaningName,
  type Reason,
  reasonOf,
  type Classification,
  classificationOf,
} from '../../mail/replies/meanings.ts';
import type { NextServer } from '../../mail/notice.ts';
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { MailHosts } from '../../net/dns/mx.ts';
import type { SmtpTlsFacts } from '../../net/smtp/client.ts';
import type { TlsPolicyName } from '../../net/tls/policy.ts';
import { newSettlement, type Settlement } from '../../settle/settlement.ts';
import type { Delivery } from '../queue/fair-queue.ts';
import type { SignedMessage } from './message.ts';

/** The server at which the attempt ended; null for steps that were not reached. */
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
      /** Source address, `''` for the system's choice. A slowdown applies to its connections. */
      source: string;
      transcript: readonly string[];
      /** True when we refused to send, because the server lacks an extension. */
      local?: true;
      /** True when the server has DSN and got the parameters. */
      hasDsn?: true;
    }
  | {
      kind: 'failed';
      phase: SmtpPhase;
      cause: SmtpFailureCause;
      message: string;
      /** True after the final dot: the message may have been delivered. */
      inDoubt: boolean;
      via: Via;
      source: string;
      transcript: readonly string[];
    }
  | { kind: 'unroutable'; route: Exclude<MailHosts, { kind: 'hosts' }> };

type SmtpFacts = {
  code: number | null;
  enhanced_code: string | null;
  message: string;
  mx: string | null;
  ip: string | null;
  tls: Via['tls'];
  tls_policy: Via['tls_policy'] | null;
};

export type Outcome = {
  status: StoredStatus;
  reason: Reason | null;
  smtp: SmtpFacts | null;
  /** null: the reason is not the mailbox. `days`: time to suppress; null: without end. */
  suppress: { reason: 'hard_bounce' | 'complaint'; days: number | null } | null;
  slowDown: boolean;
  /** True after a 5xx that is temporary in practice, or in doubt: deferred with a longer first wait. */
  retrySlowly?: boolean;
  inDoubt?: boolean;
  mailboxFull?: boolean;
  /** Set for an email that asks for delivery notices. */
  nextServer?: NextServer;
};

/** The end of an attempt: settle its outcome, or release a delivery that was not sent. */
export type Attempted =
  | {
      kind: 'ended';
      outcome: Outcome;
      /** The attempt in the form of the timeline; null: nothing was attempted. */
      attempt: object | null;
      /** On the monotonic clock; null: nothing was attempted. */
      startedMs: number | null;
      thenComplains?: boolean;
      /** True when no server answered and nothing was sent. */
      isUnanswered?: boolean;
      /** Milliseconds that replace the scheduled wait. */
      retryMs?: number;
    }
  /** Nothing was sent and no attempt is counted. The timeline shows the reason once. */
  | { kind: 'deferred'; outcome: Outcome; delayMs: number }
  | { kind: 'release'; delayMs: number };

/** @param accepted status after a 250 to the message: `delivered` by MX, `sent` through a relay */
export function outcomeOf(result: AttemptResult, accepted: 'delivered' | 'sent'): Outcome {
  switch (result.kind) {
    case 'replied':
      return outcomeOfReply(result, accepted);
    case 'failed':
      return outcomeOfFailure(result);
    case 'unroutable':
      return outcomeOfRoute(result.route);
  }
}

function outcomeOfReply(
  result: Extract<AttemptResult, { kind: 'replied' }>,
  accepted: 'delivered' | 'sent',
): Outcome {
  const { phase, reply, via } = result;
  const smtp: SmtpFacts = {
    code: reply.code,
    enhanced_code: reply.enhancedCode,
    message: reply.message,
    ...via,
  };
  if (phase === 'data' && reply.code >= 200 && reply.code < 300) {
    return { status: accepted, reason: null, smtp, suppress: null, slowDown: false };
  }
  return outcomeBy(classifyReply({ phase, reply }), smtp);
}

function outcomeOfFailure(result: Extract<AttemptResult, { kind: 'failed' }>): Outcome {
  const smtp = { code: null, enhanced_code: null, message: result.message, ...result.via };
  const outcome = outcomeBy(classifyFailure(result), smtp);
  // Each further attempt may deliver another copy.
  return result.inDoubt ? { ...outcome, inDoubt: true, retrySlowly: true } : outcome;
}

type Unroutable = Extract<AttemptResult, { kind: 'unroutable' }>['route'];

type RouteOutcome = { meaning: MeaningName; enhancedCode: string; status: StoredStatus };

const ROUTES: Readonly<Record<Unroutable['kind'], RouteOutcome>> = {
  null_mx: { meaning: 'domain_takes_no_mail', enhancedCode: '5.1.10', status: 'bounced' },
  no_such_domain: { meaning: 'no_such_domain', enhancedCode: '5.1.2', status: 'bounced' },
  no_mail_host: { meaning: 'no_mail_host', enhancedCode: '5.4.4', status: 'bounced' },
  refused: { meaning: 'no_public_host', enhancedCode: '5.4.6', status: 'failed' },
  temporary: { meaning: 'dns_unavailable', enhancedCode: '4.4.3', status: 'deferred' },
};

function outcomeOfRoute({ kind, message }: Unroutable): Outcome {
  const { meaning, enhancedCode, status } = ROUTES[kind];
  const nowhere = { mx: null, ip: null, tls: null, tls_policy: null };
  const smtp = { code: null, enhanced_code: enhancedCode, message, ...nowhere };
  const classification = classificationOf(meaning, { isPermanent: status !== 'deferred' });
  return { ...outcomeBy(classification, smtp), status };
}

function outcomeBy(classification: Classification, smtp: SmtpFacts): Outcome {
  return {
    status: classification.permanent ? 'bounced' : 'deferred',
    reason: reasonOf(classification),
    smtp,
    suppress: classification.suppress
      ? { reason: 'hard_bounce', days: classification.suppressDays ?? null }
      : null,
    slowDown: classification.slowDown ?? false,
    ...(classification.retrySlowly && { retrySlowly: true }),
    ...(classification.mailboxFull && { mailboxFull: true }),
  };
}

/** Returns whether no server answered and the message was not sent. While the uplink is down, that is the reason. */
export function isUnanswered(result: AttemptResult): boolean {
  if (result.kind === 'unroutable') return result.route.kind === 'temporary';
  if (result.kind === 'replied' || result.inDoubt) return false;
  return /^(?:unreachable|timeout|closed)$/.test(result.cause);
}

/** Returns the attempt in the form of the timeline. @param facts.message null: no server was ready for it */
export function attemptRecord(
  delivery: Delivery,
  result: AttemptResult,
  facts: { message: SignedMessage | null; startedAt: Date; durationMs: number },
): object {
  const common = {
    number: delivery.attempts + 1,
    started_at: facts.startedAt.toISOString(),
    duration_ms: Math.round(facts.durationMs),
    ...(facts.message && {
      message_bytes: facts.message.sizeBytes,
      message_sha256: facts.message.sha256,
    }),
  };
  if (result.kind === 'unroutable') return { ...common, phase: 'dns', transcript: [] };
  return {
    ...common,
    phase: result.phase,
    in_doubt: result.kind === 'failed' && result.inDoubt,
    ...result.via,
    transcript: result.transcript,
  };
}

type SettlementOptions = {
  attempt: object | null;
  world: Pick<World, 'newId' | 'random'>;
  late?: boolean;
  /** Milliseconds to wait after each attempt; core/retry.ts has the defaults. */
  retryWaitsMs?: readonly number[];
  retryMs?: number;
};

type SettledDelivery = Pick<
  Delivery,
  'message' | 'position' | 'claim' | 'attempts' | 'provider' | 'address'
>;

export function settlementOf(
  delivery: SettledDelivery,
  outcome: Outcome,
  options: SettlementOptions,
): Settlement {
  const { message, claim, provider } = delivery;
  const { attempt, world, late = false } = options;
  const { projectId, environment } = message;
  const { position, address } = delivery;
  const recipient = { projectId, environment, position, address, email: message };
  const isDeferred = outcome.status === 'deferred';
  const waitMs = isDeferred ? retryDelayMs(delivery, outcome, options) : null;
  const retryMs = waitMs && (options.retryMs ?? waitMs);
  return newSettlement(recipient, outcome, world, { claim, provider, attempt, retryMs, late });
}

function retryDelayMs(
  delivery: SettledDelivery,
  outcome: Outcome,
  options: SettlementOptions,
): number {
  const { world, retryWaitsMs } = options;
  const attempts = delivery.attempts + 1;
  if (delivery.message.environment === 'test')
    return simulatedRetryDelayMs(attempts, world.random());
  return mailRetryDelayMs(attempts, world.random(), {
    ...(retryWaitsMs && { waitsMs: retryWaitsMs }),
    slowly: outcome.retrySlowly ?? false,
  });
}
