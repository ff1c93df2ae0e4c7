/**
 * Decides the outcome of an attempt. Pure decisions, no I/O. mail/replies/meanings.ts decides what a reply means and
 * whether it suppresses the address. outcomes-without-reply.ts contains the outcomes of deliveries without a reply,
 * and settle-outcome.ts stores an outcome.
 *
 * `bounced`: a permanent reply of the recipient's server, or a permanent result of DNS (no such domain, null MX).
 * `failed`: the service gave up. Everything else is deferred until it expires.
 */
import type { StoredStatus } from '../../core/statuses.ts';
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
import type { TlsPolicyName } from '../../net/tls/tls-rule.ts';
import type { NewSuppression } from '../../settle/settlement.ts';
import type { Delivery } from '../memory/delivery.ts';
import type { PhaseTimes } from './phase-timer.ts';
import type { SignedMessage } from '../message/message-builder.ts';

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
  | { kind: 'unroutable'; noHosts: Exclude<MailHosts, { kind: 'hosts' }> };

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
  /** null: the reason is not the mailbox. */
  suppress: NewSuppression | null;
  slowDown: boolean;
  /** True after a 5xx that is temporary in practice, or in doubt: deferred with a longer first wait. */
  retrySlowly?: boolean;
  inDoubt?: boolean;
  mailboxFull?: boolean;
  /** Set for an email that asks for delivery notices. */
  nextServer?: NextServer;
};

/** An outcome to settle, with the facts of the attempt. */
export type ConcludedAttempt = {
  outcome: Outcome;
  /** The attempt in the form of the timeline, or null when nothing was attempted. */
  attempt: object | null;
  /** When the attempt began, on the monotonic clock, or null when nothing was attempted. */
  startedMs: number | null;
  /** True when a complaint follows the outcome, for a test key. */
  thenComplains?: boolean;
  /** True when no server replied and nothing was sent. */
  isUnanswered?: boolean;
  /** Milliseconds that replace the scheduled wait. */
  retryMs?: number;
};

/** The next step of the worker for a delivery that was attempted, or was not allowed to be. */
export type Disposition =
  | ({ kind: 'settle' } & ConcludedAttempt)
  /** Nothing was sent and no attempt is counted. The timeline shows the reason once. */
  | { kind: 'defer'; outcome: Outcome; delayMs: number; isUnanswered?: boolean }
  /** Nothing was sent, and nothing is stored. */
  | { kind: 'release'; delayMs: number };

type AcceptedStatus = 'delivered' | 'sent';
type Unroutable = Extract<AttemptResult, { kind: 'unroutable' }>['noHosts'];

type RouteOutcome = { meaning: MeaningName; enhancedCode: string; status: StoredStatus };

const OUTCOME_OF_ROUTE: Readonly<Record<Unroutable['kind'], RouteOutcome>> = {
  null_mx: { meaning: 'domain_takes_no_mail', enhancedCode: '5.1.10', status: 'bounced' },
  no_such_domain: { meaning: 'no_such_domain', enhancedCode: '5.1.2', status: 'bounced' },
  no_mail_host: { meaning: 'no_mail_host', enhancedCode: '5.4.4', status: 'bounced' },
  refused: { meaning: 'no_public_host', enhancedCode: '5.4.6', status: 'failed' },
  temporary: { meaning: 'dns_unavailable', enhancedCode: '4.4.3', status: 'deferred' },
};

/** @param acceptedStatus status after a 250 to the message: `delivered` by MX, `sent` through a relay */
export function outcomeOf(result: AttemptResult, acceptedStatus: AcceptedStatus): Outcome {
  switch (result.kind) {
    case 'replied':
      return outcomeOfReply(result, acceptedStatus);
    case 'failed':
      return outcomeOfFailure(result);
    case 'unroutable':
      return outcomeOfRoute(result.noHosts);
  }
}

function outcomeOfReply(
  result: Extract<AttemptResult, { kind: 'replied' }>,
  acceptedStatus: AcceptedStatus,
): Outcome {
  const { phase, reply, via } = result;
  const smtp: SmtpFacts = {
    code: reply.code,
    enhanced_code: reply.enhancedCode,
    message: reply.message,
    ...via,
  };
  if (phase === 'data' && reply.code >= 200 && reply.code < 300) {
    return { status: acceptedStatus, reason: null, smtp, suppress: null, slowDown: false };
  }
  return outcomeFrom(classifyReply({ phase, reply }), smtp);
}

function outcomeOfFailure(result: Extract<AttemptResult, { kind: 'failed' }>): Outcome {
  const smtp = { code: null, enhanced_code: null, message: result.message, ...result.via };
  const outcome = outcomeFrom(classifyFailure(result), smtp);
  // Each further attempt may deliver another copy.
  return result.inDoubt ? { ...outcome, inDoubt: true, retrySlowly: true } : outcome;
}

function outcomeOfRoute({ kind, message }: Unroutable): Outcome {
  const { meaning, enhancedCode, status } = OUTCOME_OF_ROUTE[kind];
  const noServer = { mx: null, ip: null, tls: null, tls_policy: null };
  const smtp = { code: null, enhanced_code: enhancedCode, message, ...noServer };
  const classification = classificationOf(meaning, { isPermanent: status !== 'deferred' });
  return { ...outcomeFrom(classification, smtp), status };
}

function outcomeFrom(classification: Classification, smtp: SmtpFacts): Outcome {
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

const CAUSES_WITHOUT_REPLY: ReadonlySet<SmtpFailureCause> = new Set<SmtpFailureCause>([
  'unreachable',
  'timeout',
  'closed',
]);

/** Returns whether no server replied and the message was not sent. While the uplink is down, that is the reason. */
export function isUnanswered(result: AttemptResult): boolean {
  if (result.kind === 'unroutable') return result.noHosts.kind === 'temporary';
  if (result.kind === 'replied' || result.inDoubt) return false;
  return CAUSES_WITHOUT_REPLY.has(result.cause);
}

/**
 * Returns the attempt in the form of the timeline.
 * @param facts.message null: no server was ready for it
 */
export function attemptRecord(
  delivery: Delivery,
  result: AttemptResult,
  facts: {
    message: SignedMessage | null;
    startedAt: Date;
    durationMs: number;
    /** null: simulated. */
    phases: PhaseTimes | null;
  },
): object {
  const common = {
    number: delivery.attempts + 1,
    started_at: facts.startedAt.toISOString(),
    duration_ms: Math.round(facts.durationMs),
    ...(facts.phases && { phase_ms: facts.phases }),
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
