/**
 * Remembers for ten minutes which servers answered on outgoing port 25, in a file of the data directory, so that
 * repeated runs of the doctor do not connect to strangers each time. The commands and the running service write it.
 *
 * Only findings that a server's reply caused are remembered. A connection without a reply has troubled nobody, and its
 * cause may have been removed, so the next run tries it again. A lost or unreadable file costs four connections.
 */
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { isObject } from '../../lib/json.ts';
import { MINUTE_MS } from '../../lib/units.ts';
import type { World } from '../../lib/world.ts';
import { type Finding, LEVELS } from '../finding.ts';

const FILE = 'outgoing-port-25.json';
export const REMEMBERED_MS = 10 * MINUTE_MS;
/** Beyond this number, source addresses are forgotten, and the next run tries them again. */
const ENTRIES_MAX = 100;

/** @property localAddress null when the system chooses the address */
export type TriedSource = { localAddress: string | null; port: number };
export type Remembered = TriedSource & { atMs: number; finding: Finding };

type MemoryOptions = { dataDir: string; world: Pick<World, 'now' | 'newId'> };

/** Returns what was tried within ten minutes. */
export function recallTried({ dataDir, world }: MemoryOptions): Remembered[] {
  const nowMs = world.now();
  // A time in the future was written before the clock was set.
  return readEntries(join(dataDir, FILE)).filter(
    ({ atMs }) => atMs <= nowMs && nowMs - atMs < REMEMBERED_MS,
  );
}

/** Does nothing before there is an installation, and where this user may not write. */
export function rememberTried(entries: readonly Remembered[], options: MemoryOptions): void {
  const { dataDir, world } = options;
  if (entries.length === 0 || !existsSync(join(dataDir, 'lock'))) return;
  const others = recallTried(options).filter((old) => !entries.some((one) => isSame(one, old)));
  const tried = [...entries, ...others].slice(0, ENTRIES_MAX);
  const unfinished = join(dataDir, `${FILE}.${world.newId()}`);
  try {
    // `wx` follows no link: the doctor of root writes into a folder of another user.
    writeFileSync(unfinished, `${JSON.stringify({ tried })}\n`, { flag: 'wx' });
    renameSync(unfinished, join(dataDir, FILE));
  } catch {
    rmSync(unfinished, { force: true });
  }
}

export function isSame(one: TriedSource, other: TriedSource): boolean {
  return one.localAddress === other.localAddress && one.port === other.port;
}

function readEntries(path: string): Remembered[] {
  try {
    const { tried } = JSON.parse(readPlainFile(path)) as { tried?: unknown };
    return Array.isArray(tried) ? tried.slice(0, ENTRIES_MAX).filter(isRemembered) : [];
  } catch {
    return [];
  }
}

/** Neither follows a link nor waits for the writer of a pipe. */
function readPlainFile(path: string): string {
  const file = openSync(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    return readFileSync(file, 'utf8');
  } finally {
    closeSync(file);
  }
}

function isRemembered(value: unknown): value is Remembered {
  if (!isObject(value) || !isObject(value['finding'])) return false;
  const { localAddress, port, atMs, finding } = value;
  return (
    isTextOrNull(localAddress) &&
    typeof port === 'number' &&
    typeof atMs === 'number' &&
    typeof finding['found'] === 'string' &&
    LEVELS.some((level) => level === finding['level']) &&
    [finding['subject'], finding['meaning'], finding['remedy'], finding['command']].every(
      isTextOrNull,
    )
  );
}

function isTextOrNull(value: unknown): value is string | null {
  return value === null || typeof value === 'string';
}
