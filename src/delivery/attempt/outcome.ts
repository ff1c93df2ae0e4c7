/**
 * What becomes of a recipient after an attempt, or without one: pure decisions, no I/O. What an answer
 * means, and whether it suppresses the address, is decided by mail/replies/meanings.ts.
 *
 * `bounced`: a permanent answer of the receiver or of its DNS (no such domain, null MX). `failed`: the
 * service gave up. Everything else is deferred until it expires.
 */
import { mailRetryDelayMs, simulatedRetryDelayMs } from '../../core/retry.ts';
import type { StoredStatus } from '../../core/statuses.ts';
import type { World } from '../../lib/world.ts';
import { classifyFailure, classifyReply } from '../../mail/replies/classify.ts';
import {
  COMPLAINT,
  type MeaningName,
  type Reason,
  reasonOf,
  type Classification,
  classificationOf,
} from '../../mail/replies/meanings.ts';
import type { NextServer } from '../../mail/notice.ts';
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from '../../mail/replies/smtp-reply.ts';
import type { Route } from '../../net/dns/mx.ts';
import type { SmtpTlsFacts } from '../../net/smtp/client.ts';
import type { TlsPolicyName } from '../../net/tls/policy.ts';
import { newSettlement, type Settlement } from '../../settle/settlement.ts';
import type { Delivery } from '../queue/fair-queue.ts';
import type { SignedMessage } from './message.ts';

/** The server at which the attempt ended; null for what was not reached. */
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
      /** Refused by us for want of an extension of the server. */
      local?: true;
      /** The server has DSN, and got the parameters. */
      hasDsn?: true;
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

type SmtpFacts = {
  code: number | null;
  enhanced_code: string | null;
  message: string;
  mx: string | null;
  ip: string | null;
  tls: Via['tls'];
  /** null: no mail server was chosen. */
  tls_policy: Via['tls_policy'] | null;
};

export type Outcome = {
  status: StoredStatus;
  reason: Reason | null;
  smtp: SmtpFacts | null;
  /** null: not about the mailbox. `days`: how long to suppress; null: without end. */
  suppress: { reason: 'hard_bounce' | 'complaint'; days: number | null } | null;
  /** The provider asked us to slow down. */
  slowDown: boolean;
  /** A 5xx that is temporary in practice, or in doubt: deferred, and not tried again within minutes. */
  retrySlowly?: boolean;
  /** The receiver may have the message. */
  inDoubt?: boolean;
  /** It ended because the mailbox was full (suppressions/suppression-store.ts). */
  mailboxFull?: boolean;
  /** Of an email that asks for notices about delivery. */
  nextServer?: NextServer;
};

/** What is left to do after an attempt: settle its outcome, or release a delivery that was not sent. */
export type Attempted =
  | {
      kind: 'ended';
      outcome: Outcome;
      /** As the timeline stores it; null: nothing was attempted. */
      attempt: object | null;
      /** On the monotonic clock; null: nothing was attempted. */
      startedMs: number | null;
      /** A complaint follows (simulator.ts). */
      thenComplains?: boolean;
      /** No server answered, and nothing was sent. */
      isUnanswered?: boolean;
      /** Instead of the usual wait. */
      retryMs?: number;
    }
  /** Nothing was sent, for a reason that the timeline shows once. */
  | { kind: 'put_off'; outcome: Outcome; delayMs: number }
  | { kind: 'release'; delayMs: number };

/** @param accepted what a 250 to the message means: `delivered` by MX, `sent` through a relay */
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
  // Each further attempt may be a further copy.
  return result.inDoubt ? { ...outcome, inDoubt: true, retrySlowly: true } : outcome;
}

type Unroutable = Extract<AttemptResult, { kind: 'unroutable' }>['route'];

type RouteOutcome = { means: MeaningName; enhancedCode: string; status: StoredStatus };

