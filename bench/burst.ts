/**
 * Measures response times of accepting: at half of the machine's end-to-end rate, and for ten thousand simultaneous
 * requests, each on its own connection.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { Sink } from './parts/children.ts';
import { machineMs } from './parts/machine-clock.ts';
import { DOMAINS, Rig } from './parts/rig.ts';
import { endToEndRound } from './rates.ts';
import type { Line } from './report.ts';

export type BurstOptions = { workers: number; count: number };

const HTML_BYTES = 2_048;
const PACED_S = 10;
const PACED_CONNECTIONS = 512;
const CHECK_EVERY_MS = 20;

/** @throws when a response is not a 202, or an email does not arrive */
export async function measureBurst(
  { workers, count }: BurstOptions,
  say: (line: string) => void,
): Promise<Line[]> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers, mxPort: sink.port });
  const load = { count, htmlBytes: HTML_BYTES };
  await endToEndRound({ rig, sink }, load); // warms up
  const { perSecond } = await endToEndRound({ rig, sink }, load);
  const half = perSecond / 2;
  const latencies = await acceptAt(rig, half);
  await drained(rig);
  const acceptS = await burst(rig, count);
  const drainS = await drained(rig);
  say(`  ${Math.round(half)}/s for ${PACED_S} s, then ${count} at once`);
  const at = `accept at ${Math.round(half)}/s, half of the maximum`;
  const many = count.toLocaleString('en-US');
  return [
    { what: `${at}, median`, unit: 'ms', wanted: '', values: latencies },
    { what: `${at}, p99`, unit: 'ms', wanted: '< 25', values: latencies, share: 0.99 },
    { what: `${many} at once, all accepted`, unit: 's', wanted: '', values: [acceptS] },
    { what: `${many} at once, all delivered`, unit: 's', wanted: '', values: [acceptS + drainS] },
  ];
}

async function acceptAt(rig: Rig, perSecond: number): Promise<number[]> {
  const { latenciesMs } = await rig.post({
    count: Math.ceil(perSecond * PACED_S),
    htmlBytes: HTML_BYTES,
    connections: PACED_CONNECTIONS,
    domains: DOMAINS,
    pauseMs: 0,
    perSecond,
  });
  return latenciesMs;
}

/** @returns seconds from the first request to the last 202 */
async function burst(rig: Rig, count: number): Promise<number> {
  const load = { count, htmlBytes: HTML_BYTES, connections: count, domains: DOMAINS, pauseMs: 0 };
  const { startedMs, endedMs } = await rig.post(load);
  return (endedMs - startedMs) / 1000;
}

/** @returns seconds until all recipients have ended */
async function drained(rig: Rig): Promise<number> {
  const startedMs = machineMs();
  while ((await rig.open()) > 0) await delay(CHECK_EVERY_MS);
  return (machineMs() - startedMs) / 1000;
}
