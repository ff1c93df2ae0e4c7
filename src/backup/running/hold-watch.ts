/**
 * Keeps a restored installation on hold (backup/store/hold.ts). Its workers start without sending mail and webhooks,
 * and begin when an operator has released the installation. A hold begins only while no node runs, so it is read once
 * at the start.
 */
import type { Logger } from 'pino';
import { type Hold, readHold } from '../store/hold.ts';
import type { Queryable } from '../../database/database.ts';
import type { WorkerPool } from '../../service/pool/worker-pool.ts';

const POLL_EVERY_MS = 1_000;

type HoldWatchOptions = {
  db: Queryable;
  pool: Pick<WorkerPool, 'endHold'>;
  log: Pick<Logger, 'info' | 'warn'>;
};

/** @param hold at the start of the service, or null when there is none */
export function watchHold(hold: Hold | null, { db, pool, log }: HoldWatchOptions): Disposable {
  let timer: NodeJS.Timeout | undefined;
  const poll = async (): Promise<void> => {
    // While the database is unavailable, the hold continues.
    const currentHold = await readHold(db).catch(() => hold);
    if (timer === undefined) return; // the service stops
    if (currentHold !== null) {
      timer = setTimeout(() => void poll(), POLL_EVERY_MS);
      return;
    }
    pool.endHold();
    log.info('the hold of the installation has ended; this node sends mail and webhooks');
  };
  if (hold !== null) {
    log.warn(
      { since: hold.since, backup: hold.backupTakenAt },
      'the installation is on hold after a restore: mail is accepted, but nothing is sent until `letterhaus release` (docs/backup.md)',
    );
    timer = setTimeout(() => void poll(), POLL_EVERY_MS);
  }
  return {
    [Symbol.dispose]: () => {
      clearTimeout(timer);
      timer = undefined;
    },
  };
}
