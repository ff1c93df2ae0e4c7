/**
 * The journal beside the backups in a bucket. Objects cannot be appended to, so it has many, each with its time in the
 * key. The last object is rewritten with new rows until it is large enough. After a restart a new object begins.
 */
import type { World } from '../../lib/world.ts';
import type { S3Bucket } from '../../net/s3/bucket.ts';
import { isSince, parseLine } from './folder-journal.ts';
import type { JournalRow } from '../store/journal-rows.ts';
import type { Journal } from './backup-place.ts';

const FOLDER = 'letterhaus.journal/';
/** Size from which a new object begins. It limits the bytes that each write repeats. */
const OBJECT_BYTES = 64 * 1024;
/** Largest assumed difference between this machine's clock and the database's, whose times the rows have. */
const CLOCK_ERROR_MS = 3600_000;

type Options = { prefix: string; world: Pick<World, 'now' | 'newId'> };

export function objectJournal(store: S3Bucket, { prefix, world }: Options): Journal {
  const folder = `${prefix}${FOLDER}`;
  let last: { key: string; text: string } | null = null;

  const listKeys = async (): Promise<string[]> => {
    const keys = (await store.list(folder)).map(({ key }) => key);
    return keys.filter((key) => timeOfKey(key) !== null).toSorted();
  };

  const readRows = async (key: string): Promise<JournalRow[]> => {
    const chunks: Buffer[] = [];
    for await (const chunk of store.read(key)) chunks.push(chunk);
    const lines = Buffer.concat(chunks).toString('utf8').split('\n');
    return lines.map(parseLine).filter((row) => row !== null);
  };

  async function* readSince(sinceMs: number): AsyncGenerator<JournalRow> {
    for (const key of keysNeededSince(await listKeys(), sinceMs)) {
      for (const row of await readRows(key)) if (isSince(row, sinceMs)) yield row;
    }
  }

  return {
    append: async (rows) => {
      if (rows.length === 0) return;
      const text = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
      const isFull = last === null || last.text.length > OBJECT_BYTES;
      const written = isFull
        ? { key: `${folder}${objectName(world.now(), world.newId())}`, text }
        : { key: last!.key, text: last!.text + text };
      await store.put(written.key, Buffer.from(written.text));
      last = written;
    },
    read: readSince,
    newest: async () => {
      const key = (await listKeys()).at(-1);
      const rows = key === undefined ? [] : await readRows(key);
      return rows.length === 0 ? null : Math.max(...rows.map(({ at }) => Date.parse(at)));
    },
    shorten: async (oldestMs) => {
      const keys = await listKeys();
      const needed = new Set(keysNeededSince(keys, oldestMs));
      for (const key of keys) if (!needed.has(key)) await store.remove(key);
    },
  };
}

/** Returns `20261125T090000123Z-0193f2a4-….jsonl`. */
function objectName(nowMs: number, id: string): string {
  return `${new Date(nowMs).toISOString().replaceAll(/[-:.]/g, '')}-${id}.jsonl`;
}

function timeOfKey(key: string): number | null {
  const [, ...parts] =
    /(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)\d{3}Z-[\w-]+\.jsonl$/.exec(key) ?? [];
  const [year, month, day, hour, minute, second] = parts;
  const ms = Date.parse(`${year}-${month}-${day}T${hour}:${minute}:${second}Z`);
  return Number.isNaN(ms) ? null : ms;
}

/** Drops objects whose successor began before that time: all their rows are older. */
function keysNeededSince(keys: readonly string[], sinceMs: number): string[] {
  return keys.filter((_, index) => {
    const nextMs = timeOfKey(keys[index + 1] ?? '');
    return nextMs === null || nextMs > sinceMs - CLOCK_ERROR_MS;
  });
}
