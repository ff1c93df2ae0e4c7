/**
 * Releases emails whose accept had no answer, so that no worker has them in memory. Whether they are stored shows
 * later: a statement may be delayed in the network for minutes.
 */
import { AWAY_PAUSE_MS } from '../../database/leased-queue.ts';
import type { Queryable } from '../../database/database.ts';
import { type QueuedEmail, releaseEmails } from './queue-store.ts';

/** TCP gives up a segment after about 15 minutes; waits double, so that the last one ends later than that. */
const UNKNOWN_FATE_MAX_MS = 10 * 60_000;

/** Looks for the emails under this lease at growing intervals. While the database is unavailable they do not grow. */
export function releaseWhenStored(
  db: Queryable,
  emails: readonly QueuedEmail[],
  holder: string,
): void {
  const lookAfter = (waitMs: number): void => {
    if (waitMs > UNKNOWN_FATE_MAX_MS) return;
    setTimeout(() => {
      releaseEmails(db, emails, holder).then(
        () => lookAfter(waitMs * 2),
        () => lookAfter(waitMs),
      );
    }, waitMs).unref();
  };
  lookAfter(AWAY_PAUSE_MS);
}
