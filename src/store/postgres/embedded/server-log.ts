/**
 * The server's log: read when a start failed, kept from growing without end. The server holds the
 * file open and appends, so it is copied and emptied, never renamed.
 */
import {
  closeSync,
  copyFileSync,
  openSync,
  readSync,
  rmSync,
  statSync,
  truncateSync,
} from 'node:fs';

const LOG_BYTES_MAX = 8 * 1024 * 1024;
const REASON_BYTES_MAX = 2_000;

/** Moves the content to `<file>.1` once there are 8 MB of it. */
export function boundLog(file: string): void {
  const { size } = statSync(file, { throwIfNoEntry: false }) ?? { size: 0 };
  if (size <= LOG_BYTES_MAX) return;
  try {
    copyFileSync(file, `${file}.1`);
  } catch {
    rmSync(`${file}.1`, { force: true }); // a full disk: old lines matter less than room
  }
  truncateSync(file);
}

/** What was written from `start` on, shortened: the reason of a failed start. */
export function readFrom(file: string, start: number): string {
  const log = openSync(file, 'r');
  try {
    const bytes = Buffer.alloc(REASON_BYTES_MAX);
    return bytes.toString('utf8', 0, readSync(log, bytes, 0, bytes.length, start)).trim();
  } finally {
    closeSync(log);
  }
}
