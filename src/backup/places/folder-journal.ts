/**
 * The journal beside the backups in a folder: one file. An incomplete last line is ignored: the machine was lost while
 * it wrote the line.
 */
import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { JournalRow } from '../store/journal-rows.ts';
import type { Journal } from './backup-place.ts';

const NAME = 'letterhaus.journal';
/** Longest time from the time of a row to its commit. A backup of a later time may lack the row. */
const COMMIT_WITHIN_MS = 60_000;

export function fileJournal(folder: string): Journal {
  const path = join(folder, NAME);
  return {
    append: (rows) => appendJournal(path, rows),
    read: (sinceMs) => readJournal(path, sinceMs),
    newest: () => readNewestMs(path),
    shorten: (oldestMs) => shortenJournal(path, oldestMs),
  };
}

async function appendJournal(path: string, rows: readonly JournalRow[]): Promise<void> {
  if (rows.length === 0) return;
  const file = await open(path, 'a+', 0o600);
  try {
    const { size } = await file.stat();
    const last = size === 0 ? null : await file.read(Buffer.alloc(1), 0, 1, size - 1);
    // An incomplete line needs a line break before the next row.
    const endsIncomplete = last !== null && last.buffer.toString() !== '\n';
    await file.write(
      `${endsIncomplete ? '\n' : ''}${rows.map((row) => `${JSON.stringify(row)}\n`).join('')}`,
    );
    await file.sync();
  } finally {
    await file.close();
  }
}

async function* readJournal(path: string, sinceMs: number): AsyncGenerator<JournalRow> {
  if (!(await fileExists(path))) return;
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const row = parseLine(line);
    if (row !== null && isSince(row, sinceMs)) yield row;
  }
}

export function isSince({ at }: JournalRow, sinceMs: number): boolean {
  return Date.parse(at) > sinceMs - COMMIT_WITHIN_MS;
}

/** Parses a line; null when it is incomplete or no row. */
export function parseLine(line: string): JournalRow | null {
  try {
    const { table, at, row } = JSON.parse(line) as Partial<JournalRow>;
    const isKnown = table === 'suppressions' || table === 'idempotency';
    return isKnown && typeof at === 'string' && typeof row === 'object' ? { table, at, row } : null;
  } catch {
    return null;
  }
}

async function shortenJournal(path: string, oldestMs: number): Promise<void> {
  if (!(await fileExists(path))) return;
  const fresh = `${path}.new`;
  const file = await open(fresh, 'w', 0o600);
  try {
    for await (const row of readJournal(path, oldestMs))
      await file.write(`${JSON.stringify(row)}\n`);
    await file.sync();
  } finally {
    await file.close();
  }
  await rename(fresh, path);
}

async function readNewestMs(path: string): Promise<number | null> {
  let newestMs: number | null = null;
  for await (const { at } of readJournal(path, 0))
    newestMs = Math.max(newestMs ?? 0, Date.parse(at));
  return newestMs;
}

async function fileExists(path: string): Promise<boolean> {
  return (await stat(path).catch(() => null)) !== null;
}
