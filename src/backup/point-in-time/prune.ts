/** Removes from the archive what no restore needs any more. */
import { readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Base, listSeries, type Series, shortenCovered, walFolder } from './archive.ts';
import { expired } from './choose.ts';
import { positionOf, segmentAt, segmentName } from './segments.ts';

/**
 * Every time since `cutoff` can still be restored afterwards.
 * @returns the first moment that the rest can be restored to; null: there is no base
 */
export async function prune(
  archive: string,
  { active, cutoff }: { active: Series; cutoff: Date },
): Promise<string | null> {
  const all = await listSeries(archive);
  const gone = expired(all, {
    cutoff: cutoff.toISOString(),
    active: active.name,
    system: active.shape.system,
  });
  for (const { folder } of gone.series) await rm(folder, { recursive: true, force: true });
  for (const base of gone.bases) await removeBase(base);
  const kept = all.filter((one) => !gone.series.includes(one));
  for (const series of kept) {
    const oldest = series.bases.find((base) => !gone.bases.includes(base));
    const isShorter = series.bases[0] !== oldest;
    if (oldest !== undefined && isShorter) await removeWalBefore(series, oldest);
  }
  const bases = kept.flatMap((series) => series.bases).filter((one) => !gone.bases.includes(one));
  return bases.map(({ usableFrom }) => usableFrom).toSorted()[0] ?? null;
}

/** What says that it is complete goes first. */
async function removeBase({ archive }: Base): Promise<void> {
  await rm(archive.replace(/tar\.zst$/, 'json'), { force: true });
  await rm(archive, { force: true });
}

async function removeWalBefore({ folder, shape }: Series, oldest: Base): Promise<void> {
  const first = segmentName(segmentAt(positionOf(oldest.startLsn), shape), shape);
  for (const name of await readdir(walFolder(folder))) {
    if (name < first) await rm(join(walFolder(folder), name), { force: true });
  }
  await shortenCovered(folder, oldest.usableFrom);
}
