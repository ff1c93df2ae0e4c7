/**
 * The clock of this machine. Signatures, ids and codes of authenticator apps contain its time. The database has a clock
 * of its own only on another machine, so here the doctor also asks whether the system keeps the clock by NTP.
 */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { readClockMs } from '../../delivery/queue/worker-store.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const SKEW_WRONG_MS = 60_000;
const SKEW_URGENT_MS = 300_000;
const TIMEDATECTL_WITHIN_MS = 3_000;
const REMEDY = 'Let NTP set the clocks: systemd-timesyncd or chrony.';

export const CLOCK: Check = {
  id: 'clock',
  title: 'Clock',
  async run(context) {
    return [...(await compareWithDatabase(context)), await checkSynchronization(context)];
  },
};

async function compareWithDatabase({ database, world }: CheckContext): Promise<Finding[]> {
  if (database.kind !== 'open') {
    return [unknown(`The clock cannot be compared with that of the database: ${database.reason}`)];
  }
  const startedMs = world.now();
  const databaseMs = await readClockMs(database.db);
  const endedMs = world.now();
  if (databaseMs === null) return [];
  // The database read its clock at some time between, so only the rest is a difference.
  const skewMs = Math.max(0, startedMs - databaseMs) - Math.max(0, databaseMs - endedMs);
  const seconds = Math.round(Math.abs(skewMs) / 1_000);
  if (Math.abs(skewMs) < SKEW_WRONG_MS) {
    return [green('The clocks of this machine and of the database agree within a minute.')];
  }
  const direction = skewMs > 0 ? 'ahead of' : 'behind';
  const report = Math.abs(skewMs) < SKEW_URGENT_MS ? yellow : red;
  return [
    report(`The clock of this machine is ${seconds} s ${direction} that of the database.`, {
      meaning:
        'Receivers reject signatures with a time in the future, and from an hour on no mail is accepted.',
      remedy: `${REMEDY} Check both machines.`,
      command: 'timedatectl',
    }),
  ];
}

async function checkSynchronization({ machine }: CheckContext): Promise<Finding> {
  const state = await machine.readClockState();
  if (state === 'yes') return green('NTP keeps the clock of this machine.');
  if (state !== 'no') {
    return unknown('This system does not show whether NTP keeps its clock.', {
      remedy: 'Check that chrony or another program sets it.',
      command: 'chronyc tracking',
    });
  }
  return yellow('Nothing keeps the clock of this machine.', {
    meaning: 'It will go wrong, and receivers reject signatures with a wrong time.',
    remedy: REMEDY,
    command: 'timedatectl set-ntp true',
  });
}

/** Returns the answer of systemd; null where there is none. */
export async function readClockState(): Promise<'yes' | 'no' | null> {
  const args = ['show', '--property=NTPSynchronized', '--value'];
  const options = { timeout: TIMEDATECTL_WITHIN_MS };
  const answer = await promisify(execFile)('timedatectl', args, options).then(
    ({ stdout }) => stdout.trim(),
    () => '',
  );
  return answer === 'yes' || answer === 'no' ? answer : null;
}
