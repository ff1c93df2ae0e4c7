/**
 * Writes a series of the archive: WAL as PostgreSQL has it on its disk, and base backups. Whatever
 * interrupts it, the next call continues, and what is in the archive stays usable.
 */
import { createHash } from 'node:crypto';
import { constants as fileConstants } from 'node:fs';
import { open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { constants, createZstdCompress, zstdCompress, zstdDecompress } from 'node:zlib';
import { openBaseBackup } from '../../store/backup/base-backup.ts';
import { readWalState } from '../../store/backup/wal.ts';
import type { DatabaseAddress, Queryable } from '../../store/postgres/database.ts';
import { versionOf } from '../../store/postgres/migrate.ts';
import { secretKeyId, secretKeysOf } from '../../store/secrets.ts';
import { PlaceProblem } from '../place.ts';
import { sealKey, type Sealing } from '../sealed-key.ts';
import {
  type ArchivedKey,
  type Base,
  type BaseFacts,
  datedName,
  partialFile,
  type Series,
  syncFolder,
  unfinishedName,
  unusable,
  walFile,
  walFolder,
  writeDurably,
} from './archive.ts';
import { lsnOf, requireSegment, segmentAt, segmentName } from './segments.ts';

/** Level 1: WAL is written all the time, and mail needs the cores. With a checksum of the content. */
const COMPRESSION = {
  params: { [constants.ZSTD_c_compressionLevel]: 1, [constants.ZSTD_c_checksumFlag]: 1 },
};
const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** PostgreSQL no longer has WAL that the archive lacks. */
export class WalGone extends Error {
  override readonly name = 'WalGone';
}

type Range = { from: bigint; to: bigint; pgWal: string };

/**
 * Archives the WAL between two positions: whole segments, and the beginning of the last one.
 * @returns the position from which PostgreSQL has to keep WAL: the start of the last segment
 * @throws WalGone, PlaceProblem
 */
export async function archiveWal(series: Series, { from, to, pgWal }: Range): Promise<string> {
  const { folder, shape } = series;
  const last = segmentAt(to, shape);
  for (let segment = segmentAt(from, shape); segment < last; segment += 1n) {
    const bytes = await readSegment(pgWal, { segment, bytes: shape.segmentBytes, series });
    await archiveSegment(walFile(folder, segmentName(segment, shape)), bytes);
  }
  const written = Number(to % BigInt(shape.segmentBytes));
  const name = segmentName(last, shape);
  if (written > 0) {
    const bytes = await readSegment(pgWal, { segment: last, bytes: written, series });
    await store(partialFile(folder, name), await compress(bytes, COMPRESSION));
  }
  await removePartials(folder, name);
  return lsnOf(last * BigInt(shape.segmentBytes));
}

type Part = { segment: bigint; bytes: number; series: Series };

/** The beginning of a segment, which PostgreSQL has on its disk. */
async function readSegment(
  pgWal: string,
  { segment, bytes, series: { shape } }: Part,
): Promise<Buffer> {
  const name = segmentName(segment, shape);
  const whole = Buffer.alloc(shape.segmentBytes);
  try {
    // Not through a link: the folder belongs to the database's user.
    const flags = fileConstants.O_RDONLY | fileConstants.O_NOFOLLOW;
    const file = await open(join(pgWal, name), flags);
    try {
      await file.read(whole, 0, bytes, 0);
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new WalGone(`PostgreSQL has removed the WAL file ${name}, which is not archived.`);
  }
  requireSegment(whole, segment, shape);
  return whole.subarray(0, bytes);
}

/** After a crash the slot is at an older position, so a segment may be archived already. */
async function archiveSegment(path: string, bytes: Buffer): Promise<void> {
  const present = await readFile(path).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw unusable(path, error);
  });
  if (present === null) return store(path, await compress(bytes, COMPRESSION));
  const content = await decompress(present).catch(() => null);
  if (content?.equals(bytes) === true) return;
  throw new PlaceProblem(
    `${path} is there with other content, and WAL is not written over: move it away, or use an empty folder.`,
  );
}

async function store(path: string, bytes: Buffer): Promise<void> {
  await writeDurably(path, bytes).catch((error: unknown) => {
    throw unusable(dirname(path), error);
  });
}

async function removePartials(folder: string, except: string): Promise<void> {
  for (const name of await readdir(walFolder(folder))) {
    const isOld = name.endsWith('.partial.zst') && !name.startsWith(except);
    if (isOld) await rm(join(walFolder(folder), name), { force: true });
  }
}

/** Archives the secret key as it is from now on, sealed. */
export async function archiveKey(
  series: Series,
  { at, secretKey, sealing }: { at: Date; secretKey: string; sealing: NonNullable<Sealing> },
): Promise<ArchivedKey> {
  const sealed = await sealKey(secretKey, sealing);
  const key: ArchivedKey = {
    at: at.toISOString(),
    keyIds: secretKeysOf(secretKey).map(secretKeyId),
    sealedKey: sealed.toString('base64'),
    sealedFor: 'passphrase' in sealing ? 'passphrase' : 'recipients',
  };
  await store(
    join(series.folder, `${datedName('key', at)}.json`),
    Buffer.from(JSON.stringify(key)),
  );
  return key;
}

type BaseOptions = {
  address: DatabaseAddress;
  db: Queryable;
  /** Of Letterhaus. */
  version: string;
  signal: AbortSignal;
};

/** Makes a base backup. The WAL that belongs to it has to be archived too before it is usable. */
export async function archiveBase(
  series: Series,
  { address, db, version, signal }: BaseOptions,
): Promise<Base> {
  const name = datedName('base', (await readWalState(db)).now);
  const archive = join(series.folder, `${name}.tar.zst`);
  const { startLsn, stopLsn, ...written } = await writeTar(archive, address, signal);
  const { now, postgres } = await readWalState(db);
  const facts: BaseFacts = {
    version,
    schema: await versionOf(db),
    postgres,
    startLsn,
    stopLsn,
    // Dates are cut to milliseconds.
    usableFrom: new Date(now.getTime() + 1).toISOString(),
    ...written,
  };
  await store(join(series.folder, `${name}.json`), Buffer.from(JSON.stringify(facts)));
  return { ...facts, series: series.folder, archive };
}

async function writeTar(path: string, address: DatabaseAddress, signal: AbortSignal) {
  const unfinished = unfinishedName(path);
  const file = await open(unfinished, 'w', 0o600).catch((error: unknown) => {
    throw unusable(path, error);
  });
  const hash = createHash('sha256');
  let [bytes, archiveBytes] = [0, 0];
  try {
    await using base = await openBaseBackup(address);
    await pipeline(
      base.tar,
      async function* count(chunks: AsyncIterable<Buffer>) {
        for await (const chunk of chunks) {
          bytes += chunk.length;
          yield chunk;
        }
      },
      createZstdCompress(COMPRESSION),
      async (chunks: AsyncIterable<Buffer>) => {
        for await (const chunk of chunks) {
          hash.update(chunk);
          archiveBytes += chunk.length;
          await file.writeFile(chunk);
        }
      },
      { signal },
    );
    await file.sync();
    await file.close();
    await rename(unfinished, path);
    await syncFolder(dirname(path));
    const { startLsn, stopLsn } = base.tar;
    return { startLsn, stopLsn, bytes, archiveBytes, sha256: hash.digest('hex') };
  } catch (error) {
    await file.close().catch(() => {});
    await rm(unfinished, { force: true });
    throw ['ENOSPC', 'EIO', 'EROFS'].includes((error as { code?: string }).code ?? '')
      ? unusable(path, error)
      : error;
  }
}