/** Results of DNS that end or defer a delivery without a connection to a mail server. */
const ROUTES: Readonly<Record<Unroutable['kind'], RouteOutcome>> = {
  null_mx: { means: 'domain_takes_no_mail', enhancedCode: '5.1.10', status: 'bounced' },
  no_such_domain: { means: 'no_such_domain', enhancedCode: '5.1.2', status: 'bounced' },
  no_mail_host: { means: 'no_mail_host', enhancedCode: '5.4.4', status: 'bounced' },
  refused: { means: 'no_public_host', enhancedCode: '5.4.6', status: 'failed' },
  temporary: { means: 'dns_unavailable', enhancedCode: '4.4.3', status: 'deferred' },
};

function outcomeOfRoute({ kind, message }: Unroutable): Outcome {
  const { means, enhancedCode, status } = ROUTES[kind];
  const nowhere = { mx: null, ip: null, tls: null, tls_policy: null };
  const smtp = { code: null, enhanced_code: enhancedCode, message, ...nowhere };
  const classification = classificationOf(means, { saidPermanent: status !== 'deferred' });
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

/** No server answered, and the message was not sent: if our uplink is down, that is the reason. */
export function isUnanswered(result: AttemptResult): boolean {
  if (result.kind === 'unroutable') return result.route.kind === 'temporary';
  if (result.kind === 'replied' || result.inDoubt) return false;
  return /^(?:unreachable|timeout|closed)$/.test(result.cause);
}

/** The attempt as the timeline stores it. @param facts.message null: no server was ready for it */
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
  /** null: nothing was attempted. */
  attempt: object | null;
  world: Pick<World, 'newId' | 'random'>;
  late?: boolean;
  /** core/retry.ts has the usual ones. */
  retryWaitsMs?: readonly number[];
  /** Instead of the usual wait. */
  retryMs?: number;
};

/** What a settlement needs of a delivery. */
type Settled = Pick<
  Delivery,
  'message' | 'position' | 'claim' | 'attempts' | 'provider' | 'address'
>;

