/**
 * The journal beside scheduled backups: one line of JSON for each suppression and each idempotency key since the
 * oldest backup, appended every few seconds. A restore replays what is newer than its backup. A last line
 * that is incomplete, because the machine was lost while it was written, is left out.
 */
import { createReadStream } from 'node:fs';
import { open, rename, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { JournalRow } from '../store/backup/journal.ts';

const NAME = 'letterhaus.journal';
/** Of a commit: a row may be written with a time before the moment of the backup that lacks it. */
const COMMIT_WITHIN_MS = 60_000;

export function journalIn(folder: string): string {
  return join(folder, NAME);
}

/** The journal beside a backup; null: there is none. */
export async function journalBeside(backup: string): Promise<string | null> {
  const path = journalIn(dirname(backup));
  return (await stat(path).catch(() => null)) === null ? null : path;
}

/** Resolves when the rows are on disk. */
export async function appendJournal(path: string, rows: readonly JournalRow[]): Promise<void> {
  if (rows.length === 0) return;
  const file = await open(path, 'a+', 0o600);
  try {
    const { size } = await file.stat();
    const last = size === 0 ? null : await file.read(Buffer.alloc(1), 0, 1, size - 1);
    // After a line that was cut off.
    const isCut = last !== null && last.buffer.toString() !== '\n';
    await file.write(
      `${isCut ? '\n' : ''}${rows.map((row) => `${JSON.stringify(row)}\n`).join('')}`,
    );
    await file.sync();
  } finally {
    await file.close();
  }
}

/** The rows from a time on, in the order in which they were written. */
export async function* readJournal(path: string, sinceMs: number): AsyncGenerator<JournalRow> {
  for await (const line of createInterface({ input: createReadStream(path) })) {
    const row = parseLine(line);
    if (row !== null && Date.parse(row.at) > sinceMs - COMMIT_WITHIN_MS) yield row;
  }
}

function parseLine(line: string): JournalRow | null {
  try {
    const { table, at, row } = JSON.parse(line) as Partial<JournalRow>;
    const isKnown = table === 'suppressions' || table === 'idempotency';
    return isKnown && typeof at === 'string' && typeof row === 'object' ? { table, at, row } : null;
  } catch {
    return null;
  }
}

/** Drops what no backup needs: rows before the oldest one. */
export async function shortenJournal(path: string, oldestMs: number): Promise<void> {
  if ((await stat(path).catch(() => null)) === null) return;
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

/** The time of its newest row; null: it has none. */
export async function newestIn(path: string): Promise<number | null> {
  if ((await stat(path).catch(() => null)) === null) return null;
  let newestMs: number | null = null;
  for await (const { at } of readJournal(path, 0))
    newestMs = Math.max(newestMs ?? 0, Date.parse(at));
  return newestMs;
}
