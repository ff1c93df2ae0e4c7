/**
 * Reads the archive for a restore to a point in time: the base backup before that time, the WAL from there on, and the
 * secret key of that time. All are chosen and checked before anything changes. The base is checked while it is read.
 * PostgreSQL checks each record of the WAL.
 */
import { createHash } from 'node:crypto';
import { mkdir, open } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createZstdDecompress } from 'node:zlib';
import { parseSecretKeys } from '../../secrets/secret-keys.ts';
import { BackupDamaged } from '../format.ts';
import { type KeyOptions, openSecretKey } from '../restore-backup.ts';
import { type Base, listSeries, readKeys, type Series, walFile, walFolder } from './archive.ts';
import { chooseBase } from './choose-base.ts';
import { findCoveredSince } from './covered-log.ts';
import { readPartial, readCompressed } from './partial-segment.ts';
import type { ArchivePlace } from './archive-place.ts';
import { positionOf, requireSegment, segmentAt, segmentName } from './segments.ts';
import { extractTar } from './tar.ts';

/** @property isWhole false: the segment is stored in pieces */
type Segment = { number: bigint; isWhole: boolean };

export type RestorePlan = {
  place: ArchivePlace;
  at: Date;
  series: Series;
  base: Base;
  segments: Segment[];
  /** Size of the cluster's files and the WAL. */
  bytes: number;
};

/** @throws PlaceProblem with the times that are kept, BackupDamaged when WAL is missing */
export async function planRestore(place: ArchivePlace, at: Date): Promise<RestorePlan> {
  const all = await listSeries(place);
  const { series, base } = chooseBase(all, { archive: place.name, at });
  const { shape } = series;
  const end = positionOf(await readEndLsn(place, series, at));
  const archived = await place.list(`${walFolder(series.name)}/`);
  const completeFiles = new Set(archived.filter((name) => !name.includes('.partial-')));
  const archivedFiles = new Set(archived.map((name) => name.replace(/\.partial-\w+/, '')));
  const segments: Segment[] = [];
  const first = segmentAt(positionOf(base.startLsn), shape);
  for (let number = first; number * BigInt(shape.segmentBytes) < end; number += 1n) {
    const name = segmentName(number, shape);
    const file = walFile(series.name, name);
    if (!archivedFiles.has(file))
      throw new BackupDamaged(`The archive lacks the WAL file ${name}.`);
    segments.push({ number, isWhole: completeFiles.has(file) });
  }
  const bytes = base.bytes + segments.length * shape.segmentBytes;
  return { place, at, series, base, segments, bytes };
}

/** Returns the WAL position of a mark that was committed after the time. The recovery stops before it. */
async function readEndLsn(place: ArchivePlace, { name }: Series, at: Date): Promise<string> {
  const covered = await findCoveredSince(place, name, at.toISOString());
  if (covered !== null) return covered.lsn;
  throw new BackupDamaged(
    `The log of the archive in ${place.pathOf(name)} is incomplete: its end is missing.`,
  );
}

export async function secretKeysAt(
  { place, series, at }: Pick<RestorePlan, 'place' | 'series' | 'at'>,
  options: KeyOptions,
): Promise<string> {
  const all = await readKeys(place, series.name);
  const before = Math.max(
    0,
    all.findLastIndex((key) => key.at <= at.toISOString()),
  );
  // A replaced key is archived some seconds later, so the next key may have been in use already.
  const found = all.slice(before, before + 2).toReversed();
  if (found.length === 0) {
    throw new BackupDamaged(`${place.pathOf(series.name)} has no secret key.`);
  }
  const opened: string[] = [];
  for (const key of found) opened.push(...parseSecretKeys(await openSecretKey(key, options)));
  return [...new Set(opened)].join(',');
}

export type FillProgress = (done: { step: 'files' | 'wal'; bytes: number }) => void;

/** Writes the files of the cluster and its WAL into a new folder. @throws BackupDamaged */
export async function fillCluster(
  { place, series, base, segments }: RestorePlan,
  pgDir: string,
  onProgress: FillProgress,
): Promise<void> {
  await mkdir(pgDir, { mode: 0o700 });
  await extractBase(place, {
    base,
    pgDir,
    onBytes: (bytes) => onProgress({ step: 'files', bytes }),
  });
  const { shape } = series;
  for (const [index, segment] of segments.entries()) {
    const bytes = await readSegment(place, series, segment);
    requireSegment(bytes, segment.number, shape);
    const file = await open(join(pgDir, 'pg_wal', segmentName(segment.number, shape)), 'wx', 0o600);
    try {
      await file.writeFile(bytes);
    } finally {
      await file.close();
    }
    onProgress({ step: 'wal', bytes: (index + 1) * shape.segmentBytes });
  }
}

async function readSegment(
  place: ArchivePlace,
  series: Series,
  { number, isWhole }: Segment,
): Promise<Buffer> {
  const partial = isWhole ? null : await readPartial(place, series, number);
  // A running service may have replaced the pieces by the complete segment.
  return partial ?? readCompressed(place, walFile(series.name, segmentName(number, series.shape)));
}

type Extraction = { base: Base; pgDir: string; onBytes: (bytes: number) => void };

async function extractBase(
  place: ArchivePlace,
  { base: { archive, sha256 }, pgDir, onBytes }: Extraction,
): Promise<void> {
  const hash = createHash('sha256');
  const decompressor = createZstdDecompress();
  const file = Readable.from(place.read(archive));
  file.on('data', (chunk: Buffer) => hash.update(chunk));
  file.on('error', (error) => decompressor.destroy(error));
  file.pipe(decompressor);
  let bytes = 0;
  const countedChunks = async function* count(): AsyncGenerator<Buffer> {
    for await (const chunk of decompressor) {
      bytes += (chunk as Buffer).length;
      onBytes(bytes);
      yield chunk as Buffer;
    }
  };
  const damaged = (): BackupDamaged => new BackupDamaged(`${place.pathOf(archive)} is damaged.`);
  try {
    await extractTar(countedChunks(), pgDir);
  } catch (error) {
    const isZstd = /^(ERR_)?ZSTD|^Z_/i.test((error as { code?: string }).code ?? '');
    throw isZstd ? damaged() : error;
  } finally {
    file.destroy();
  }
  if (hash.digest('hex') !== sha256) throw damaged();
}
