/**
 * Decides which emails may be stored, from facts that one statement read (facts.ts). Pure: the same rules
 * serve single emails, batches, mail by SMTP and dry runs, and are tested as a table (decision.test.ts).
 *
 * The facts were read without a lock. The insert (insert.ts) therefore checks the limits and the idempotency
 * keys itself, and stores nothing when they have changed; the facts are then read and decided again.
 */
import type { LimitState } from '../../core/limits.ts';
import { SCHEDULE_DAYS_MAX } from '../../core/retry.ts';
import type { Environment } from '../../core/scope.ts';
import type { Address, Mailbox } from '../../mail/address.ts';
import type { Email } from '../../mail/email.ts';
import { type Tracking, trackingOf } from '../../mail/links/tracking-link.ts';
import type { SuppressionReason } from '../../suppressions/suppression-store.ts';

/**
 * A request to store. Its ids are made before any statement, so that `findStored` in accept/store/accept.ts can look
 * for them after a lost connection.
 */
export type NewEmail = Email & {
  bcc: readonly Mailbox[];
  projectId: string;
  environment: Environment;
  keyId: string;
  id: string;
  eventId: string;
  /** When to send it; null or in the past (by the database's clock): at once. */
  scheduledAt: Date | null;
  lifetimeS: number;
  recipients: readonly NewRecipient[];
  /** `data` of the email.queued event; a scheduled email changes it to email.scheduled. */
  eventData: object;
  /** The response's body; `@created_at` and `@status` are placeholders for values of the database. */
  response: string;
  /** Whether this worker holds the recipients at once, without a poll of the queue. */
  handOver: boolean;
  idempotency: Idempotency | null;
  sizeBytes: number;
  /** Absent or false: refused when every recipient is suppressed. */
  acceptsSuppressed?: boolean;
};

/** `fingerprint`: of endpoint and body, in hex. */
type Idempotency = { key: string; fingerprint: string };

export type NewRecipient = {
  position: number;
  address: Address;
  addressKey: string;
  kind: 'to' | 'cc' | 'bcc';
  destination: string;
  /** The provider if it is known, else the destination. */
  provider: string;
  eventId: string;
};

/** The emails of one request, with one API key and at most one idempotency key. */
export type EmailBatch = Pick<
  NewEmail,
  'projectId' | 'environment' | 'keyId' | 'idempotency' | 'sizeBytes'
> & {
  /** At least one; their own `idempotency` is null, and their own `response` is not used. */
  emails: readonly NewEmail[];
  /** All emails are stored, or none. */
  isStrict: boolean;
  /** The text of the response, which is stored with the key. */
  respond: (outcomes: readonly Outcome[]) => string;
};

export type Outcome =
  | 'accepted'
  | 'replayed'
  | 'key_refused'
  /** More than SCHEDULE_DAYS_MAX ahead. */
  | 'schedule_refused'
  | 'domain_refused'
  | 'suppressed'
  | 'limited'
  /** Not stored, because the batch is refused as a whole; this email is valid. */
  | 'withheld';

export type AcceptRow = {
  outcome:
    | Outcome
    /** Not stored; the reason was lost with the connection, so the client should retry. */
    | 'unknown';
  /** The response's body, when accepted or replayed. */
  response: string | null;
  /** Hex; of the original request of the key, when replayed. */
  fingerprint: string | null;
  domainId: string | null;
  dualSigned: boolean;
  /** The email's setting, else that of its domain; null: opportunistic. */
  tls: Email['tls'];
  /** As asked for by the email, else by its domain. */
  tracking: Tracking;
  createdAt: Date;
  /** Positions of suppressed recipients, which end at once. */
  suppressedPositions: readonly number[];
  /** The lease under which this worker holds the recipients; null: they wait in the queue table. */
  holder: string | null;
  /** Of the limit on recipients if that one refuses, else of the limit on emails. */
  limit: LimitState;
};

/** What the database knows about emails, as of one moment. */
export type Facts = {
  now: Date;
  /** The same as in JSON. */
  time: string;
  /** The same to the microsecond, as PostgreSQL writes it. */
  exactNow: string;
  /** One for each email, in order. */
  of: readonly EmailFacts[];
};

export type EmailFacts = {
  isKeyValid: boolean;
  /** null: it is not a verified domain of the project and environment. */
  domain: SendingDomain | null;
  /** The same object for all emails of a project and environment. */
  window: LimitWindow;
  /** The entries that hold back recipients, by position. */
  suppressed: readonly RecipientSuppression[];
  /** The request that used the idempotency key before; null: none within 24 hours. */
  earlier: { fingerprint: string; response: string } | null;
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
  /** Whether the limit has blocks (accept/store/limit-blocks.ts), and whether some of them should be filled now. */
  hasBlocks: boolean;
  isToFill: boolean;
};

/** `left`: emails or recipients that may still be accepted; `leftInRow`: of these, outside of blocks. */
export type LimitCount = { max: number; left: number; leftInRow: number } & Pick<
  LimitState,
  'resetS' | 'windowS'
>;

export type RecipientSuppression = {
  position: number;
  reason: SuppressionReason;
  expires_at: string | null;
};

/** The decision about one email. */
export type Verdict = {
  outcome: Outcome;
  facts: EmailFacts;
  /** Recipients that are not suppressed. */
  openCount: number;
  /** Its time is in the future. */
  isScheduled: boolean;
  /** The limit that refuses. */
  limitedBy: 'emails' | 'recipients' | null;
  response: string | null;
  fingerprint: string | null;
  /** The idempotency key to store with the email. */
  key: (Idempotency & { response: string }) | null;
};

