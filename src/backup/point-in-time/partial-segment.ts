/**
 * The beginning of the WAL segment that PostgreSQL is writing, in pieces. Every few seconds the last piece is rewritten
 * with new bytes, until it is large enough and the next one begins. So the bytes of each write do not grow with the
 * segment. The complete segment replaces the pieces.
 */
import { BackupDamaged } from '../format.ts';
import { type Series, walFolder } from './archive.ts';
import { compress, decompress } from './compress.ts';
import type { ArchivePlace } from './archive-place.ts';
import { segmentName } from './segments.ts';

/** Size of a compressed piece from which the next one begins. */
const PIECE_BYTES = 64 * 1024;

/** `…A5.partial-0000C000.zst`: the name contains the offset of the piece. */
const PIECE = /\.partial-([0-9A-F]{8})\.zst$/;

function piecesPrefix({ name, shape }: Series, segment: bigint): string {
  return `${walFolder(name)}/${segmentName(segment, shape)}.partial-`;
}

/** Stores the segment up to a byte. @param read reads bytes of the segment from PostgreSQL's disk */
export async function storePartial(
  place: ArchivePlace,
  series: Series,
  given: { segment: bigint; to: number; read: (from: number, to: number) => Promise<Buffer> },
): Promise<void> {
  const { segment, to, read } = given;
  const last = series.partial?.segment === segment ? series.partial : null;
  if (last?.to === to) return;
  const from = last === null ? 0 : last.bytes > PIECE_BYTES ? last.to : last.from;
  const compressed = await compress(await read(from, to));
  const prefix = piecesPrefix(series, segment);
  const name = `${prefix}${from.toString(16).padStart(8, '0').toUpperCase()}.zst`;
  await place.put(name, compressed);
  if (last === null) {
    // After a crash PostgreSQL may write the end of its WAL anew, with other content.
    const otherPieces = (await place.list(prefix)).filter((one) => one !== name);
    await place.remove(otherPieces);
  }
  series.partial = { segment, from, to, bytes: compressed.length };
}

export async function removePartial(
  place: ArchivePlace,
  series: Series,
  segment: bigint,
): Promise<void> {
  await place.remove(await place.list(piecesPrefix(series, segment)));
  if (series.partial?.segment === segment) series.partial = null;
}

/**
 * Returns the beginning of the segment, filled up with zeros; null when the archive contains none of it. Pieces after a
 * missing one are left out. The recovery fails if it needs them.
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
    const bytes = await readCompressed(place, name);
    pieces.push({ from, bytes });
    to = Math.max(to, from + bytes.length);
  }
  const content = Buffer.alloc(series.shape.segmentBytes);
  // Earlier pieces win where pieces overlap: the later one is from before a crash.
  for (const { from, bytes } of pieces.toReversed()) bytes.copy(content, from);
  return content;
}

export async function readCompressed(place: ArchivePlace, name: string): Promise<Buffer> {
  const compressed = await place.get(name);
  if (compressed === null) throw new BackupDamaged(`The archive lacks ${place.pathOf(name)}.`);
  return decompress(compressed).catch(() => {
    throw new BackupDamaged(`${place.pathOf(name)} is damaged.`);
  });
}
