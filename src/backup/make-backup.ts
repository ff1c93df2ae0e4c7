/**
 * Makes a backup while mail flows: seals the secret key, opens a snapshot, and writes one table after the other.
 * Everything is streamed. Other threads compress a few blocks at a time.
 */
import { createHash } from 'node:crypto';
import type { Readable } from 'node:stream';
import { openSnapshot, type BackupTable, type Snapshot } from './store/snapshot.ts';
import type { DatabaseAddress } from '../database/database.ts';
import { secretKeyId, parseSecretKeys } from '../secrets/secret-keys.ts';
import { BLOCK_BYTES, BackupWriter, compressBlock } from './format.ts';
import type { BackupHeader, TableEnd } from './manifest.ts';
import type { Destination } from './places/backup-place.ts';
import { sealKey, type Sealing } from './sealed-key.ts';

const BLOCKS_AT_ONCE = 3;

export type Progress = (done: { table: string; bytes: number; ofBytes: number }) => void;

export type BackupOptions = {
  address: DatabaseAddress;
  secretKey: string;
  sealing: Sealing;
  version: string;
  /** Opens the destination. Called once, with the expected size. Throws when there is too little space. */
  openDestination: (bytes: number) => Promise<Destination>;
  onProgress?: Progress;
};

export type MadeBackup = {
  header: BackupHeader;
  rows: Record<string, number>;
  bytes: number;
  sha256: string;
};

/** Makes a backup. Finishes its destination, or abandons it when anything fails. */
export async function makeBackup(options: BackupOptions): Promise<MadeBackup> {
  await using snapshot = await openSnapshot(options.address);
  const header = await headerOf(snapshot, options);
  const destination = await options.openDestination(snapshot.bytes);
  try {
    const writer = new BackupWriter(destination);
    await writer.header(header);
    const rows = await writeTables(writer, snapshot, options.onProgress);
    const sha256 = await writer.trailer();
    await destination.finish();
    return { header, rows, bytes: writer.bytes, sha256 };
  } catch (error) {
    await destination.abandon();
    throw error;
  }
}

async function headerOf(
  { facts, open }: Snapshot,
  { secretKey, sealing, version }: BackupOptions,
): Promise<BackupHeader> {
  const sealedKey = sealing && (await sealKey(secretKey, sealing));
  return {
    version,
    ...facts,
    weeks: mutable(facts.weeks),
    keyIds: parseSecretKeys(secretKey).map(secretKeyId),
    sealedKey: sealedKey?.toString('base64') ?? null,
    sealedFor: sealing && ('passphrase' in sealing ? 'passphrase' : 'recipients'),
    open: open.queued,
  };
}

/** Writes all tables. @returns the number of rows of each */
async function writeTables(
  writer: BackupWriter,
  snapshot: Snapshot,
  onProgress?: Progress,
): Promise<Record<string, number>> {
  const rowCounts: Record<string, number> = {};
  let bytes = 0;
  for (const table of snapshot.facts.tables) {
    const end = await writeTable(writer, table, {
      rows: snapshot.read(table),
      onBytes: (count) => {
        bytes += count;
        onProgress?.({ table: table.name, bytes, ofBytes: snapshot.bytes });
      },
    });
    rowCounts[table.name] = end.rows;
  }
  return rowCounts;
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
