/** The age of the newest backup: as a condition of the installation, and as text. */
import type { NewCondition } from '../core/operator-events.ts';
import { BACKUP_AGE } from '../core/thresholds.ts';

/** @param newestMs time of the newest good backup, or null when none was made since `sinceMs` */
export function overdueCondition(
  place: string,
  {
    newestMs,
    sinceMs,
    everyMs,
    nowMs,
  }: { newestMs: number | null; sinceMs: number; everyMs: number; nowMs: number },
): NewCondition | null {
  const ageMs = nowMs - (newestMs ?? sinceMs);
  if (ageMs <= BACKUP_AGE.soonIntervals * everyMs) return null;
  const message =
    newestMs === null
      ? `There is no good backup in ${place} since the service started ${ageText(ageMs)} ago.`
      : `The newest good backup in ${place} is ${ageText(ageMs)} old.`;
  return {
    type: 'backup.overdue',
    subject: place,
    message: `${message} One is due every ${ageText(everyMs)}.`,
    remedy: 'Read the last failure in the log, or run `letterhaus backup`. See docs/backup.md.',
    details: { age_seconds: Math.round(ageMs / 1_000), every_seconds: everyMs / 1_000 },
  };
}

/** Returns `40 minutes`, `7 hours`, `3 days`. */
export function ageText(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes < 120) return minutes === 1 ? '1 minute' : `${minutes} minutes`;
  const hours = Math.round(minutes / 60);
  return hours < 48 ? `${hours} hours` : `${Math.round(hours / 24)} days`;
}
