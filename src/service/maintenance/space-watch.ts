/**
 * Refuses emails before the disk is full or the database has its largest size, because settlements need space, too.
 * The operator is notified (space-conditions.ts).
 */
import type { Config } from '../../config/config.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { readDatabaseBytes } from '../../database/server/capacity.ts';
import type { ServiceDatabase } from '../service-database.ts';
import type { WorkerPool } from '../pool/worker-pool.ts';
import { reportDisk, reportSize } from './space-conditions.ts';

const DISK_FREE_MIN_BYTES = 1024 ** 3;
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
  const isLow = freeDiskBytes !== null && freeDiskBytes < DISK_FREE_MIN_BYTES;
  reportDisk(operatorEvents, { freeBytes: freeDiskBytes, isLow });
  // Comes before the query, because the database may not answer.
  pool.refuseMail('disk', isLow ? DISK_LOW : null);
  const bytesMax = config.databaseBytesMax;
  const bytes = bytesMax === null ? null : await readDatabaseBytes(database.db);
  const isLarge = bytesMax !== null && bytes !== null && bytes >= bytesMax;
  reportSize(operatorEvents, { bytes, bytesMax, isLarge });
  pool.refuseMail('database_size', isLarge ? DATABASE_LARGE : null);
}
