/**
 * Decides which emails may be stored, from facts that one statement read (facts.ts). A pure function: single emails,
 * batches, SMTP submissions and dry runs use the same rules, and decision.test.ts tests them as a table.
 *
 * The facts were read without a lock. The insert (insert.ts) therefore checks limits and idempotency keys itself. It
 * stores nothing if they have changed, and the facts are read and decided again.
 */
import type { LimitState } from '../../core/limits.ts';
import type { AllowLists } from '../../core/scope.ts';
import { SCHEDULE_DAYS_MAX } from '../../core/retry.ts';
import type { Email } from '../../mail/email.ts';
import { parseTracking } from '../../mail/links/tracking-link.ts';
import {
  type DecisionKind,
  type EmailBatch,
  type EmailResult,
  fillResponse,
  type Idempotency,
  type NewEmail,
} from './new-email.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';
import { isFromAllowedNetwork, refusalByLists } from '../accept-refusals.ts';
import { DAY_MS } from '../../lib/units.ts';

/** The database's state about emails, at one moment. */
export type Facts = {
  now: Date;
  time: string;
  /** `now` to the microsecond, in PostgreSQL's format. */
  exactNow: string;
  byEmail: readonly EmailFacts[];
};

export type EmailFacts = {
  isApiKeyValid: boolean;
  /** The lists of the key. */
  allowLists: AllowLists;
  domain: SendingDomain | null;
  /** Shared by all emails of a project and environment. */
  window: LimitWindow;
  suppressed: readonly RecipientSuppression[];
  /** The earlier request with the idempotency key, or null when there was none within 24 hours. */
  earlierRequest: { fingerprint: string; response: string } | null;
};

export type SendingDomain = {
  id: string;
  dualSigned: boolean;
  tls: Email['tls'];
  tracksOpens: boolean;
  tracksClicks: boolean;
  isPaused: boolean;
};

export type LimitWindow = {
  emails: LimitCount;
  recipients: LimitCount;
  /** True when the limit has blocks (limits/limit-blocks.ts). */
  hasBlocks: boolean;
  /** True when some of its blocks should be filled now. */
  isToFill: boolean;
};

/** `left` is the remaining number of emails or recipients. `leftInRow` is its part outside of blocks. */
export type LimitCount = { max: number; left: number; leftInRow: number } & Pick<
  LimitState,
  'resetS' | 'windowS'
>;

export type RecipientSuppression = {
  position: number;
  reason: SuppressionReason;
  expires_at: string | null;
};

export type Decision = {
  outcome: DecisionKind;
  facts: EmailFacts;
  openCount: number;
  isScheduled: boolean;
  limitedBy: 'emails' | 'recipients' | null;
  response: string | null;
  fingerprint: string | null;
  /** The idempotency key to store with the email. */
  key: (Idempotency & { response: string }) | null;
};

export function decide(emails: readonly NewEmail[], facts: Facts): Decision[] {
  return refuseBeyondLimits(
    emails.map((email, index) => decideOne(email, facts.byEmail[index]!, facts)),
  );
}

/** Decides about the emails of one request. The first decision has the batch's response. */
export function decideBatch(batch: EmailBatch, facts: Facts): Decision[] {
  const { idempotency, isStrict, respond } = batch;
  const decisions = decide(batch.emails, facts);
  const earlier = idempotency && facts.byEmail[0]!.earlierRequest;
  if (earlier) {
    return decisions.map((one) =>
      isKeyRefused(one.outcome) ? one : { ...one, ...earlier, outcome: 'repeated' },
    );
  }
  const isStored = ({ outcome }: Decision) => outcome === 'accepted';
  if (isStrict && !decisions.every(isStored)) {
    return decisions.map((one) => (isStored(one) ? { ...one, outcome: 'batch_refused' } : one));
  }
  const response = respond(decisions.map(({ outcome }) => outcome));
  const first = decisions.findIndex(isStored);
  return decisions.map((one, index) => ({
    ...one,
    response: index === 0 ? response : null,
    key: index === first ? idempotency && { ...idempotency, response } : null,
  }));
}

/** Returns whether the key may not be used at all, so that not even a repetition gets its response. */
export function isKeyRefused(outcome: EmailResult['outcome']): boolean {
  return outcome === 'key_refused' || outcome === 'network_refused';
}

