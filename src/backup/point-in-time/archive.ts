/**
 * The folder from which an installation is restored to a point in time.
 *
 *     letterhaus.journal              suppressions and idempotency keys (../journal.ts)
 *     letterhaus_20261125t0900…/      a series: WAL without a gap, of one replication slot
 *       series.json                     the database that it is of
 *       base-20261125T090003Z.tar.zst   the files of the cluster
 *       base-20261125T090003Z.json      what it is, written last: with it the base is complete
 *       key-20261125T090003Z.json       the secret key from then on, sealed
 *       wal/0000000100000000000000A4.zst
 *       wal/0000000100000000000000A5.partial.zst   the beginning of the segment that is being written
 *       covered.log                     lines: the WAL up to this position has all that was committed by then
 *
 * Every file but the log is written under another name and renamed when it is on disk, so what has its name
 * is complete. Nothing is written over: a WAL file that is there with other content is an error.
 */
import { createReadStream } from 'node:fs';
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { z } from 'zod';
import { PlaceProblem } from '../place.ts';
import { BackupDamaged } from '../format.ts';
import type { WalShape } from './segments.ts';

const UNFINISHED = '.unfinished';
const SERIES = /^letterhaus_\d{8}t\d{6}z_[0-9a-f]+$/;
const SHAPE = 'series.json';
const COVERED = 'covered.log';

const keySchema = z.object({
  /** The key is in use from then on. */
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
  /** Of Letterhaus. */
  version: z.string(),
  schema: z.int().positive(),
  /** Of the server: `18.4`. */
  postgres: z.string(),
  startLsn: z.string(),
  stopLsn: z.string(),
  /** The first moment to which it can be restored. */
  usableFrom: z.iso.datetime(),
  /** Of the files, and of the compressed archive. */
  bytes: z.int().positive(),
  archiveBytes: z.int().positive(),
  sha256: z.hex(),
});

export type BaseFacts = z.infer<typeof baseSchema>;
export type Base = BaseFacts & { series: string; archive: string };

/** All that was committed by then is in the WAL before the position. */
export type Covered = { at: string; lsn: string };

export type Series = {
  name: string;
  folder: string;
  shape: WalShape;
  /** The oldest first. */
  bases: Base[];
  /** null: nothing was archived yet. */
  covered: Covered | null;
};

const seriesFolder = (archive: string, name: string): string => join(archive, name);
export const walFolder = (series: string): string => join(series, 'wal');
export const walFile = (series: string, segment: string): string =>
  join(walFolder(series), `${segment}.zst`);
export const partialFile = (series: string, segment: string): string =>
  join(walFolder(series), `${segment}.partial.zst`);

/** `base-20261125T090003Z` */
export function datedName(kind: 'base' | 'key', at: Date): string {
  return `${kind}-${at.toISOString().replaceAll(/[-:]|\.\d+/g, '')}`;
}

/** Every series of an archive, the oldest first. @throws PlaceProblem */
export async function listSeries(archive: string): Promise<Series[]> {
  const names = await readdir(archive).catch((error: unknown) => {
    throw unusable(archive, error);
  });
  const found: Series[] = [];
  for (const name of names.filter((one) => SERIES.test(one)).toSorted()) {
    const series = await readSeries(archive, name);
    if (series !== null) found.push(series);
  }
  return found;
}

/** Null when it is not there, or its beginning was interrupted. @throws PlaceProblem without the archive */
export async function readSeries(archive: string, name: string): Promise<Series | null> {
  const all = await readdir(archive).catch((error: unknown) => {
    throw unusable(archive, error);
  });
  if (!all.includes(name)) return null;
  const folder = seriesFolder(archive, name);
  const names = (await readdir(folder)).toSorted();
  if (!names.includes(SHAPE)) return null;
  const shape = await readJson(join(folder, SHAPE), shapeSchema);
  const bases: Base[] = [];
  for (const file of names.filter((one) => /^base-.*\.json$/.test(one))) {
    const facts = await readJson(join(folder, file), baseSchema);
    const tar = join(folder, file.replace(/json$/, 'tar.zst'));
    bases.push({ ...facts, series: folder, archive: tar });
  }
  let covered: Covered | null = null;
  for await (const line of coveredOf(folder)) covered = line;
  return { name, folder, shape, bases, covered };
}