/** The outcome as the store settles it. */
export function settlementOf(
  delivery: Settled,
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

function retryDelayMs(delivery: Settled, outcome: Outcome, options: SettlementOptions): number {
  const { world, retryWaitsMs } = options;
  const attempts = delivery.attempts + 1;
  if (delivery.message.environment === 'test')
    return simulatedRetryDelayMs(attempts, world.random());
  return mailRetryDelayMs(attempts, world.random(), {
    ...(retryWaitsMs && { waitsMs: retryWaitsMs }),
    slowly: outcome.retrySlowly ?? false,
  });
}
// Outcomes without an answer of the receiver.

export const EXPIRED: Outcome = {
  status: 'failed',
  reason: {
    category: 'expired',
    blame: 'receiver',
    advice: 'The time to deliver it was up; the timeline shows what each attempt met.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

export const EXPIRED_MAILBOX_FULL: Outcome = {
  ...EXPIRED,
  reason: {
    category: 'expired',
    blame: 'recipient',
    advice: 'The mailbox was full until the time to deliver the email was up.',
  },
  mailboxFull: true,
};

/** The deliveries of a provider in an outage are not tried, so that an email may expire untried. */
export function expiredUntried(outageReason: string | null): Outcome {
  const why =
    outageReason === null
      ? 'it waited behind other mail or on hold.'
      : `no server of the receiver answered meanwhile (${outageReason}).`;
  const reason: Reason = {
    category: 'expired',
    blame: outageReason === null ? 'us' : 'receiver',
    advice: `The time to deliver it was up before it could be tried: ${why}`,
  };
  return { ...EXPIRED, reason };
}

const NO_UPLINK =
  'no mail server anywhere answered this service, so its own network connection was down.';

/**
 * Our own uplink is down: the receiver is not to blame. Stored once, without an attempt, so that the waits between
 * attempts do not grow.
 */
export function deferredByUplink({ smtp }: Outcome): Outcome {
  const advice =
    'No mail server anywhere answers this service, so its own network connection is down; ' +
    'the email is sent as soon as a server answers.';
  const reason: Reason = { category: 'network', blame: 'us', advice };
  return { ...EXPIRED, status: 'deferred', reason, smtp };
}

export const EXPIRED_WITHOUT_UPLINK: Outcome = {
  ...EXPIRED,
  reason: {
    category: 'expired',
    blame: 'us',
    advice: `The time to deliver it was up, and ${NO_UPLINK}`,
  },
};

/** Mail waits for a server that keeps the TLS policy until it expires. */
export const EXPIRED_WITHOUT_TLS: Outcome = {
  ...EXPIRED,
  reason: {
    category: 'tls',
    blame: 'receiver',
    advice:
      'The time to deliver it was up, and no server of the domain had offered the TLS that is ' +
      'asked for; the timeline shows what each attempt met.',
  },
};

export const SUPPRESSED: Outcome = {
  status: 'suppressed',
  reason: {
    category: 'mailbox',
    blame: 'recipient',
    advice: 'The address is on the suppression list; remove it there if it works again.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

export const DOMAIN_REMOVED: Outcome = {
  status: 'failed',
  reason: {
    category: 'policy',
    blame: 'sender',
    advice: 'The sending domain was removed before the email left; add and verify it again.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

/** Its row of `contents` is gone, as after a repair of the database. */
export const CONTENT_MISSING: Outcome = {
  status: 'failed',
  reason: {
    category: 'policy',
    blame: 'us',
    advice: 'The stored content of the email was lost before it could be sent; send it again.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

/** The stored message differs from what was checked when it was accepted (mail/dkim.ts). */
export const UNSIGNABLE: Outcome = {
  status: 'failed',
  reason: {
    category: 'authentication',
    blame: 'us',
    advice:
      'The message does not name exactly one author of the sending domain, so it was neither signed ' +
      'nor sent; send it again with one address in From.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

/** Its signature would not verify: the mail waits for the DNS records until it expires. */
export const DOMAIN_UNVERIFIED: Outcome = {
  status: 'deferred',
  reason: {
    category: 'authentication',
    blame: 'sender',
    advice:
      'The sending domain is not verified any more; publish its records again and verify it, ' +
      'and its mail goes on.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

export const EXPIRED_UNVERIFIED: Outcome = {
  ...EXPIRED,
  reason: {
    category: 'expired',
    blame: 'sender',
    advice:
      'The time to deliver it was up while its sending domain was not verified any more; ' +
      'publish its records again and verify it.',
  },
};

/** RFC 5321 §2.3.5: EHLO takes a fully qualified name; many receivers refuse others with a 5xx. */
export const NO_HOST_NAME: Outcome = {
  status: 'deferred',
  reason: {
    category: 'protocol',
    blame: 'us',
    advice:
      'This service has no fully qualified host name to introduce itself with; ' +
      'set LETTERHAUS_HOSTNAME to the name in the reverse DNS of its address.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

/** The row is damaged, or another secret key has sealed it: mended, the mail goes on. */
export function unsignable(domain: string): Outcome {
  return {
    status: 'deferred',
    reason: {
      category: 'authentication',
      blame: 'us',
      advice:
        `This service cannot open its DKIM key of ${domain}, so the email waits unsigned; ` +
        `the operator has to restore it (letterhaus domains verify ${domain} says how).`,
    },
    smtp: null,
    suppress: null,
    slowDown: false,
  };
}

export const EXPIRED_UNSIGNED: Outcome = {
  ...EXPIRED,
  reason: {
    category: 'expired',
    blame: 'us',
    advice:
      'The time to deliver it was up while this service could not open the DKIM key of the sending domain; ' +
      'the operator has to restore it.',
  },
};

/** Attempts in doubt after which a message is not sent again. */
export const DOUBTS_MAX = 3;

/** The last attempt in doubt. */
export function givenUpInDoubt(outcome: Outcome): Outcome {
  const reason: Reason = {
    category: 'network',
    blame: 'receiver',
    advice:
      'The connection was lost three times before the server confirmed the message. It may have arrived, ' +
      'and is not sent again so that its recipient gets no more copies.',
  };
  return { ...outcome, status: 'failed', reason };
}

/** `letterhaus queue drop`. */
export const DROPPED: Outcome = {
  status: 'canceled',
  reason: {
    category: 'policy',
    blame: 'us',
    advice: 'The operator of this service took the email out of its queue before it was sent.',
  },
  smtp: null,
  suppress: null,
  slowDown: false,
};

export const COMPLAINED: Outcome = {
  status: 'complained',
  reason: COMPLAINT,
  smtp: null,
  suppress: { reason: 'complaint', days: null },
  slowDown: false,
};
