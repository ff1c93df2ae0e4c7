/**
 * Archives WAL when LETTERHAUS_POINT_IN_TIME is set (point-in-time-archiver.ts). Otherwise drops the slots that keep
 * WAL.
 */
import { dropSlots } from '../store/wal.ts';
import type { PointInTimeOptions } from './point-in-time-archiver.ts';

export async function keepPointInTime(options: PointInTimeOptions): Promise<AsyncDisposable> {
  const { config } = options;
  const { to } = config.backup.pointInTime;
  if (config.databaseUrl !== null) {
    // `letterhaus move` may have set DATABASE_URL's database (docs/moving-database.md).
    if (to !== null) options.log.warn('the WAL of an external database is not archived');
    return { [Symbol.asyncDispose]: () => Promise.resolve() };
  }
  if (to !== null) {
    const { PointInTimeArchiver } = await import('./point-in-time-archiver.ts');
    return new PointInTimeArchiver(to, options);
  }
  const dropped = dropSlots(options.database.address).catch((error: unknown) => {
    options.log.warn({ err: error }, 'WAL is still kept for an archive that is not configured');
  });
  return { [Symbol.asyncDispose]: () => dropped };
}
