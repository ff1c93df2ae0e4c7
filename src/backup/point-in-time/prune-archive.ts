/** Removes files from the archive that no restore needs any more. */
import {
  type Base,
  listFiles,
  factsFileOf,
  listSeries,
  removeSeries,
  type Series,
  walFolder,
} from './archive.ts';
import { findExpired } from './choose-base.ts';
import { listPartsBefore } from './covered-log.ts';
import type { ArchivePlace } from './archive-place.ts';
import { positionOf, segmentAt, segmentName } from './segments.ts';

/** Limit on the files that one call removes, because WAL is not archived meanwhile. */
const REMOVED_MAX = 1_000;

type Pruned = {
  oldest: string | null;
  isUnfinished: boolean;
};

/** Keeps every time since `cutoff` restorable. Not while a base backup is made. */
export async function prune(
  place: ArchivePlace,
  { active, cutoff }: { active: Series; cutoff: Date },
): Promise<Pruned> {
  const { system } = active.shape;
  const all = await listSeries(place);
  const expired = findExpired(all, { cutoff: cutoff.toISOString(), active: active.name, system });
  const kept = all.filter((one) => !expired.series.includes(one));
  // First removes the files that make bases complete.
  const bases = [...expired.series.flatMap((series) => series.bases), ...expired.bases];
  await place.remove(bases.map(factsFileOf));
  const names: string[] = [];
  for (const { name } of expired.series) names.push(...(await listFiles(place, name)));
  for (const series of kept.filter(({ shape }) => shape.system === system)) {
    const oldest = series.bases.find((base) => !expired.bases.includes(base));
    if (oldest !== undefined) names.push(...(await listUnneeded(place, series, oldest)));
  }
  await place.remove(names.slice(0, REMOVED_MAX));
  const isUnfinished = names.length > REMOVED_MAX;
  if (!isUnfinished) for (const { name } of expired.series) await removeSeries(place, name);
  const keptBases = kept
    .flatMap((series) => series.bases)
    .filter((one) => !expired.bases.includes(one));
  const oldest = keptBases.map(({ usableFrom }) => usableFrom).toSorted()[0] ?? null;
  return { oldest, isUnfinished };
}

/** Returns files older than the oldest base, and tars without facts: of lost machines, or of bases just removed. */
async function listUnneeded(
  place: ArchivePlace,
  { name, shape }: Series,
  { startLsn, usableFrom }: Base,
): Promise<string[]> {
  const baseFiles = await place.list(`${name}/base-`);
  const tars = baseFiles.filter(
    (one) => one.endsWith('.tar.zst') && !baseFiles.includes(factsFileOf({ archive: one })),
  );
  const first = `${walFolder(name)}/${segmentName(segmentAt(positionOf(startLsn), shape), shape)}`;
  const wal = (await place.list(`${walFolder(name)}/`)).filter((one) => one < first);
  return [...tars, ...wal, ...(await listPartsBefore(place, name, usableFrom))];
}
