/**
 * The file of a backup: a line that names the format, then records.
 *
 *     letterhaus backup 1\n
 *     header     JSON: versions, the time, tables with their columns, the sealed secret key
 *     data …     rows of one table in the binary form of COPY, compressed in blocks of 1 MB
 *     end        JSON: rows, bytes and SHA-256 of this table; then the data of the next one
 *     trailer    JSON: SHA-256 of everything before it
 *
 * A record is a kind, the length of its payload, a CRC-32 of the payload, and the payload. So a truncation or change is
 * detected at its record, and a file without trailer is no backup. The file is written and read from start to end, so
 * it may be a pipe, an object or a file.
 */
import { createHash, type Hash } from 'node:crypto';
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdDecompress } from 'node:zlib';
import { MIB } from '../lib/units.ts';

const MAGIC_NAME = 'letterhaus backup ';
const FORMAT = 1;
const MAGIC = Buffer.from(`${MAGIC_NAME}${FORMAT}\n`);

const KINDS = { header: 0x48, data: 0x44, end: 0x45, trailer: 0x5a } as const;
export type RecordKind = keyof typeof KINDS;

const HEAD_BYTES = 9;
export const BLOCK_BYTES = MIB;
/** Largest payload: an incompressible block, or the header of a database with many weeks. */
const PAYLOAD_BYTES_MAX = 16 * MIB;
/** A fast level: most bytes are contents, which the database has already compressed. */
const LEVEL = { params: { [constants.ZSTD_c_compressionLevel]: 3 } };

const compress = promisify(zstdCompress);
const decompress = promisify(zstdDecompress);

/** The file is no usable backup. The message is for the operator. */
export class BackupDamaged extends Error {
  override readonly name = 'BackupDamaged';
}

export type Sink = { write(bytes: Buffer): Promise<void> };

export class BackupWriter {
  readonly #sink: Sink;
  readonly #hash = createHash('sha256');
  #bytes = 0;

  constructor(sink: Sink) {
    this.#sink = sink;
  }

  get bytes(): number {
    return this.#bytes;
  }

  async header(content: object): Promise<void> {
    await this.#write(MAGIC);
    await this.#record('header', Buffer.from(JSON.stringify(content)));
  }

  async data(compressed: Buffer): Promise<void> {
    await this.#record('data', compressed);
  }

  async end(content: object): Promise<void> {
    await this.#record('end', Buffer.from(JSON.stringify(content)));
  }

  /** Writes the last record. @returns the SHA-256 of everything before it */
  async trailer(): Promise<string> {
    const sha256 = this.#hash.copy().digest('hex');
    await this.#record('trailer', Buffer.from(JSON.stringify({ sha256 })));
    return sha256;
  }

  async #record(kind: RecordKind, payload: Buffer): Promise<void> {
    const head = Buffer.alloc(HEAD_BYTES);
    head.writeUInt8(KINDS[kind], 0);
    head.writeUInt32BE(payload.length, 1);
    head.writeUInt32BE(crc32(payload), 5);
    await this.#write(head);
    await this.#write(payload);
  }

  async #write(bytes: Buffer): Promise<void> {
    this.#hash.update(bytes);
    this.#bytes += bytes.length;
    await this.#sink.write(bytes);
  }
}

export function compressBlock(block: Buffer): Promise<Buffer> {
  return compress(block, LEVEL);
}

export async function decompressBlock(block: Buffer): Promise<Buffer> {
  try {
    return await decompress(block, { maxOutputLength: 2 * BLOCK_BYTES });
  } catch {
    throw new BackupDamaged('The backup is damaged: a block cannot be decompressed.');
  }
}

export type BackupRecord = { kind: RecordKind; payload: Buffer };

/**
 * Reads the records of a file and checks each.
 * @throws BackupDamaged when it is no backup, newer than this version, changed, or incomplete
 */