function decideOne(email: NewEmail, facts: EmailFacts, { now, time }: Facts): Decision {
  const earlier = email.idempotency && facts.earlierRequest;
  const openCount = email.recipients.length - facts.suppressed.length;
  const aheadMs = email.scheduledAt === null ? 0 : email.scheduledAt.getTime() - now.getTime();
  const common = {
    facts,
    openCount,
    isScheduled: aheadMs > 0,
    limitedBy: null,
    response: null,
    fingerprint: null,
    key: null,
  };
  if (!facts.isApiKeyValid) return { ...common, outcome: 'key_refused' };
  if (!isFromAllowedNetwork(email, facts.allowLists)) {
    return { ...common, outcome: 'network_refused' };
  }
  if (earlier) return { ...common, ...earlier, outcome: 'repeated' };
  if (aheadMs > SCHEDULE_DAYS_MAX * DAY_MS) return { ...common, outcome: 'schedule_refused' };
  const refusedByLists = refusalByLists(email, facts.allowLists);
  if (refusedByLists !== null) return { ...common, outcome: refusedByLists };
  if (facts.domain === null) return { ...common, outcome: 'domain_refused' };
  if (openCount === 0 && !email.acceptsSuppressed) return { ...common, outcome: 'suppressed' };
  const response = fillResponse(email, { createdAt: time, isScheduled: common.isScheduled });
  const { idempotency } = email;
  return {
    ...common,
    outcome: 'accepted',
    response,
    fingerprint: idempotency?.fingerprint ?? null,
    key: idempotency && { ...idempotency, response },
  };
}

/** Refuses emails beyond the limits. Emails with few recipients are accepted first, so that most of them fit. */
function refuseBeyondLimits(decisions: readonly Decision[]): Decision[] {
  const limitedBy = new Map<Decision, Decision['limitedBy']>();
  const candidates = decisions.filter(({ outcome }) => outcome === 'accepted');
  for (const [window, own] of Map.groupBy(candidates, ({ facts }) => facts.window)) {
    let recipients = 0;
    for (const [index, one] of own.toSorted((a, b) => a.openCount - b.openCount).entries()) {
      recipients += one.openCount;
      if (index >= window.emails.left) limitedBy.set(one, 'emails');
      else if (recipients > window.recipients.left) limitedBy.set(one, 'recipients');
    }
  }
  const refused = { outcome: 'limited', response: null, fingerprint: null, key: null } as const;
  return decisions.map((one) => {
    const limit = limitedBy.get(one);
    return limit ? { ...one, ...refused, limitedBy: limit } : one;
  });
}

export function tlsOf({ tls }: NewEmail, { domain }: EmailFacts): Email['tls'] {
  return tls ?? domain?.tls ?? null;
}

/**
 * Returns the stored form of the tracking (mail/links/tracking-link.ts), or null without tracking or when it is
 * impossible. TRACKING in fast-path-sql.ts is the same rule in SQL; fast-path.test.ts compares both.
 */
export function storedTracking({ tracking }: NewEmail, { domain }: EmailFacts): string | null {
  if (tracking.base === null) return null;
  const opens = (tracking.opens ?? domain?.tracksOpens) ? ['opens'] : [];
  const clicks = (tracking.clicks ?? domain?.tracksClicks) ? ['clicks'] : [];
  const what = [...opens, ...clicks].join('+');
  return what === '' ? null : `${what}:${tracking.base}`;
}

/** Returns whether this worker leases the recipients. Mail of a paused domain is put on hold instead. */
export function isHandedOver({ mayHandOver }: NewEmail, { facts }: Decision): boolean {
  return mayHandOver && facts.domain?.isPaused === false;
}

/** @param options.leaseId the lease under which accepted recipients are stored, or null when there is none */
export function resultsOf(
  emails: readonly NewEmail[],
  decisions: readonly Decision[],
  { now, leaseId }: { now: Date; leaseId: string | null },
): EmailResult[] {
  const accepted = decisions.filter(({ outcome }) => outcome === 'accepted');
  const byWindow = Map.groupBy(accepted, ({ facts }) => facts.window);
  return decisions.map((decision, index) => {
    const email = emails[index]!;
    const { facts, outcome, response, fingerprint } = decision;
    const isAccepted = outcome === 'accepted';
    return {
      outcome,
      response,
      fingerprint,
      domainId: isAccepted ? facts.domain!.id : null,
      dualSigned: facts.domain?.dualSigned ?? false,
      tls: tlsOf(email, facts),
      tracking: parseTracking(storedTracking(email, facts)),
      createdAt: now,
      suppressedPositions: isAccepted ? facts.suppressed.map(({ position }) => position) : [],
      leaseId: isAccepted && isHandedOver(email, decision) ? leaseId : null,
      limit: limitState(decision, byWindow.get(facts.window) ?? []),
    };
  });
}

export function limitState(
  { facts, limitedBy }: Decision,
  accepted: readonly Decision[],
): LimitState {
  const { max, left, resetS, windowS } = facts.window[limitedBy ?? 'emails'];
  const taken =
    limitedBy === 'recipients'
      ? accepted.reduce((sum, { openCount }) => sum + openCount, 0)
      : accepted.length;
  const remaining = Math.max(0, left - taken);
  const state = { limit: max, remaining, resetS, windowS };
  return limitedBy === 'recipients' ? { ...state, counts: 'recipients' } : state;
}
