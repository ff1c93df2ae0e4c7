/** The conditions `disk.low`, `database.full` and `storage.low`: mail is refused for lack of space, or soon will be. */
import { hostname } from 'node:os';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { inMegabytes } from '../../accounts/storage/stored-bytes.ts';
import type { ProjectStorage } from '../../accounts/storage/storage-store.ts';

/** Conditions are reported at every check, so those of a machine that is gone end after this time. */
const LAPSES_AFTER_MS = 10 * 60_000;
const KEEP_LESS = 'keep mail for less time (LETTERHAUS_RETENTION_CONTENT)';

/** @param options.freeBytes null: the disk of the database is not on this machine */
export function reportDisk(
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
    lapsesAfterMs: LAPSES_AFTER_MS,
  });
}

type Size = { bytes: number | null; bytesMax: number | null; isLarge: boolean };

/** @param options.bytesMax null: this machine has no maximum to compare with */
export function reportSize(
  operatorEvents: OperatorEvents,
  { bytes, bytesMax, isLarge }: Size,
): void {
  const condition = { type: 'database.full', subject: 'database' } as const;
  if (bytes === null || bytesMax === null) return;
  if (!isLarge) return operatorEvents.clear(condition);
  operatorEvents.raise({
    ...condition,
    message: `The database has ${inMegabytes(bytes)} of at most ${inMegabytes(bytesMax)}; emails are refused.`,
    remedy: `Raise LETTERHAUS_DATABASE_MAX_MB, or ${KEEP_LESS}.`,
    details: { bytes, bytes_max: bytesMax },
    lapsesAfterMs: LAPSES_AFTER_MS,
  });
}

export function reportStorage(
  operatorEvents: OperatorEvents,
  { projectId, name, usedBytes, maxBytes }: ProjectStorage,
): void {
  operatorEvents.raise({
    type: 'storage.low',
    subject: projectId,
    message: `The storage of project ${name} is nearly full: ${inMegabytes(usedBytes)} of ${inMegabytes(maxBytes ?? 0)}.`,
    remedy:
      'When it is full, its mail is refused. Raise the maximum (letterhaus projects set-storage-max), or keep its mail for less time.',
    details: { project_id: projectId, used_bytes: usedBytes, max_bytes: maxBytes },
    lapsesAfterMs: LAPSES_AFTER_MS,
  });
}