const DAY_MS = 86_400_000;

/** @returns one verdict for each email, in order */
export function decide(emails: readonly NewEmail[], facts: Facts): Verdict[] {
  return place(emails.map((email, index) => judge(email, facts.of[index]!, facts)));
}

/** As `decide`, for the emails of one request. The first verdict has the response of the batch. */
export function decideTogether(batch: EmailBatch, facts: Facts): Verdict[] {
  const { idempotency, isStrict, respond } = batch;
  const verdicts = decide(batch.emails, facts);
  const earlier = idempotency && facts.of[0]!.earlier;
  if (earlier) {
    return verdicts.map((one) =>
      one.outcome === 'key_refused' ? one : { ...one, ...earlier, outcome: 'replayed' },
    );
  }
  const isStored = ({ outcome }: Verdict) => outcome === 'accepted';
  if (isStrict && !verdicts.every(isStored)) {
    return verdicts.map((one) => (isStored(one) ? { ...one, outcome: 'withheld' } : one));
  }
  const response = respond(verdicts.map(({ outcome }) => outcome));
  const first = verdicts.findIndex(isStored);
  return verdicts.map((one, index) => ({
    ...one,
    response: index === 0 ? response : null,
    key: index === first ? idempotency && { ...idempotency, response } : null,
  }));
}

function judge(email: NewEmail, facts: EmailFacts, { now, time }: Facts): Verdict {
  const earlier = email.idempotency && facts.earlier;
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
  if (!facts.isKeyValid) return { ...common, outcome: 'key_refused' };
  if (earlier) return { ...common, ...earlier, outcome: 'replayed' };
  if (aheadMs > SCHEDULE_DAYS_MAX * DAY_MS) return { ...common, outcome: 'schedule_refused' };
  if (facts.domain === null) return { ...common, outcome: 'domain_refused' };
  if (openCount === 0 && !email.acceptsSuppressed) return { ...common, outcome: 'suppressed' };
  const response = email.response
    .replaceAll('@created_at', time)
    .replaceAll('@status', common.isScheduled ? 'scheduled' : 'queued');
  const { idempotency } = email;
  return {
    ...common,
    outcome: 'accepted',
    response,
    fingerprint: idempotency?.fingerprint ?? null,
    key: idempotency && { ...idempotency, response },
  };
}

/** Refuses what the limits have no room for. Emails with few recipients come first, so that most of them fit. */
function place(verdicts: readonly Verdict[]): Verdict[] {
  const limitedBy = new Map<Verdict, Verdict['limitedBy']>();
  const candidates = verdicts.filter(({ outcome }) => outcome === 'accepted');
  for (const [window, own] of Map.groupBy(candidates, ({ facts }) => facts.window)) {
    let recipients = 0;
    for (const [index, one] of own.toSorted((a, b) => a.openCount - b.openCount).entries()) {
      recipients += one.openCount;
      if (index >= window.emails.left) limitedBy.set(one, 'emails');
      else if (recipients > window.recipients.left) limitedBy.set(one, 'recipients');
    }
  }
  const refused = { outcome: 'limited', response: null, fingerprint: null, key: null } as const;
  return verdicts.map((one) => {
    const limit = limitedBy.get(one);
    return limit ? { ...one, ...refused, limitedBy: limit } : one;
  });
}

/** The email's setting, else that of its domain. */
export function tlsOf({ tls }: NewEmail, { domain }: EmailFacts): Email['tls'] {
  return tls ?? domain?.tls ?? null;
}

/** The stored form of what is tracked (mail/links/tracking-link.ts); null: nothing, or it cannot be. */
export function storedTracking({ tracking }: NewEmail, { domain }: EmailFacts): string | null {
  if (tracking.base === null) return null;
  const opens = (tracking.opens ?? domain?.tracksOpens) ? ['opens'] : [];
  const clicks = (tracking.clicks ?? domain?.tracksClicks) ? ['clicks'] : [];
  const what = [...opens, ...clicks].join('+');
  return what === '' ? null : `${what}:${tracking.base}`;
}

/** Whether this worker holds the recipients; paused mail is held in the queue table instead. */
export function isHandedOver({ handOver }: NewEmail, { facts }: Verdict): boolean {
  return handOver && facts.domain?.isPaused === false;
}

/** @param holder the lease under which accepted recipients are held; null: none */
export function rowsOf(
  emails: readonly NewEmail[],
  verdicts: readonly Verdict[],
  { now, holder }: { now: Date; holder: string | null },
): AcceptRow[] {
  const accepted = verdicts.filter(({ outcome }) => outcome === 'accepted');
  const byWindow = Map.groupBy(accepted, ({ facts }) => facts.window);
  return verdicts.map((verdict, index) => {
    const email = emails[index]!;
    const { facts, outcome, response, fingerprint } = verdict;
    const isAccepted = outcome === 'accepted';
    return {
      outcome,
      response,
      fingerprint,
      domainId: isAccepted ? facts.domain!.id : null,
      dualSigned: facts.domain?.dualSigned ?? false,
      tls: tlsOf(email, facts),
      tracking: trackingOf(storedTracking(email, facts)),
      createdAt: now,
      suppressedPositions: isAccepted ? facts.suppressed.map(({ position }) => position) : [],
      holder: isAccepted && isHandedOver(email, verdict) ? holder : null,
      limit: limitState(verdict, byWindow.get(facts.window) ?? []),
    };
  });
}

export function limitState(
  { facts, limitedBy }: Verdict,
  accepted: readonly Verdict[],
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
