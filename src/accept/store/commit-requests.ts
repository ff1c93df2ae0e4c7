/**
 * Commits the requests of one batch on one of the two paths, in one transaction. If the connection is lost around the
 * commit, each request gets the promise of its rows (lost-commits.ts), so that the next batch does not wait for it.
 *
 * A batch has either single emails or one email batch, which needs a separate transaction.
 */
import type { Scope } from '../../core/scope.ts';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';
import type { QueuedEmail } from '../../delivery/queue/queue-store.ts';
import { type FastPathOptions, storeBatchFast, storeEmailsFast } from './fast-path.ts';
import { storeBatch, storeEmails } from './full-path.ts';
import type { LimitsWithBlocks } from './limits/limit-blocks.ts';
import { findRowsOfLostCommit } from './lost-commits.ts';
import { type AcceptRequest, type EmailResults, isBatch, isEmail } from './new-email.ts';

export type CommitOptions = Pick<
  FastPathOptions,
  'limit' | 'recipientLimit' | 'lockTimeoutMs' | 'onWebhooksQueued'
> & {
  /** Returns this worker's lease, or null when it has none and accepted recipients wait in the queue table. */
  leaseId: () => string | null;
  /** Called for emails that may be stored under this worker's lease, before the result is known. */
  onUnknown: (emails: readonly QueuedEmail[]) => void;
  limitsWithBlocks: LimitsWithBlocks;
};

/** One row per email of a request; a promise if the rows must be read after a lost connection. */
export type CommittedRows = EmailResults | Promise<EmailResults>;

type StorePath<Rows> = (
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: FastPathOptions,
) => Promise<Rows[]>;

/**
 * Returns the rows of each request, or null when nothing was stored and the full path decides the request.
 * @throws DatabaseUnavailable when nothing was stored
 */
export function commitOnFastPath(
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: CommitOptions,
): Promise<(CommittedRows | null)[]> {
  return commitOrFind(db, requests, { options, store: storeOnFastPath });
}

/** @throws DatabaseUnavailable when nothing was stored */
export function commitOnFullPath(
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: CommitOptions,
): Promise<CommittedRows[]> {
  return commitOrFind(db, requests, { options, store: storeOnFullPath });
}

/** Commits each request in a separate transaction, so that a request that the database refuses fails alone. */
export async function commitOneByOne(
  db: Queryable,
  requests: readonly AcceptRequest[],
  options: CommitOptions,
): Promise<CommittedRows[]> {
  const committed: CommittedRows[] = [];
  for (const request of requests) {
    try {
      const [rows] = await commitOnFullPath(db, [request], options);
      committed.push(rows!);
    } catch (error) {
      committed.push(rejectionOf(error));
    }
  }
  return committed;
}

/** Returns a promise that is rejected, and may be awaited later. */
export function rejectionOf(reason: unknown): Promise<never> {
  const rejection = Promise.reject(reason);
  rejection.catch(() => {});
  return rejection;
}

async function commitOrFind<Rows extends EmailResults | null>(
  db: Queryable,
  requests: readonly AcceptRequest[],
  { options, store }: { options: CommitOptions; store: StorePath<Rows> },
): Promise<(Rows | CommittedRows)[]> {
  const leaseId = options.leaseId();
  const { limitsWithBlocks, onUnknown } = options;
  const hasBlocks = requests.some((request) => limitsWithBlocks.has(request));
  const onBlocksFound = (scope: Scope): void => limitsWithBlocks.add(scope);
  try {
    return await store(db, requests, { ...options, leaseId, hasBlocks, onBlocksFound });
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || error.isUndone) throw error;
    const found = findRowsOfLostCommit(db, requests, { leaseId, onUnknown, cause: error });
    return requests.map((_, index) => found.then((rows) => rows[index]!));
  }
}

const storeOnFastPath: StorePath<EmailResults | null> = async (db, requests, options) => {
  const [first] = requests;
  if (first && isBatch(first)) return [await storeBatchFast(db, first, options)];
  const rows = await storeEmailsFast(db, requests.filter(isEmail), options);
  return rows.map((row) => row && [row]);
};

const storeOnFullPath: StorePath<EmailResults> = async (db, requests, options) => {
  const [first] = requests;
  if (first && isBatch(first)) return [await storeBatch(db, first, options)];
  const rows = await storeEmails(db, requests.filter(isEmail), options);
  return rows.map((row) => [row]);
};