/** Makes the folder of a new series. */
export async function makeSeries(
  archive: string,
  { name, shape }: Pick<Series, 'name' | 'shape'>,
): Promise<Series> {
  const folder = seriesFolder(archive, name);
  try {
    // Not the archive itself: a disk that is not mounted must not become a folder.
    await mkdir(folder, { mode: 0o700 });
    await mkdir(walFolder(folder), { mode: 0o700 });
    await syncFolder(archive);
    const content = JSON.stringify({ format: 1, ...shape });
    await writeDurably(join(folder, SHAPE), Buffer.from(content));
  } catch (error) {
    throw unusable(archive, error);
  }
  return { name, folder, shape, bases: [], covered: null };
}

/** The keys of a series, the oldest first. */
export async function readKeys(series: string): Promise<ArchivedKey[]> {
  const names = (await readdir(series)).filter((one) => /^key-.*\.json$/.test(one)).toSorted();
  const keys: ArchivedKey[] = [];
  for (const name of names) keys.push(await readJson(join(series, name), keySchema));
  return keys;
}

async function readJson<Value>(path: string, schema: z.ZodType<Value>): Promise<Value> {
  const text = await readFile(path, 'utf8').catch((error: unknown) => {
    throw unusable(path, error);
  });
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    throw new BackupDamaged(`${path} is damaged, or of a newer version of Letterhaus.`);
  }
}

/** The lines in order; one that is incomplete is left out. */
export async function* coveredOf(series: string): AsyncGenerator<Covered> {
  const path = join(series, COVERED);
  if ((await stat(path).catch(() => null)) === null) return;
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const [, at = '', lsn = ''] = /^(\S+Z) ([0-9A-F]+\/[0-9A-F]+)$/.exec(line) ?? [];
    if (at !== '') yield { at, lsn };
  }
}

/** Resolves when the line is on disk, which is said only once the WAL is. */
export async function appendCovered(series: string, { at, lsn }: Covered): Promise<void> {
  const file = await open(join(series, COVERED), 'a', 0o600);
  try {
    // The line before it may have been cut off: an empty line is none.
    await file.write(`\n${at} ${lsn}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Drops the lines before a time. */
export async function shortenCovered(series: string, from: string): Promise<void> {
  const kept: string[] = [];
  for await (const { at, lsn } of coveredOf(series)) if (at >= from) kept.push(`${at} ${lsn}\n`);
  await writeDurably(join(series, COVERED), Buffer.from(kept.join('')));
}

/** Resolves when the file is on disk under its name, which it has only then. */
export async function writeDurably(path: string, bytes: Buffer): Promise<void> {
  const unfinished = unfinishedName(path);
  const file = await open(unfinished, 'w', 0o600);
  try {
    await file.writeFile(bytes);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(unfinished, path);
  await syncFolder(dirname(path));
}

export function unfinishedName(path: string): string {
  return `${path}${UNFINISHED}`;
}

export async function syncFolder(folder: string): Promise<void> {
  const opened = await open(folder, 'r');
  try {
    await opened.sync();
  } finally {
    await opened.close();
  }
}

/** What a machine without power left behind. */
export async function removeUnfinished(series: string): Promise<void> {
  for (const folder of [series, walFolder(series)]) {
    for (const name of await readdir(folder)) {
      if (name.endsWith(UNFINISHED)) await rm(join(folder, name), { force: true });
    }
  }
}

export function unusable(path: string, error: unknown): PlaceProblem {
  const { code = String(error) } = error as NodeJS.ErrnoException;
  const why = code === 'ENOSPC' ? 'the disk is full' : code;
  return new PlaceProblem(`${path} cannot be used (${why}).`);
}
