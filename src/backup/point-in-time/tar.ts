/**
 * Reads the tar of a base backup (ustar, as PostgreSQL writes it): files and folders only. No name in the archive can
 * leave the given folder.
 */
import { mkdir, open, type FileHandle } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { BackupDamaged } from '../format.ts';

const BLOCK_BYTES = 512;

type Entry = { name: string; bytes: number; kind: 'file' | 'folder' };

/** @throws BackupDamaged for anything that PostgreSQL does not write */
export async function extractTar(chunks: AsyncIterable<Buffer>, folder: string): Promise<void> {
  const input = new BlockReader(chunks);
  for (;;) {
    const head = await input.take(BLOCK_BYTES);
    if (head === null) return;
    const entry = parseHeader(head);
    if (entry === null) continue; // the end has empty blocks
    const path = join(folder, entry.name);
    if (entry.kind === 'folder') {
      await mkdir(path, { recursive: true, mode: 0o700 });
      continue;
    }
    await mkdir(dirname(path), { recursive: true, mode: 0o700 });
    const file = await open(path, 'wx', 0o600);
    try {
      await copyInto(file, input, entry.bytes);
    } finally {
      await file.close();
    }
  }
}

async function copyInto(file: FileHandle, input: BlockReader, bytes: number): Promise<void> {
  for (let left = bytes; left > 0;) {
    const part = await input.takeSome(left);
    if (part === null) throw incomplete();
    await file.writeFile(part);
    left -= part.length;
  }
  const padding = (BLOCK_BYTES - (bytes % BLOCK_BYTES)) % BLOCK_BYTES;
  if (padding > 0 && (await input.take(padding)) === null) throw incomplete();
}

function parseHeader(head: Buffer): Entry | null {
  if (head.every((byte) => byte === 0)) return null;
  const text = (from: number, to: number): string =>
    head.toString('latin1', from, to).replace(/\0.*$/s, '');
  const sum = head.reduce((total, byte, at) => total + (at >= 148 && at < 156 ? 32 : byte), 0);
  if (parseInt(text(148, 156), 8) !== sum) throw new BackupDamaged(DAMAGED);
  const prefix = text(345, 500);
  const name = prefix === '' ? text(0, 100) : `${prefix}/${text(0, 100)}`;
  if (name.startsWith('/') || name.split('/').includes('..')) throw new BackupDamaged(DAMAGED);
  const type = text(156, 157);
  if (type !== '' && type !== '0' && type !== '5') throw new BackupDamaged(DAMAGED);
  return { name, bytes: sizeOf(head), kind: type === '5' ? 'folder' : 'file' };
}

/** Reads octal digits, or for files of 8 GiB and more a binary number with the first bit set. */
function sizeOf(head: Buffer): number {
  const field = head.subarray(124, 136);
  if ((field[0]! & 0x80) !== 0) return Number(field.readBigUInt64BE(4));
  return parseInt(field.toString('latin1').replace(/\0.*$/s, ''), 8);
}

const DAMAGED = 'The base backup is damaged: its archive is not readable.';

function incomplete(): BackupDamaged {
  return new BackupDamaged('The base backup is incomplete.');
}

class BlockReader {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(chunks: AsyncIterable<Buffer>) {
    this.#chunks = chunks[Symbol.asyncIterator]();
  }

  /** Returns this many bytes; null at the end of the stream. */
  async take(bytes: number): Promise<Buffer | null> {
    const parts: Buffer[] = [];
    for (let left = bytes; left > 0;) {
      const part = await this.takeSome(left);
      if (part === null && parts.length === 0) return null;
      if (part === null) throw incomplete();
      parts.push(part);
      left -= part.length;
    }
    return parts.length === 1 ? parts[0]! : Buffer.concat(parts);
  }

  /** Returns at least one byte and at most `max`; null at the end. */
  async takeSome(max: number): Promise<Buffer | null> {
    while (this.#rest.length === 0) {
      const next = await this.#chunks.next();
      if (next.done === true) return null;
      this.#rest = next.value;
    }
    const part = this.#rest.subarray(0, max);
    this.#rest = this.#rest.subarray(part.length);
    return part;
  }
}
