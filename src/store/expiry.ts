/** Forgets what has expired, in small batches: no statement holds many rows or runs long. */
import type { Queryable } from './postgres/database.ts';
import { purgeAuthWindows } from './limits.ts';
import { forgetQuotaFailures } from './quota-failures.ts';
import { forgetHistory } from './suppression-history.ts';
import { forgetReputation } from './reputation.ts';
import { forgetTlsResults } from './tls-results.ts';

const BATCH = 5_000;

const FORGET_KEYS = `
delete from idempotency where ctid = any(array(
  select ctid from idempotency where expires_at <= app_now() limit $1)) returning 1`;

/**
 * Idempotency keys after their 24 hours, windows of failed authentications, old TLS results and counts of
 * outcomes, full
 * mailboxes after a week, the history of suppressions after 400 days.
 */
export async function forgetExpired(db: Queryable): Promise<void> {
  let forgotten: number;
  do {
    forgotten = (await db.query(FORGET_KEYS, [BATCH])).length;
  } while (forgotten === BATCH);
  await purgeAuthWindows(db);
  await forgetTlsResults(db, BATCH);
  await forgetReputation(db, BATCH);
  await forgetQuotaFailures(db, BATCH);
  while ((await forgetHistory(db, BATCH)) === BATCH);
}
