/**
 * Logs the accepted emails that a fail-over of the database has lost. Their senders got a 202, so an operator must know
 * their ids.
 */
import type { Logger } from 'pino';
import type { Database } from '../../database/database.ts';
import type { RecentlyAccepted } from '../../database/server/failover.ts';

const IDS_PER_LINE = 100;
const RETRY_AFTER_MS = 2_000;

type LostEmailsContext = {
  db: Database;
  log: Pick<Logger, 'warn' | 'error'>;
  onLost: (count: number) => void;
};

/** Logs and reports the lost emails. While the database is unavailable, it retries. Never rejects. */
export async function logLostEmails(
  recent: RecentlyAccepted,
  context: LostEmailsContext,
): Promise<void> {
  const { db, log, onLost } = context;
  const lost = await recent.findLost(db).catch((error: unknown) => {
    log.warn(
      { err: error },
      'this node cannot read the emails lost by the fail-over yet; it tries again',
    );
    return null;
  });
  if (lost === null) {
    setTimeout(() => void logLostEmails(recent, context), RETRY_AFTER_MS).unref();
    return;
  }
  onLost(lost.length);
  for (let from = 0; from < lost.length; from += IDS_PER_LINE) {
    log.error(
      { lost: lost.length, email_ids: lost.slice(from, from + IDS_PER_LINE) },
      'these accepted emails were lost in the fail-over of the database',
    );
  }
}
