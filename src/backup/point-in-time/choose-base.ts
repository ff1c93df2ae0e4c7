/** Chooses the base backup with which a restore to a point in time begins. */
import { PlaceProblem } from '../places/backup-place.ts';
import type { Base, Series } from './archive.ts';

function restorableRange({ bases, covered }: Series): { from: string; to: string } | null {
  const [first] = bases;
  if (first === undefined || covered === null || covered.at < first.usableFrom) return null;
  return { from: first.usableFrom, to: covered.at };
}

/**
 * Returns the newest base from before the time, in the newest series that contains the time.
 * @throws PlaceProblem with the times that are kept
 */
export function chooseBase(
  all: readonly Series[],
  { archive, at }: { archive: string; at: Date },
): { series: Series; base: Base } {
  const systems = new Set(all.map(({ shape }) => shape.system));
  if (systems.size > 1) {
    throw new PlaceProblem(
      `${archive} has archives of ${systems.size} databases. Move the others to another folder.`,
    );
  }
  const time = at.toISOString();
  const usable = all.filter((series) => restorableRange(series) !== null);
  const series = usable.findLast((one) => {
    const { from, to } = restorableRange(one)!;
    return from <= time && time <= to;
  });
  const base = series?.bases.findLast(({ usableFrom }) => usableFrom <= time);
  if (series !== undefined && base !== undefined) return { series, base };
  if (usable.length === 0) {
    throw new PlaceProblem(
      `${archive} has no archive that can be restored: it needs a base backup and WAL.`,
    );
  }
  const ranges = usable.map((one) => {
    const { from, to } = restorableRange(one)!;
    return `from ${from} to ${to}`;
  });
  throw new PlaceProblem(
    `${archive} cannot be restored to ${time}. Kept are the times ${ranges.join(', and ')}.`,
  );
}

export function findExpired(
  all: readonly Series[],
  { cutoff, active, system }: { cutoff: string; active: string; system: string },
): { series: Series[]; bases: Base[] } {
  const expired: { series: Series[]; bases: Base[] } = { series: [], bases: [] };
  for (const series of all) {
    // Another database's series is not ours to remove.
    if (series.shape.system !== system) continue;
    if (series.name !== active && (restorableRange(series)?.to ?? '') < cutoff) {
      expired.series.push(series);
      continue;
    }
    const needed = series.bases.findLastIndex(({ usableFrom }) => usableFrom <= cutoff);
    expired.bases.push(...series.bases.slice(0, Math.max(0, needed)));
  }
  return expired;
}
