/**
 * Refuses emails before the disk is full or the database has its largest size, because settlements need space, too.
 * Reports the conditions `disk.low` and `database.full`.
 */
import { hostname } from 'node:os';
import { inMegabytes } from '../../accounts/storage/stored-bytes.ts';
import type { Config } from '../../config/config.ts';
import { CONDITION_LAPSES_AFTER_MS, type OperatorEvents } from '../../core/operator-events.ts';
import { DISK_FREE } from '../../core/thresholds.ts';
import { readDatabaseBytes } from '../../database/server/capacity.ts';
import type { ServiceDatabase } from '../service-database.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';

const KEEP_LESS = 'keep mail for less time (LETTERHAUS_RETENTION_CONTENT)';
const DISK_LOW = { code: 'disk_full', reason: 'the disk is nearly full' } as const;
const DATABASE_LARGE = {
  code: 'database_full',
  reason: 'the database has reached its largest size',
} as const;

export async function checkSpace({
  database,
  config,
  operatorEvents,
  pool,
}: {
  database: Pick<ServiceDatabase, 'db' | 'readFreeDiskBytes'>;
  config: Pick<Config, 'databaseBytesMax'>;
  operatorEvents: OperatorEvents;
  pool: Pick<WorkerPool, 'refuseMail'>;
}): Promise<void> {
  const freeDiskBytes = await database.readFreeDiskBytes();
  const isLow = freeDiskBytes !== null && freeDiskBytes < DISK_FREE.refusedBytes;
  reportDisk(operatorEvents, { freeBytes: freeDiskBytes, isLow });
  // Comes before the query, because the database may not answer.
  pool.refuseMail('disk', isLow ? DISK_LOW : null);
  const bytesMax = config.databaseBytesMax;
  const bytes = bytesMax === null ? null : await readDatabaseBytes(database.db);
  const isLarge = bytesMax !== null && bytes !== null && bytes >= bytesMax;
  reportSize(operatorEvents, { bytes, bytesMax, isLarge });
  pool.refuseMail('database_size', isLarge ? DATABASE_LARGE : null);
}

/** @param options.freeBytes null: the disk of the database is not on this machine */
function reportDisk(
  operatorEvents: OperatorEvents,
  { freeBytes, isLow }: { freeBytes: number | null; isLow: boolean },
): void {
  const condition = { type: 'disk.low', subject: hostname() } as const;
  if (freeBytes === null) return;
  if (!isLow) return operatorEvents.clear(condition);
  operatorEvents.raise({
    ...condition,
    message: `The disk of the database has ${inMegabytes(freeBytes)} left; emails are refused.`,
    remedy: `Free disk space: enlarge the disk, delete other files on it, or ${KEEP_LESS}.`,
    details: { free_bytes: freeBytes },
    lapsesAfterMs: CONDITION_LAPSES_AFTER_MS,
  });
}

type Size = { bytes: number | null; bytesMax: number | null; isLarge: boolean };

/** @param options.bytesMax null: this machine has no maximum to compare with */
function reportSize(operatorEvents: OperatorEvents, { bytes, bytesMax, isLarge }: Size): void {
  const condition = { type: 'database.full', subject: 'database' } as const;
  if (bytes === null || bytesMax === null) return;
  if (!isLarge) return operatorEvents.clear(condition);
  operatorEvents.raise({
    ...condition,
    message: `The database has ${inMegabytes(bytes)} of at most ${inMegabytes(bytesMax)}; emails are refused.`,
    remedy: `Raise LETTERHAUS_DATABASE_MAX_MB, or ${KEEP_LESS}.`,
    details: { bytes, bytes_max: bytesMax },
    lapsesAfterMs: CONDITION_LAPSES_AFTER_MS,
  });
}
