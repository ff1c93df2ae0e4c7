/**
 * Measures messages per second: Letterhaus accepting, Letterhaus end to end, and Postfix with OpenDKIM. Each function
 * runs one round. measure.ts and end-to-end.ts run the rounds in turn, so that other load affects all of them.
 */
import { setTimeout as delay } from 'node:timers/promises';
import { runLoad, type Sink } from './parts/children.ts';
import type { HttpLoadResult } from './http-load.ts';
import { machineMs } from './parts/machine-clock.ts';
import type { Postfix } from './parts/postfix.ts';
import {
  type CpuByPart,
  machineCpuMs,
  type ProcessUse,
  type Roots,
  type Use,
  usesOf,
} from './parts/processes.ts';
import { DOMAINS, type Rig } from './parts/rig.ts';
import type { SmtpLoadResult } from './smtp-load.ts';

export type RateOptions = {
  count: number;
  htmlBytes: number;
  /** Domains of the recipients, used in turn. Default: ten domains. */
  domains?: readonly string[];
  /** Domain of the sender. Default: the domain with one signature. */
  sender?: string;
  /** Concurrent connections. Default: HTTP_CONNECTIONS, or BATCH_CONNECTIONS with a batch. */
  connections?: number;
  /** Emails in one request. Default: one email, sent without a batch. */
  batch?: number;
};

export type Rate = {
  perSecond: number;
  /** CPU figures; null where /proc is not available. */
  cpu: Cpu | null;
  /** Average bytes of a message on the wire; null when nothing was sent. */
  messageBytes: number | null;
};

export type Cpu = {
  /** Microseconds of CPU per message, by part. */
  byPartUs: CpuByPart;
  /** Cores that other programs used in this time. They make the figures worse. */
  othersCores: number;
  processes: readonly ProcessCost[];
};

/** CPU time and context switches per message of one process, or of all processes with the same name. */
export type ProcessCost = { name: string; cpuUs: number; voluntary: number; involuntary: number };

/** Connections that fill the group commits of two workers. With 64, an email costs a tenth more CPU. */
const HTTP_CONNECTIONS = 128;
/** Connections when each request has a batch of emails. */
const BATCH_CONNECTIONS = 8;
/** Sessions of the load on Postfix. More make it slower on two cores (tried: 10, 20, 40). */
const SMTP_CONNECTIONS = 20;
/** Time without progress after which the measurement fails. */
const STUCK_MS = 30_000;
const CHECK_EVERY_MS = 10;

/** Measures from the first request to the last 202. The service runs with `--only api`. */
export async function acceptRound(rig: Rig, load: RateOptions): Promise<Rate> {
  const { count } = load;
  const cpu = startCpu({ supervisor: rig.pid });
  const openBefore = await rig.open();
  const posted = await postAll(rig, load);
  const opened = (await rig.open()) - openBefore;
  if (opened !== count) throw new Error(`${count} emails got a 202, ${opened} were queued`);
  return {
    perSecond: perSecond(count, posted.endedMs - posted.startedMs),
    cpu: cpu(posted.use, count),
    messageBytes: null,
  };
}

/** Measures from the first message to the last 250 over SMTP. The sessions are open and logged in before the start. */
export async function submissionRound(rig: Rig, { count, htmlBytes }: RateOptions): Promise<Rate> {
  const cpu = startCpu({ supervisor: rig.pid });
  const openBefore = await rig.open();
  const submitted = await rig.submit({
    count,
    htmlBytes,
    textBytes: textBytesBeside(htmlBytes),
    domains: DOMAINS,
    connections: HTTP_CONNECTIONS,
  });
  const opened = (await rig.open()) - openBefore;
  if (opened !== count) throw new Error(`${count} emails got a 250, ${opened} were queued`);
  return {
    perSecond: perSecond(count, submitted.endedMs - submitted.startedMs),
    cpu: cpu(submitted.use, count),
    messageBytes: null,
  };
}

/** Measures from the first request until every recipient has ended. Throws unless all were delivered. */
export async function endToEndRound(
  { rig, sink }: { rig: Rig; sink: Sink },
  load: RateOptions,
): Promise<Rate> {
  const { count } = load;
  const before = await sink.totals();
  const cpu = startCpu({ supervisor: rig.pid, sink: sink.pid });
  const posted = await postAll(rig, load);
  await arrived(sink, before.messages + count);
  while ((await rig.open()) > 0) await delay(CHECK_EVERY_MS);
  const settledMs = machineMs();
  const spent = cpu(posted.use, count);
  const after = await sink.totals();
  await requireDelivered(rig, after.messages - before.messages - count);
  return {
    perSecond: perSecond(count, settledMs - posted.startedMs),
    cpu: spent,
    messageBytes: (after.bytes - before.bytes) / count,
  };
}

