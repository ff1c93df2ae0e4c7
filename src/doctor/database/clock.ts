/**
 * Checks the clock of this machine, because signatures, ids and codes of authenticator apps contain its time. Compares
 * it with the clock of the database, which is the same one when both are on one machine, and with the header `Date` of
 * web servers of large receivers. Asks the system whether NTP sets the clock.
 */
import { execFile } from 'node:child_process';
import { request } from 'node:https';
import { promisify } from 'node:util';
import { CLOCK_SKEW } from '../../core/thresholds.ts';
import { readClockMs } from '../../delivery/queue/worker-store.ts';
import { leastSkewMs } from '../../lib/world.ts';
import type { CheckContext } from '../check-context.ts';
import { type Finding, green, red, unknown, yellow } from '../finding.ts';
import type { Check } from '../run-checks.ts';

const RESPONSE_WITHIN_MS = 8_000;
const TIMEDATECTL_WITHIN_MS = 3_000;
const REMEDY = 'Let NTP set the clocks: systemd-timesyncd or chrony.';

export const CLOCK: Check = {
  id: 'clock',
  title: 'Clock',
  async run(context) {
    const findings = [compareWithDatabase, compareWithHosts, checkSynchronization];
    return Promise.all(findings.map((find) => find(context)));
  },
};

async function compareWithDatabase({ database, world }: CheckContext): Promise<Finding> {
  if (database.kind !== 'open') {
    return unknown(`The clock cannot be compared with that of the database: ${database.reason}`);
  }
  const begunMs = world.now();
  const databaseMs = await readClockMs(database.db);
  if (databaseMs === null) return unknown('The database did not return its time.');
  const skewMs = leastSkewMs({ begunMs, otherMs: databaseMs, endedMs: world.now() });
  return judgeSkew(skewMs, 'the database');
}

/** Asks for policies that a delivery to these receivers asks for, too. */
async function compareWithHosts(context: CheckContext): Promise<Finding> {
  const { timeHosts } = context.machine;
  const read = await Promise.all(timeHosts.map((host) => readSkew(context, host)));
  const skews = read
    .filter((skew) => skew !== null)
    .toSorted((a, b) => Math.abs(a.skewMs) - Math.abs(b.skewMs));
  // The second of three counts, because the clock of one host may be wrong.
  const skew = skews[Math.floor((skews.length - 1) / 2)];
  if (skew !== undefined) return judgeSkew(skew.skewMs, skew.host);
  return unknown(`No web server answered with its time (${timeHosts.join(', ')}).`, {
    remedy: 'Compare the clock with that of another machine.',
    command: 'date -u',
  });
}

async function readSkew(
  { config, resolver, world }: CheckContext,
  host: string,
): Promise<{ host: string; skewMs: number } | null> {
  const addresses = await resolver.a(host);
  const address = addresses.kind === 'records' ? addresses.records[0] : undefined;
  if (address === undefined) return null;
  const begunMs = world.now();
  const date = await readDate({ host, address, port: config.mtaStsPort });
  const otherMs = Date.parse(date ?? '');
  if (Number.isNaN(otherMs)) return null;
  return { host, skewMs: leastSkewMs({ begunMs, otherMs, endedMs: world.now() }) };
}

type TimeServer = { host: string; address: string; port: number };

/** Returns the header `Date` of a server with a valid certificate, or null when it did not respond. Never rejects. */
function readDate({ host, address, port }: TimeServer): Promise<string | null> {
  return new Promise((resolve) => {
    const sent = request({
      host: address,
      port,
      servername: host,
      headers: { host },
      method: 'HEAD',
      path: '/.well-known/mta-sts.txt',
      agent: false,
      signal: AbortSignal.timeout(RESPONSE_WITHIN_MS),
    });
    sent.once('error', () => resolve(null));
    sent.once('response', (response) => {
      response.resume();
      resolve(response.headers.date ?? null);
    });
    sent.end();
  });
}

function judgeSkew(skewMs: number, other: string): Finding {
  const seconds = Math.round(Math.abs(skewMs) / 1_000);
  if (Math.abs(skewMs) < CLOCK_SKEW.soonMs) {
    return green(`The clocks of this machine and of ${other} agree within a minute.`);
  }
  const direction = skewMs > 0 ? 'ahead of' : 'behind';
  const report = Math.abs(skewMs) < CLOCK_SKEW.urgentMs ? yellow : red;
  return report(`The clock of this machine is ${seconds} s ${direction} that of ${other}.`, {
    meaning:
      'Receivers reject signatures with a time in the future, and from an hour on no mail is accepted.',
    remedy: REMEDY,
    command: 'timedatectl',
  });
}

async function checkSynchronization({ machine }: CheckContext): Promise<Finding> {
  const state = await machine.readClockState();
  if (state === 'yes') return green('NTP sets the clock of this machine.');
  if (state !== 'no') {
    return unknown('This system does not show whether NTP sets its clock.', {
      remedy: 'Check that chrony or another program sets it.',
      command: 'chronyc tracking',
    });
  }
  return yellow('No program sets the clock of this machine.', {
    meaning: 'It will drift, and receivers reject signatures with a wrong time.',
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
