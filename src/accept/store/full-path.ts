/**
 * The full path of accepting, which decides everything: facts are read (facts.ts), the emails are decided
 * (decision.ts), and what is accepted is stored by a statement that checks the facts (insert.ts). When
 * they have changed in between, they are read again.
 *
 * Nothing is locked between the statements. What changes a fact is another email of the project or another request
 * with the same key, so each repetition has less to store, and the number of repetitions is limited by the room that
 * the limit had. Key, domain and suppressions are not checked again: a change that commits between the statements is
 * treated as one that commits after the email, and delivery looks at domain and suppressions again.
 */
import { Overloaded } from '../../core/refusals.ts';
import type { Scope } from '../../core/scope.ts';
import {
  type AcceptRow,
  decide,
  decideTogether,
  type EmailBatch,
  type Facts,
  limitState,
  type NewEmail,
  type RecipientSuppression,
  rowsOf,
  type Verdict,
} from './decision.ts';
import { readFacts } from './facts.ts';
import { type Accepted, insertAccepted, type InsertOptions } from './insert.ts';
import { shareLimits } from './limit-blocks.ts';
import type { LimitDefaults, Wanted } from './limit-windows.ts';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';

export type FullPathOptions = InsertOptions & {
  /** The lease under which accepted recipients are held; null: they wait in the queue table. */
  holder: string | null;
  /** Called for projects whose limit has blocks (accept/store/limit-blocks.ts). */
  onBlocks?: (scope: Scope) => void;
};

/** Emails, the idempotency keys that they use, and how they are decided. */
type Request = {
  emails: readonly NewEmail[];
  keys: readonly (string | null)[];
  decide: (facts: Facts) => Verdict[];
  /** How often the facts may have changed before it is refused. */
  roundsMax: number;
};

/** Requests that share a commit are then tried one by one (database/group-commit.ts). */
const SHARED_ROUNDS_MAX = 10;
const OWN_ROUNDS_MAX = 100;

/** Stores emails in one transaction. @returns one row per email, in order */
export function runBatch(
  db: Queryable,
  emails: readonly NewEmail[],
  options: FullPathOptions,
): Promise<AcceptRow[]> {
  const request = {
    emails,
    keys: emails.map(({ idempotency }) => idempotency?.key ?? null),
    decide: (facts: Facts) => decide(emails, facts),
    roundsMax: emails.length > 1 ? SHARED_ROUNDS_MAX : OWN_ROUNDS_MAX,
  };
  return run(db, request, options);
}

/** Stores the emails of one request, as many as it allows. @returns one row per email, in order */
export function runEmailBatch(
  db: Queryable,
  batch: EmailBatch,
  options: FullPathOptions,
): Promise<AcceptRow[]> {
  const request = {
    emails: batch.emails,
    keys: [batch.idempotency?.key ?? null],
    decide: (facts: Facts) => decideTogether(batch, facts),
    roundsMax: OWN_ROUNDS_MAX,
  };
  return run(db, request, options);
}

async function run(
  db: Queryable,
  request: Request,
  options: FullPathOptions,
): Promise<AcceptRow[]> {
  const { emails, keys, roundsMax } = request;
  const { holder, onBlocks } = options;
  for (let round = 0; round < roundsMax; round += 1) {
    const facts = await nothingStored(readFacts(db, { ...options, emails, keys }));
    const verdicts = request.decide(facts);
    for (const [index, { window }] of facts.of.entries()) {
      if (window.hasBlocks) onBlocks?.(emails[index]!);
    }
    const rows = rowsOf(emails, verdicts, { now: facts.now, holder });
    const accepted = emails.flatMap((email, index): Accepted[] => {
      const verdict = verdicts[index]!;
      return verdict.outcome === 'accepted'
        ? [{ email, verdict, holder: rows[index]!.holder }]
        : [];
    });
    if (accepted.length === 0) return rows;
    const wanted = wantedOf(accepted);
    await nothingStored(shareLimits(db, wanted.filter(needsSharing), options));
    if (await insertAccepted(db, accepted, { ...options, facts, wanted })) return rows;
  }
  throw new Overloaded('too many requests change the limit of this project');
}

/** What a decision counts in the row of a limit. */
type WantedOfWindow = Wanted & { window: Facts['of'][number]['window'] };

function wantedOf(accepted: readonly Accepted[]): WantedOfWindow[] {
  const byWindow = Map.groupBy(accepted, ({ verdict }) => verdict.facts.window);
  return [...byWindow].map(([window, own]) => ({
    projectId: own[0]!.email.projectId,
    environment: own[0]!.email.environment,
    emails: own.length,
    recipients: own.reduce((sum, { verdict }) => sum + verdict.openCount, 0),
    window,
  }));
}

/** The room is in blocks, or blocks are nearly empty. */
function needsSharing({ window, emails, recipients }: WantedOfWindow): boolean {
  const isShort = emails > window.emails.leftInRow || recipients > window.recipients.leftInRow;
  return window.hasBlocks && (isShort || window.isToFill);
}

/** Before the insert, a lost connection leaves nothing unknown. */
async function nothingStored<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    throw new DatabaseUnavailable(error.message, { cause: error.cause, isUndone: true });
  }
}

export type Rehearsal = AcceptRow & {
  /** The domain is paused: the email would be held. */
  isPaused: boolean;
  /** Its scheduled time is in the future. */
  isScheduled: boolean;
  /** The later of now and its scheduled time. */
  startsAt: Date;
  suppressions: readonly RecipientSuppression[];
};

/** What would be decided about an email now. Stores and counts nothing. */
export async function rehearse(
  db: Queryable,
  email: NewEmail,
  options: LimitDefaults,
): Promise<Rehearsal> {
  const keys = [email.idempotency?.key ?? null];
  const facts = await readFacts(db, { ...options, emails: [email], keys, isHot: false });
  const verdicts = decide([email], facts);
  const [row] = rowsOf([email], verdicts, { now: facts.now, holder: null });
  const [verdict] = verdicts;
  const { domain, suppressed } = verdict!.facts;
  return {
    ...row!,
    domainId: domain?.id ?? null,
    suppressedPositions: suppressed.map(({ position }) => position),
    limit: limitState(verdict!, []),
    isPaused: domain?.isPaused ?? false,
    isScheduled: verdict!.isScheduled,
    startsAt: verdict!.isScheduled ? email.scheduledAt! : facts.now,
    suppressions: suppressed,
  };
}
