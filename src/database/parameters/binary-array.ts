/**
 * Arrays of long texts in PostgreSQL's binary format (`array_recv`). A literal would need escapes for every quote and
 * backslash in an email's HTML, and hex for bytes.
 */

const TYPE_OIDS = { bytea: 17, text: 25, json: 114 } as const;

const NULL_LENGTH = -1;
const HEADER_BYTES = 20;
const LENGTH_BYTES = 4;

/** An array of strings is one element in pieces. They are not joined in memory before they are written. */
type Item = string | Buffer | readonly string[] | null;

export function binaryArray(type: keyof typeof TYPE_OIDS, items: readonly Item[]): Buffer {
  const lengths = items.map(byteLengthOf);
  const contentBytes = lengths.reduce((sum, length) => sum + Math.max(length, 0), 0);
  const array = Buffer.allocUnsafe(HEADER_BYTES + items.length * LENGTH_BYTES + contentBytes);
  let offset = 0;
  for (const field of [1, items.includes(null) ? 1 : 0, TYPE_OIDS[type], items.length, 1]) {
    offset = array.writeInt32BE(field, offset);
  }
  for (const [index, item] of items.entries()) {
    offset = array.writeInt32BE(lengths[index]!, offset);
    offset = writeItem(item, array, offset);
  }
  return array;
}

/** Returns an array literal of UUIDs or numbers, which need no quotes. */
export function literalArray(items: readonly (string | number)[]): string {
  return `{${items.join()}}`;
}

function byteLengthOf(item: Item): number {
  if (item === null) return NULL_LENGTH;
  if (typeof item === 'string' || Buffer.isBuffer(item)) return Buffer.byteLength(item);
  return item.reduce((sum, piece) => sum + Buffer.byteLength(piece), 0);
}

function writeItem(item: Item, array: Buffer, offset: number): number {
  if (item === null) return offset;
  if (typeof item === 'string') return offset + array.write(item, offset);
  if (Buffer.isBuffer(item)) return offset + item.copy(array, offset);
  return item.reduce((end, piece) => end + array.write(piece, end), offset);
}
