/**
 * Writes a series of the archive: the WAL on PostgreSQL's disk, and base backups. After an interruption the next call
 * continues, and the archive stays usable.
 */
import { createHash } from 'node:crypto';
import { constants as fileConstants } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { createZstdCompress } from 'node:zlib';
import { openBaseBackup } from '../store/base-backup.ts';
import { readWalState } from '../store/wal.ts';
import { readDatabaseBytes } from '../../database/server/capacity.ts';
import type { DatabaseAddress, Queryable } from '../../database/database.ts';
import { readVersion } from '../../migration/migrate.ts';
import { secretKeyId, parseSecretKeys } from '../../secrets/secret-keys.ts';
import { type Destination, PlaceProblem } from '../places/backup-place.ts';
import { sealKey, type Sealing } from '../sealed-key.ts';
import {
  type ArchivedKey,
  type Base,
  type BaseFacts,
  datedName,
  factsFileOf,
  type Series,
  walFile,
} from './archive.ts';
import { compress, COMPRESSION, decompress } from './compress.ts';
import { removePartial, storePartial } from './partial-segment.ts';
import type { ArchivePlace } from './archive-place.ts';
import { lsnOf, requireSegment, segmentAt, segmentName } from './segments.ts';

/** PostgreSQL no longer has WAL that the archive lacks. */
export class WalGone extends Error {
  override readonly name = 'WalGone';
}

type WalRange = {
  from: bigint;
  to: bigint;
  pgWal: string;
  /** Called after each segment. There are many after an outage of the place. */
  onSegment: () => void;
};

/**
 * Archives the WAL between two positions: complete segments, and the beginning of the last one.
 * @returns the position from which PostgreSQL has to keep WAL: the start of the last segment
 * @throws WalGone, PlaceProblem, S3Problem
 */
export async function archiveWal(
  place: ArchivePlace,
  series: Series,
  { from, to, pgWal, onSegment }: WalRange,
): Promise<string> {
  const { name, shape } = series;
  const last = segmentAt(to, shape);
  for (let segment = segmentAt(from, shape); segment < last; segment += 1n) {
    const bytes = await readSegment(pgWal, { segment, from: 0, to: shape.segmentBytes, series });
    await archiveSegment(place, walFile(name, segmentName(segment, shape)), bytes);
    await removePartial(place, series, segment);
    onSegment();
  }
  const partialBytes = Number(to % BigInt(shape.segmentBytes));
  if (partialBytes > 0) {
    await storePartial(place, series, {
      segment: last,
      to: partialBytes,
      read: (start, end) => readSegment(pgWal, { segment: last, from: start, to: end, series }),
    });
  }
  return lsnOf(last * BigInt(shape.segmentBytes));
}

type SegmentPart = { segment: bigint; from: number; to: number; series: Series };

async function readSegment(
  pgWal: string,
  { segment, from, to, series: { shape } }: SegmentPart,
): Promise<Buffer> {
  const name = segmentName(segment, shape);
  const content = Buffer.alloc(shape.segmentBytes);
  try {
    // Follows no link, because the folder belongs to the database's user.
    const flags = fileConstants.O_RDONLY | fileConstants.O_NOFOLLOW;
    const file = await open(join(pgWal, name), flags);
    try {
      await file.read(content, 0, to, 0);
    } finally {
      await file.close();
    }
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    throw new WalGone(`PostgreSQL has removed the WAL file ${name}, which is not archived.`);
  }
  requireSegment(content, segment, shape);
  return content.subarray(from, to);
}

/** Skips a segment that is archived already: after a crash the slot is at an older position. */
async function archiveSegment(place: ArchivePlace, name: string, bytes: Buffer): Promise<void> {
  const present = await place.get(name);
  if (present === null) return place.put(name, await compress(bytes));
  const content = await decompress(present).catch(() => null);
  if (content?.equals(bytes) === true) return;
  throw new PlaceProblem(
    `${place.pathOf(name)} exists with other content, and WAL is never overwritten. Move it away, or use an empty place.`,
  );
}

export async function archiveKey(
  place: ArchivePlace,
  series: Series,
  { at, secretKey, sealing }: { at: Date; secretKey: string; sealing: NonNullable<Sealing> },
): Promise<ArchivedKey> {
  const sealed = await sealKey(secretKey, sealing);
  const key: ArchivedKey = {
    at: at.toISOString(),
    keyIds: parseSecretKeys(secretKey).map(secretKeyId),
    sealedKey: sealed.toString('base64'),
    sealedFor: 'passphrase' in sealing ? 'passphrase' : 'recipients',
  };
  await place.put(`${datedName(series.name, 'key', at)}.json`, Buffer.from(JSON.stringify(key)));
  return key;
}

type BaseOptions = {
  address: DatabaseAddress;
  db: Queryable;
  version: string;
  signal: AbortSignal;
};

/** Makes a base backup. It is usable once its WAL is archived as well. */
export async function archiveBase(
  place: ArchivePlace,
  series: Series,
  { address, db, version, signal }: BaseOptions,
): Promise<Base> {
  const archive = `${datedName(series.name, 'base', (await readWalState(db)).now)}.tar.zst`;
  const destination = await place.create(archive, await readDatabaseBytes(db));
  const { startLsn, stopLsn, ...sizes } = await writeTar(destination, address, signal);
  const { now, postgres } = await readWalState(db);
  const facts: BaseFacts = {
    version,
    schema: await readVersion(db),
    postgres,
    startLsn,
    stopLsn,
    // JavaScript's dates have milliseconds, PostgreSQL's microseconds: round up.
    usableFrom: new Date(now.getTime() + 1).toISOString(),
    ...sizes,
  };
  await place.put(factsFileOf({ archive }), Buffer.from(JSON.stringify(facts)));
  return { ...facts, archive };
}

async function writeTar(destination: Destination, address: DatabaseAddress, signal: AbortSignal) {
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
          await destination.write(chunk);
        }
      },
      { signal },
    );
    await destination.finish();
    const { startLsn, stopLsn } = base.tar;
    return { startLsn, stopLsn, bytes, archiveBytes, sha256: hash.digest('hex') };
  } catch (error) {
    await destination.abandon();
    throw error;
  }
}