export async function* readRecords(file: AsyncIterable<Buffer>): AsyncGenerator<BackupRecord> {
  const input = new ByteReader(file);
  await requireMagic(input);
  for (;;) {
    const at = input.position;
    const before = input.digest();
    const record = await readRecord(input, at);
    if (record.kind === 'trailer') {
      requireTrailer(record.payload, before);
      if ((await input.take(1)) !== null) {
        throw new BackupDamaged('The backup is damaged: something follows its end.');
      }
      yield record;
      return;
    }
    yield record;
  }
}

async function requireMagic(input: ByteReader): Promise<void> {
  const found = (await input.take(MAGIC.length)) ?? Buffer.alloc(0);
  if (found.equals(MAGIC)) return;
  const [, version] = /^letterhaus backup (\d+)\s/.exec(found.toString('latin1')) ?? [];
  throw new BackupDamaged(
    version === undefined
      ? 'This is not a backup of Letterhaus.'
      : `This backup has format ${version}, and this version of Letterhaus reads ${FORMAT}. Use a newer version.`,
  );
}

async function readRecord(input: ByteReader, at: number): Promise<BackupRecord> {
  const head = await input.take(HEAD_BYTES);
  if (head === null) throw truncated(input);
  const kind = kindOf(head.readUInt8(0));
  const length = head.readUInt32BE(1);
  if (kind === null || length > PAYLOAD_BYTES_MAX) throw damagedRecord(at);
  const payload = await input.take(length);
  if (payload === null) throw truncated(input);
  if (crc32(payload) !== head.readUInt32BE(5)) throw damagedRecord(at);
  return { kind, payload };
}

function kindOf(code: number): RecordKind | null {
  for (const [kind, known] of Object.entries(KINDS)) {
    if (known === code) return kind as RecordKind;
  }
  return null;
}

function requireTrailer(payload: Buffer, before: Hash): void {
  const { sha256 } = parseJson(payload) as { sha256?: unknown };
  if (sha256 === before.digest('hex')) return;
  throw new BackupDamaged('The backup is damaged: its checksum is wrong.');
}

export function parseJson(payload: Buffer): unknown {
  try {
    const value: unknown = JSON.parse(payload.toString('utf8'));
    if (typeof value === 'object' && value !== null) return value;
  } catch {
    // The error is thrown below.
  }
  throw new BackupDamaged('The backup is damaged: a record is not readable.');
}

function truncated(input: ByteReader): BackupDamaged {
  return new BackupDamaged(
    `The backup is incomplete: it stops after ${input.position} bytes, before its end.`,
  );
}

function damagedRecord(at: number): BackupDamaged {
  return new BackupDamaged(`The backup is damaged: the record at byte ${at} has changed.`);
}

/** Reads bytes on demand, from chunks of any size. */
class ByteReader {
  readonly #chunks: AsyncIterator<Buffer>;
  readonly #hash = createHash('sha256');
  #buffered: Buffer[] = [];
  #bufferedBytes = 0;
  position = 0;

  constructor(file: AsyncIterable<Buffer>) {
    this.#chunks = file[Symbol.asyncIterator]();
  }

  digest(): Hash {
    return this.#hash.copy();
  }

  /** Returns the next bytes; null when fewer are left. */
  async take(length: number): Promise<Buffer | null> {
    while (this.#bufferedBytes < length) {
      const next = await this.#chunks.next();
      if (next.done === true) {
        this.position += this.#bufferedBytes;
        return null;
      }
      this.#buffered.push(next.value);
      this.#bufferedBytes += next.value.length;
    }
    const [first = Buffer.alloc(0)] = this.#buffered;
    const all = first.length >= length ? first : Buffer.concat(this.#buffered);
    if (all !== first) this.#buffered = [all];
    const rest = all.subarray(length);
    this.#buffered[0] = rest;
    if (rest.length === 0) this.#buffered.shift();
    this.#bufferedBytes -= length;
    this.position += length;
    const taken = all.subarray(0, length);
    this.#hash.update(taken);
    return taken;
  }
}
