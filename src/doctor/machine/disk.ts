/** Checks the disk of the data directory: free space, room for files, and the time of a durable write. */
import { mkdtemp, open, rm, stat } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DISK_FREE } from '../../core/thresholds.ts';
import { MIB } from '../../lib/units.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const FREE_FILES_MIN = 10_000;
const WRITES = 20;
const WRITE_BYTES = 4_096;
const SLOW_WRITE_MS = 20;

export const DISK_SPACE: Check = {
  id: 'disk_space',
  title: 'Free disk space',
  async run({ config: { dataDir }, machine }) {
    const folder = await existingFolder(dataDir);
    const { freeBytes, files, freeFiles } = await machine.readDisk(folder);
    const findings = [judgeSpace(folder, freeBytes)];
    if (files === 0 || freeFiles >= FREE_FILES_MIN) return findings;
    return [
      ...findings,
      yellow(`The file system of ${folder} has room for only ${freeFiles} more files.`, {
        subject: folder,
        meaning: 'Without room for files the database stops.',
        remedy: 'Remove files that are not needed, or use a larger file system.',
        command: `df -i ${folder}`,
      }),
    ];
  },
};

function judgeSpace(folder: string, freeBytes: number): Finding {
  const found = `${Math.floor(freeBytes / MIB)} MB are free in ${folder}.`;
  const remedy =
    'Free disk space, or move the data directory to a larger disk (LETTERHAUS_DATA_DIR).';
  const problem = { subject: folder, remedy, command: `df -h ${folder}` };
  if (freeBytes < DISK_FREE.urgentBytes) {
    const meaning =
      freeBytes < DISK_FREE.refusedBytes
        ? 'The service accepts no mail while the disk is full.'
        : 'The service stops accepting mail when less than 1 GiB is free.';
    return red(found, { ...problem, meaning });
  }
  if (freeBytes < DISK_FREE.soonBytes) {
    return yellow(found, { ...problem, meaning: 'The disk may soon be full.' });
  }
  return green(found, folder);
}

export const DURABLE_WRITES: Check = {
  id: 'durable_writes',
  title: 'Time of a durable write',
  async run({ config: { dataDir }, world }) {
    const parent = await existingFolder(dataDir);
    let folder: string;
    try {
      folder = await mkdtemp(join(parent, '.doctor-'));
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      const remedy = 'Run the doctor as the user of the service, or as root.';
      return [unknown(`${parent} cannot be written to (${code}).`, { subject: parent, remedy })];
    }
    try {
      return [judgeWrites(parent, await timeWrites(join(folder, 'write'), world))];
    } finally {
      await rm(folder, { recursive: true, force: true });
    }
  },
};

/** Returns the milliseconds of each write, the shortest first. */
async function timeWrites(file: string, world: CheckContext['world']): Promise<number[]> {
  await using handle = await open(file, 'w', 0o600);
  const block = Buffer.alloc(WRITE_BYTES);
  const times: number[] = [];
  for (let count = 0; count < WRITES; count++) {
    const startedMs = world.monotonicMs();
    await handle.write(block);
    await handle.datasync();
    times.push(world.monotonicMs() - startedMs);
  }
  return times.toSorted((a, b) => a - b);
}

/** The median: the other checks run at the same time, and disturb single writes. */
function judgeWrites(folder: string, sortedMs: readonly number[]): Finding {
  const medianMs = sortedMs[Math.floor(sortedMs.length / 2)] ?? 0;
  const found = `A durable write in ${folder} takes ${medianMs.toFixed(1)} ms.`;
  if (medianMs <= SLOW_WRITE_MS) return green(found, folder);
  return yellow(found, {
    subject: folder,
    meaning: `Each commit waits for one, so about ${Math.max(1, Math.round(1_000 / medianMs))} commits a second are possible. One commit can store many emails.`,
    remedy: 'Use a faster disk, for example an SSD with protection against power loss.',
  });
}

/** Returns the folder, or the nearest existing one above it: there is none before the first start. */
async function existingFolder(path: string): Promise<string> {
  const isFolder = await stat(path).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
  return isFolder || path === dirname(path) ? path : existingFolder(dirname(path));
}
