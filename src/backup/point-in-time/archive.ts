/**
 * The archive for restores to a point in time, in a folder or a bucket (archive-place.ts).
 *
 *     letterhaus.journal              suppressions and idempotency keys (places/folder-journal.ts)
 *     series/letterhaus_20261125t0900….json   the database that a series belongs to
 *     letterhaus_20261125t0900…/      a series: WAL without a gap, of one replication slot
 *       base-20261125T090003Z.tar.zst   the files of the cluster
 *       base-20261125T090003Z.json      its description, written last: it makes the base complete
 *       key-20261125T090003Z.json       the secret key from then on, sealed
 *       wal/0000000100000000000000A4.zst
 *       wal/0000000100000000000000A5.partial-00000000.zst   a piece of the current segment (partial-segment.ts)
 *       covered/000000002A000028-….log  the time up to which the series is complete (covered-log.ts)
 *
 * A file that has its name is complete. WAL files are never overwritten: one with other content is an error.
 */
import { z } from 'zod';
import { BackupDamaged } from '../format.ts';
import { type Covered, coveredFolder, type CoveredPart, readLastCovered } from './covered-log.ts';
import type { ArchivePlace } from './archive-place.ts';
import type { WalShape } from './segments.ts';

const SERIES_FOLDER = 'series';
const SERIES_NAME = /^letterhaus_\d{8}t\d{6}z_[0-9a-f]+$/;

const keySchema = z.object({
  /** Time from which on the key is in use. */
  at: z.iso.datetime(),
  keyIds: z.array(z.string()).min(1),
  sealedKey: z.base64(),
  sealedFor: z.enum(['passphrase', 'recipients']),
});

export type ArchivedKey = z.infer<typeof keySchema>;

const shapeSchema = z.object({
  format: z.literal(1),
  system: z.string(),
  timeline: z.int().positive(),
  segmentBytes: z.int().positive(),
});

const baseSchema = z.object({
  version: z.string(),
  schema: z.int().positive(),
  postgres: z.string(),
  startLsn: z.string(),
  stopLsn: z.string(),
  /** The first time to which this base can be restored. */
  usableFrom: z.iso.datetime(),
  /** Sizes of the files, and of the compressed archive. */
  bytes: z.int().positive(),
  archiveBytes: z.int().positive(),
  sha256: z.hex(),
});

export type BaseFacts = z.infer<typeof baseSchema>;
export type Base = BaseFacts & { archive: string };

export type PartialPiece = {
  segment: bigint;
  from: number;
  to: number;
  /** Size of the compressed piece. */
  bytes: number;
};

export type Series = {
  name: string;
  shape: WalShape;
  bases: Base[];
  covered: Covered | null;
  /** The part that this process wrote last and appends to. */
  coveredPart: CoveredPart | null;
  partial: PartialPiece | null;
};

export const walFolder = (series: string): string => `${series}/wal`;
export const walFile = (series: string, segment: string): string =>
  `${walFolder(series)}/${segment}.zst`;
export const factsFileOf = ({ archive }: Pick<Base, 'archive'>): string =>
  archive.replace(/tar\.zst$/, 'json');
const shapeFile = (series: string): string => `${SERIES_FOLDER}/${series}.json`;

/** Returns `letterhaus_…/base-20261125T090003Z`. */
export function datedName(series: string, kind: 'base' | 'key', at: Date): string {
  return `${series}/${kind}-${at.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
}

/** Lists the series of an archive, the oldest first. @throws PlaceProblem, S3Problem */
export async function listSeries(place: ArchivePlace): Promise<Series[]> {
  const found: Series[] = [];
  for (const file of await place.list(`${SERIES_FOLDER}/`)) {
    const name = file.slice(SERIES_FOLDER.length + 1, -'.json'.length);
    const series = SERIES_NAME.test(name) ? await readSeries(place, name) : null;
    if (series !== null) found.push(series);
  }
  return found;
}

/** Returns null when there is no such series, or when its beginning was interrupted. @throws PlaceProblem, S3Problem */
export async function readSeries(place: ArchivePlace, name: string): Promise<Series | null> {
  const shape = await readJson(place, shapeFile(name), shapeSchema);
  if (shape === null) return null;
  const bases: Base[] = [];
  for (const file of (await place.list(`${name}/base-`)).filter((one) => one.endsWith('.json'))) {
    const facts = await readJson(place, file, baseSchema);
    if (facts !== null) bases.push({ ...facts, archive: file.replace(/json$/, 'tar.zst') });
  }
  const covered = await readLastCovered(place, name);
  return { name, shape, bases, covered, coveredPart: null, partial: null };
}

/** Begins a series. The file with its shape, written last, makes it exist. */
export async function beginSeries(
  place: ArchivePlace,
  { name, shape }: Pick<Series, 'name' | 'shape'>,
): Promise<Series> {
  for (const folder of [SERIES_FOLDER, name, walFolder(name), coveredFolder(name)]) {
    await place.makeFolder(folder);
  }
  await place.put(shapeFile(name), Buffer.from(JSON.stringify({ format: 1, ...shape })));
  return { name, shape, bases: [], covered: null, coveredPart: null, partial: null };
}

export async function listFiles(place: ArchivePlace, series: string): Promise<string[]> {
  const inFolders = [`${coveredFolder(series)}/`, `${walFolder(series)}/`];
  const contents: string[] = [];
  for (const prefix of [`${series}/base-`, `${series}/key-`, ...inFolders]) {
    contents.push(...(await place.list(prefix)));
  }
  return contents;
}

export async function removeSeries(place: ArchivePlace, series: string): Promise<void> {
  await place.remove([shapeFile(series)]);
  await place.removeFolder(series);
}

export async function readKeys(place: ArchivePlace, series: string): Promise<ArchivedKey[]> {
  const keys: ArchivedKey[] = [];
  for (const name of await place.list(`${series}/key-`)) {
    const key = await readJson(place, name, keySchema);
    if (key !== null) keys.push(key);
  }
  return keys;
}

async function readJson<Value>(
  place: ArchivePlace,
  name: string,
  schema: z.ZodType<Value>,
): Promise<Value | null> {
  const bytes = await place.get(name);
  if (bytes === null) return null;
  try {
    return schema.parse(JSON.parse(bytes.toString('utf8')));
  } catch {
    throw new BackupDamaged(
      `${place.pathOf(name)} is damaged, or of a newer version of Letterhaus.`,
    );
  }
}
