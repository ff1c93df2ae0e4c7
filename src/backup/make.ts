/**
 * Makes a backup while mail flows: seals the secret key, opens a snapshot, and writes one table after the other.
 * Everything is streamed. Other threads compress a few blocks at a time.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { openSnapshot, type BackupTable } from './store/source.ts';
import type { DatabaseAddress } from '../database/database.ts';
import { secretKeyId, parseSecretKeys } from '../secrets/secret-keys.ts';
import { BLOCK_BYTES, BackupWriter, compressBlock, type Sink } from './format.ts';
import type { BackupHeader, TableEnd } from './manifest.ts';
import { sealKey, type Sealing } from './sealed-key.ts';

const BLOCKS_AT_ONCE = 3;

export type Progress = (done: { table: string; bytes: number; ofBytes: number }) => void;

export type BackupOptions = {
  address: DatabaseAddress;
  secretKey: string;
  sealing: Sealing;
  version: string;
  /** Called once with the expected size, before anything is written. @throws when there is no space */
  openSink: (bytes: number) => Promise<Sink>;
  onProgress?: Progress;
};

export type MadeBackup = {
  header: BackupHeader;
  rows: Record<string, number>;
  bytes: number;
  sha256: string;
};

export async function makeBackup(options: BackupOptions): Promise<MadeBackup> {
  const { address, secretKey, sealing, version, openSink, onProgress } = options;
  const sealed = sealing && (await sealKey(secretKey, sealing));
  await using snapshot = await openSnapshot(address);
  const header: BackupHeader = {
    version,
    ...snapshot.facts,
    weeks: mutable(snapshot.facts.weeks),
    keyIds: parseSecretKeys(secretKey).map(secretKeyId),
    sealedKey: sealed?.toString('base64') ?? null,
    sealedFor: sealing && ('passphrase' in sealing ? 'passphrase' : 'recipients'),
    open: snapshot.open.queued,
  };
  const writer = new BackupWriter(await openSink(snapshot.bytes));
  await writer.header(header);
  const rows: Record<string, number> = {};
  let bytes = 0;
  for (const table of snapshot.facts.tables) {
    const end = await writeTable(writer, table, {
      rows: snapshot.read(table),
      onBytes: (count) => {
        bytes += count;
        onProgress?.({ table: table.name, bytes, ofBytes: snapshot.bytes });
      },
    });
    rows[table.name] = end.rows;
  }
  const sha256 = await writer.trailer();
  return { header, rows, bytes: writer.bytes, sha256 };
}

function mutable(weeks: Readonly<Record<string, readonly number[]>>): Record<string, number[]> {
  return Object.fromEntries(Object.entries(weeks).map(([table, list]) => [table, [...list]]));
}

async function writeTable(
  writer: BackupWriter,
  { name }: BackupTable,
  { rows, onBytes }: { rows: Readable & { rowCount: number }; onBytes: (count: number) => void },
): Promise<TableEnd> {
  const hash = createHash('sha256');
  let bytes = 0;
  const compressing: Promise<Buffer>[] = [];
  for await (const block of blocksOf(rows)) {
    hash.update(block);
    bytes += block.length;
    compressing.push(compressBlock(block));
    if (compressing.length >= BLOCKS_AT_ONCE) await writer.data(await compressing.shift()!);
    onBytes(block.length);
  }
  for (const block of compressing) await writer.data(await block);
  const end = { table: name, rows: rows.rowCount, bytes, sha256: hash.digest('hex') };
  await writer.end(end);
  return end;
}

async function* blocksOf(chunks: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  let block = Buffer.allocUnsafe(BLOCK_BYTES);
  let filled = 0;
  for await (const chunk of chunks) {
    for (let from = 0; from < chunk.length;) {
      const copied = chunk.copy(block, filled, from);
      from += copied;
      filled += copied;
      if (filled < BLOCK_BYTES) continue;
      yield block;
      block = Buffer.allocUnsafe(BLOCK_BYTES);
      filled = 0;
    }
  }
  if (filled > 0) yield block.subarray(0, filled);
}
