/**
 * Releases emails whose accept statement had no result, so that no worker holds them in memory. They may be stored
 * later, because the network can delay a statement for minutes.
 */
import { UNAVAILABLE_PAUSE_MS } from '../../database/leased-queue.ts';
import type { Queryable } from '../../database/database.ts';
import { type QueuedEmail, releaseEmails } from './queue-store.ts';

/** TCP gives up a segment after about 15 minutes. The waits double, so the last one ends later than that. */
const UNKNOWN_FATE_MAX_MS = 10 * 60_000;

/** Releases the emails at growing intervals, which do not grow while the database is unavailable. */
export function releaseWhenStored(
  db: Queryable,
  emails: readonly QueuedEmail[],
  leaseId: string,
): void {
  const releaseAfter = (waitMs: number): void => {
    if (waitMs > UNKNOWN_FATE_MAX_MS) return;
    setTimeout(() => {
      releaseEmails(db, emails, leaseId).then(
        () => releaseAfter(waitMs * 2),
        () => releaseAfter(waitMs),
      );
    }, waitMs).unref();
  };
  releaseAfter(UNAVAILABLE_PAUSE_MS);
}
