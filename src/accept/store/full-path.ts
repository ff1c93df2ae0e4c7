/**
 * The full path of accepting decides every email in three steps: it reads facts (facts.ts), decides by them
 * (decision.ts), and stores the accepted emails with a statement that checks the facts (insert.ts). If the facts have
 * changed in between, it starts again.
 *
 * The full path holds no lock between its statements. Only another email of the project or another request with
 * the same key changes a fact. Each round therefore has less to store, and the limit bounds the number of rounds.
 *
 * The insert does not check key, domain and suppressions a second time. A change that commits after the facts were
 * read counts as a change after the email was accepted, and delivery checks domain and suppressions again.
 */
import { Overloaded } from '../../core/refusals.ts';
import type { LimitState } from '../../core/limits.ts';
import type { Scope } from '../../core/scope.ts';
import {
  decide,
  decideBatch,
  type Facts,
  limitState,
  type RecipientSuppression,
  resultsOf,
  type Decision,
} from './decision.ts';
import type { EmailResult, EmailBatch, NewEmail } from './new-email.ts';
import { readFacts } from './facts.ts';
import { type Accepted, insertAccepted, type InsertOptions } from './insert.ts';
import { shareLimits } from './limits/limit-blocks.ts';
import type { ConfiguredLimits, LimitDemand } from './limits/limit-windows.ts';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';

export type FullPathOptions = InsertOptions & {
  /** The lease under which accepted recipients are stored, or null when they wait in the queue table. */
  leaseId: string | null;
  onBlocksFound?: (scope: Scope) => void;
};

type FullPathRequest = {
  emails: readonly NewEmail[];
  keys: readonly (string | null)[];
  decide: (facts: Facts) => Decision[];
  roundsMax: number;
};

/** After this limit, requests that share a commit are retried one by one (database/group-commit.ts). */
const GROUP_ROUNDS_MAX = 10;
const OWN_ROUNDS_MAX = 100;

/** Stores emails in one transaction. @returns one row per email, in order */
export function storeEmails(
  db: Queryable,
  emails: readonly NewEmail[],
  options: FullPathOptions,
): Promise<EmailResult[]> {
  const request = {
    emails,
    keys: emails.map(({ idempotency }) => idempotency?.key ?? null),
    decide: (facts: Facts) => decide(emails, facts),
    roundsMax: emails.length > 1 ? GROUP_ROUNDS_MAX : OWN_ROUNDS_MAX,
  };
  return decideAndStore(db, request, options);
}

/** Stores the emails of one request, as many as it allows. @returns one row per email, in order */
export function storeBatch(
  db: Queryable,
  batch: EmailBatch,
  options: FullPathOptions,
): Promise<EmailResult[]> {
  const request = {
    emails: batch.emails,
    keys: [batch.idempotency?.key ?? null],
    decide: (facts: Facts) => decideBatch(batch, facts),
    roundsMax: OWN_ROUNDS_MAX,
  };
  return decideAndStore(db, request, options);
}

async function decideAndStore(
  db: Queryable,
  request: FullPathRequest,
  options: FullPathOptions,
): Promise<EmailResult[]> {
  const { emails, keys, roundsMax } = request;
  const { leaseId, onBlocksFound } = options;
  for (let round = 0; round < roundsMax; round += 1) {
    const facts = await markUndone(readFacts(db, { ...options, emails, keys }));
    const decisions = request.decide(facts);
    for (const [index, { window }] of facts.byEmail.entries()) {
      if (window.hasBlocks) onBlocksFound?.(emails[index]!);
    }
    const rows = resultsOf(emails, decisions, { now: facts.now, leaseId });
    const accepted = emails.flatMap((email, index): Accepted[] => {
      const decision = decisions[index]!;
      return decision.outcome === 'accepted'
        ? [{ email, decision, leaseId: rows[index]!.leaseId }]
        : [];
    });
    if (accepted.length === 0) return rows;
    const demands = demandsOf(accepted);
    await markUndone(shareLimits(db, demands.filter(needsSharing), options));
    if (await insertAccepted(db, accepted, { ...options, facts, demands })) return rows;
  }
  throw new Overloaded('too many requests change the limit of this project');
}

type WindowDemand = LimitDemand & { window: Facts['byEmail'][number]['window'] };

function demandsOf(accepted: readonly Accepted[]): WindowDemand[] {
  const byWindow = Map.groupBy(accepted, ({ decision }) => decision.facts.window);
  return [...byWindow].map(([window, own]) => ({
    projectId: own[0]!.email.projectId,
    environment: own[0]!.email.environment,
    emails: own.length,
    recipients: own.reduce((sum, { decision }) => sum + decision.openCount, 0),
    window,
  }));
}

/** Returns whether the capacity is in blocks, or blocks are nearly empty. */
function needsSharing({ window, emails, recipients }: WindowDemand): boolean {
  const isShort = emails > window.emails.leftInRow || recipients > window.recipients.leftInRow;
  return window.hasBlocks && (isShort || window.isToFill);
}

/** Marks an error as undone: a connection lost before the insert has stored nothing. */
async function markUndone<Result>(work: Promise<Result>): Promise<Result> {
  try {
    return await work;
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    throw new DatabaseUnavailable(error.message, { cause: error.cause, isUndone: true });
  }
}

export type Rehearsal = EmailResult & {
  limit: LimitState;
  /** The domain is paused: the email would be put on hold. */
  isPaused: boolean;
  isScheduled: boolean;
  startsAt: Date;
  suppressions: readonly RecipientSuppression[];
};

/** Decides about an email without storing or counting it. */
export async function rehearse(
  db: Queryable,
  email: NewEmail,
  options: ConfiguredLimits,
): Promise<Rehearsal> {
  const keys = [email.idempotency?.key ?? null];
  const facts = await readFacts(db, { ...options, emails: [email], keys, isPrepared: false });
  const decisions = decide([email], facts);
  const [row] = resultsOf([email], decisions, { now: facts.now, leaseId: null });
  const [decision] = decisions;
  const { domain, suppressed } = decision!.facts;
  return {
    ...row!,
    domainId: domain?.id ?? null,
    suppressedPositions: suppressed.map(({ position }) => position),
    limit: limitState(decision!, []),
    isPaused: domain?.isPaused ?? false,
    isScheduled: decision!.isScheduled,
    startsAt: decision!.isScheduled ? email.scheduledAt! : facts.now,
    suppressions: suppressed,
  };
}