/** Measures from the first injected message until the sink has received the last one. */
export async function postfixRound(
  { postfix, sink }: { postfix: Postfix; sink: Sink },
  { count, htmlBytes }: RateOptions,
): Promise<Rate> {
  const before = await sink.totals();
  const cpu = startCpu({ ...postfix.pids, sink: sink.pid });
  const load = { port: postfix.port, count, htmlBytes, connections: SMTP_CONNECTIONS };
  const injected = await runLoad<SmtpLoadResult>('smtp-load.ts', {
    ...load,
    textBytes: textBytesBeside(htmlBytes),
    domains: DOMAINS,
  });
  const lastMs = await arrived(sink, before.messages + count);
  const after = await sink.totals();
  return {
    perSecond: perSecond(count, lastMs - injected.startedMs),
    cpu: cpu(injected.use, count),
    messageBytes: (after.bytes - before.bytes) / count,
  };
}

/** Returns the size of a text part that makes a message about as long as Letterhaus's message with the same html. */
function textBytesBeside(htmlBytes: number): number {
  return 540 + htmlBytes * 0.45;
}

function postAll(rig: Rig, load: RateOptions): Promise<HttpLoadResult> {
  const connections = load.batch === undefined ? HTTP_CONNECTIONS : BATCH_CONNECTIONS;
  return rig.post({ domains: DOMAINS, connections, ...load, pauseMs: 0 });
}

/** @returns the time at which the last message arrived */
async function arrived(sink: Sink, messages: number): Promise<number> {
  const reached = sink.reached(messages);
  let seen = -1;
  for (;;) {
    const atMs = await Promise.race([reached, delay(STUCK_MS, null, { ref: false })]);
    if (atMs !== null) return atMs;
    const now = (await sink.totals()).messages;
    if (now === seen) throw new Error(`${messages - now} messages did not arrive at the sink`);
    seen = now;
  }
}

async function requireDelivered(rig: Rig, surplus: number): Promise<void> {
  const rows = await rig.service.sql(
    `select status, count(*)::int from recipients where status <> 'delivered' group by status`,
  );
  if (rows.length > 0) throw new Error(`not all were delivered: ${JSON.stringify(rows)}`);
  if (surplus !== 0) throw new Error(`${surplus} messages more than accepted arrived at the sink`);
}

export function perSeconds(rates: readonly Rate[]): number[] {
  return rates.map((rate) => rate.perSecond);
}

export function perSecond(count: number, durationMs: number): number {
  return (count / durationMs) * 1000;
}

/** @param load CPU use that the load generator reports about itself; null: no load generator ran */
type EndOfCpu = (load: Use | null, count: number) => Cpu | null;

/** @returns a function that returns the CPU time since this call */
export function startCpu(roots: Roots): EndOfCpu {
  const before = { uses: usesOf(roots), machine: machineCpuMs(), atMs: machineMs() };
  return (load, count) => {
    const [after, machine, tookMs] = [usesOf(roots), machineCpuMs(), machineMs() - before.atMs];
    if (before.uses === null || after === null) return null;
    const ofLoad = load === null ? [] : [{ pid: 0, part: 'load', name: 'load', ...load }];
    const spent = [...ofLoad, ...usedSince(before.uses, after)];
    const oursMs = spent.reduce((sum, { cpuMs }) => sum + cpuMs, 0);
    const byPartUs: CpuByPart = {};
    for (const { part, cpuMs } of spent) {
      byPartUs[part] = (byPartUs[part] ?? 0) + (cpuMs * 1000) / count;
    }
    return {
      byPartUs,
      othersCores: Math.max(0, (machine ?? 0) - (before.machine ?? 0) - oursMs) / tookMs,
      processes: costsOf(spent, count),
    };
  };
}

/**
 * Returns the use of each process between two readings. A process that ended is missing; its parent has its CPU time.
 */
function usedSince(before: readonly ProcessUse[], after: readonly ProcessUse[]): ProcessUse[] {
  const earlier = new Map(before.map((one) => [one.pid, one]));
  return after.map((one) => {
    const { cpuMs = 0, voluntary = 0, involuntary = 0 } = earlier.get(one.pid) ?? {};
    return {
      ...one,
      cpuMs: one.cpuMs - cpuMs,
      voluntary: one.voluntary - voluntary,
      involuntary: one.involuntary - involuntary,
    };
  });
}

/** Adds up processes with the same name, in the order of their first appearance. */
export function costsOf(uses: readonly ProcessUse[], count: number): ProcessCost[] {
  return [...Map.groupBy(uses, ({ name }) => name)].map(([name, each]) => {
    const perMessage = (of: (use: Use) => number): number =>
      each.reduce((sum, use) => sum + of(use), 0) / count;
    return {
      name,
      cpuUs: perMessage(({ cpuMs }) => cpuMs * 1000),
      voluntary: perMessage(({ voluntary }) => voluntary),
      involuntary: perMessage(({ involuntary }) => involuntary),
    };
  });
}
