/**
 * The beginning of the WAL segment that PostgreSQL is writing, in pieces: every few seconds the last piece is
 * written again with what is new, until it is large enough and the next one begins. So what is written each
 * time does not grow with the segment. The whole segment replaces the pieces.
 */
import { BackupDamaged } from '../format.ts';
import { type Series, walFolder } from './archive.ts';
import { compress, decompress } from './compress.ts';
import type { ArchivePlace } from './place.ts';
import { segmentName } from './segments.ts';

/** Compressed. */
const PIECE_BYTES = 64 * 1024;

/** `…A5.partial-0000C000.zst`: the name has where it begins. */
const PIECE = /\.partial-([0-9A-F]{8})\.zst$/;

function piecesPrefix({ name, shape }: Series, segment: bigint): string {
  return `${walFolder(name)}/${segmentName(segment, shape)}.partial-`;
}

/**
 * Stores the segment up to a byte.
 * @param read the bytes of the segment as PostgreSQL has them on its disk
 */
export async function storePartial(
  place: ArchivePlace,
  series: Series,
  given: { segment: bigint; to: number; read: (from: number, to: number) => Promise<Buffer> },
): Promise<void> {
  const { segment, to, read } = given;
  const last = series.partial?.segment === segment ? series.partial : null;
  if (last?.to === to) return;
  const from = last === null ? 0 : last.bytes > PIECE_BYTES ? last.to : last.from;
  const packed = await compress(await read(from, to));
  const prefix = piecesPrefix(series, segment);
  const name = `${prefix}${from.toString(16).padStart(8, '0').toUpperCase()}.zst`;
  await place.put(name, packed);
  if (last === null) {
    // After a crash PostgreSQL may write the end of its WAL again, and otherwise.
    const others = (await place.list(prefix)).filter((one) => one !== name);
    await place.remove(others);
  }
  series.partial = { segment, from, to, bytes: packed.length };
}

/** The whole segment is stored. */
export async function removePartial(
  place: ArchivePlace,
  series: Series,
  segment: bigint,
): Promise<void> {
  await place.remove(await place.list(piecesPrefix(series, segment)));
  if (series.partial?.segment === segment) series.partial = null;
}

/**
 * The beginning of the segment, followed by zeros; null: the archive has nothing of it. What follows a missing piece
 * is left out, and the recovery fails if it needs that.
 * @throws BackupDamaged
 */
export async function readPartial(
  place: ArchivePlace,
  series: Series,
  segment: bigint,
): Promise<Buffer | null> {
  const names = (await place.list(piecesPrefix(series, segment))).filter((one) => PIECE.test(one));
  if (names.length === 0) return null;
  const pieces: { from: number; bytes: Buffer }[] = [];
  let to = 0;
  for (const name of names) {
    const from = parseInt(PIECE.exec(name)![1]!, 16);
    if (from > to) break;
    const bytes = await unpack(place, name);
    pieces.push({ from, bytes });
    to = Math.max(to, from + bytes.length);
  }
  const whole = Buffer.alloc(series.shape.segmentBytes);
  // The first one last: where another one overlaps it, that one is from before a crash.
  for (const { from, bytes } of pieces.toReversed()) bytes.copy(whole, from);
  return whole;
}

/** @throws BackupDamaged */
export async function unpack(place: ArchivePlace, name: string): Promise<Buffer> {
  const packed = await place.get(name);
  if (packed === null) throw new BackupDamaged(`The archive lacks ${place.pathOf(name)}.`);
  return decompress(packed).catch(() => {
    throw new BackupDamaged(`${place.pathOf(name)} is damaged.`);
  });
}
