/**
 * What a restore to a point in time needs of the archive: the base backup before that time, the WAL from there on,
 * and the secret key of that time. It is chosen and checked before anything is changed; the base is checked as it is
 * read, and PostgreSQL checks each record of the WAL.
 */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { mkdir, open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { createZstdDecompress, zstdDecompress } from 'node:zlib';
import { secretKeysOf } from '../../store/secrets.ts';
import { BackupDamaged } from '../format.ts';
import { type KeyOptions, secretKeyOf } from '../restore.ts';
import {
  type Base,
  coveredOf,
  listSeries,
  partialFile,
  readKeys,
  type Series,
  unusable,
  walFile,
} from './archive.ts';
import { chooseBase } from './choose.ts';
import { positionOf, requireSegment, segmentAt, segmentName } from './segments.ts';
import { extractTar } from './tar.ts';

const decompress = promisify(zstdDecompress);

export type Plan = {
  at: Date;
  series: Series;
  base: Base;
  /** The numbers of the WAL segments that are needed. */
  segments: bigint[];
  /** Of the files of the cluster with the WAL. */
  bytes: number;
};

/** @throws PlaceProblem with the times that are kept, BackupDamaged when WAL is missing */
export async function planRestore(archive: string, at: Date): Promise<Plan> {
  const { series, base } = chooseBase(await listSeries(archive), { archive, at });
  const { shape } = series;
  const end = positionOf(await endOf(series, at));
  const segments: bigint[] = [];
  const first = segmentAt(positionOf(base.startLsn), shape);
  for (let segment = first; segment * BigInt(shape.segmentBytes) < end; segment += 1n) {
    await fileOf(series, segment);
    segments.push(segment);
  }
  const bytes = base.bytes + segments.length * shape.segmentBytes;
  return { at, series, base, segments, bytes };
}

/** The position of a mark that was committed after the time: the recovery stops before it at the latest. */
async function endOf({ folder }: Series, at: Date): Promise<string> {
  const wanted = at.toISOString();
  for await (const covered of coveredOf(folder)) if (covered.at >= wanted) return covered.lsn;
  throw new BackupDamaged(`The log of the archive in ${folder} has lost its end.`);
}

/** @throws BackupDamaged when it is missing */
async function fileOf({ folder, shape }: Series, segment: bigint): Promise<string> {
  const name = segmentName(segment, shape);
  for (const path of [walFile(folder, name), partialFile(folder, name)]) {
    if ((await stat(path).catch(() => null)) !== null) return path;
  }
  throw new BackupDamaged(`The archive lacks the WAL file ${name}.`);
}

/** The secret keys in use at the time, the newest first. @throws SealProblem, BackupDamaged */
export async function keysAt(
  { series, at }: Pick<Plan, 'series' | 'at'>,
  options: KeyOptions,
): Promise<string> {
  const all = await readKeys(series.folder);
  const before = Math.max(
    0,
    all.findLastIndex((key) => key.at <= at.toISOString()),
  );
  // A key that was replaced just before is archived some seconds later: the next one may be in use already.
  const found = all.slice(before, before + 2).toReversed();
  if (found.length === 0) throw new BackupDamaged(`${series.folder} has no secret key.`);
  const opened: string[] = [];
  for (const key of found) opened.push(...secretKeysOf(await secretKeyOf(key, options)));
  return [...new Set(opened)].join(',');
}

export type FillProgress = (done: { step: 'files' | 'wal'; bytes: number }) => void;

/** Writes the files of the cluster and its WAL into a folder that is not there yet. @throws BackupDamaged */
export async function fillCluster(
  { series, base, segments }: Plan,
  pgDir: string,
  onProgress: FillProgress,
): Promise<void> {
  await mkdir(pgDir, { mode: 0o700 });
  await extractBase(base, pgDir, (bytes) => onProgress({ step: 'files', bytes }));
  const { shape } = series;
  for (const [index, segment] of segments.entries()) {
    const path = await fileOf(series, segment);
    const bytes = Buffer.alloc(shape.segmentBytes);
    (await unpacked(path)).copy(bytes);
    requireSegment(bytes, segment, shape);
    const file = await open(join(pgDir, 'pg_wal', segmentName(segment, shape)), 'wx', 0o600);
    try {
      await file.writeFile(bytes);
    } finally {
      await file.close();
    }
    onProgress({ step: 'wal', bytes: (index + 1) * shape.segmentBytes });
  }
}

async function unpacked(path: string): Promise<Buffer> {
  const packed = await readFile(path).catch((error: unknown) => {
    throw unusable(path, error);
  });
  return decompress(packed).catch(() => {
    throw new BackupDamaged(`${path} is damaged.`);
  });
}

async function extractBase(
  { archive, sha256 }: Base,
  pgDir: string,
  onBytes: (bytes: number) => void,
): Promise<void> {
  const hash = createHash('sha256');
  const unpacking = createZstdDecompress();
  const file = createReadStream(archive);
  file.on('data', (chunk) => hash.update(chunk));
  file.on('error', (error) => unpacking.destroy(unusable(archive, error)));
  file.pipe(unpacking);
  let bytes = 0;
  const counted = async function* count(): AsyncGenerator<Buffer> {
    for await (const chunk of unpacking) {
      bytes += (chunk as Buffer).length;
      onBytes(bytes);
      yield chunk as Buffer;
    }
  };
  try {
    await extractTar(counted(), pgDir);
  } catch (error) {
    const isZstd = /^(ERR_)?ZSTD|^Z_/i.test((error as { code?: string }).code ?? '');
    throw isZstd ? new BackupDamaged(`${archive} is damaged.`) : error;
  } finally {
    file.destroy();
  }
  if (hash.digest('hex') !== sha256) throw new BackupDamaged(`${archive} is damaged.`);
}
