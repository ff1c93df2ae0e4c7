/**
 * Measures the memory of a worker: idle, with many emails that it accepted and cannot deliver, and with many in the
 * queue table.
 */
import { fillMail } from '../test/support/fill.ts';
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { cpuOf, memoryOf, workersOf } from './parts/processes.ts';
import { DOMAINS, Rig } from './parts/rig.ts';

export type Memory = {
  /** Megabytes of the largest worker. */
  idleMb: number;
  queuedMb: number;
  peakMb: number;
};

/** Time for a worker to become idle before it is measured. */
const CALM_MS = 3_000;

/** Measures a worker whose accepted emails stay queued, because no mail server ever replies. */
export async function memoryWithQueued(
  count: number,
  { workers }: { workers: number },
): Promise<Memory | null> {
  await using tarpit = await startTarpit();
  await using rig = await Rig.start({ workers, mxPort: tarpit.port });
  await delay(CALM_MS);
  const idle = largestWorker(rig);
  await rig.post({ count, htmlBytes: 2_048, connections: 128, domains: DOMAINS, pauseMs: 0 });
  await delay(CALM_MS);
  const queued = largestWorker(rig);
  const open = await rig.open();
  if (open !== count) throw new Error(`${count} emails got a 202, ${open} are queued`);
  if (idle === null || queued === null) return null;
  return { idleMb: idle.nowMb, queuedMb: queued.nowMb, peakMb: queued.peakMb };
}

export type Waiting = {
  /** Megabytes of the largest worker. */
  nowMb: number;
  peakMb: number;
};

/** Time for claims and for the removal of their dead rows. */
const MILLION_CALM_MS = 30_000;
const NO_ID = '00000000-0000-0000-0000-000000000000';

/** Measures a worker when the table has this many recipients, all due, and no mail server replies. */
export async function memoryWithWaiting(
  count: number,
  { workers }: { workers: number },
): Promise<Waiting | null> {
  await using tarpit = await startTarpit();
  await using rig = await Rig.start({ workers, mxPort: tarpit.port });
  const [domain] = await rig.service.sql(
    `select project_id as "projectId", id as "domainId" from domains where environment = 'live'`,
  );
  await fillMail(rig.service.address(), {
    sender: { ...domain, environment: 'live', keyId: NO_ID },
    count,
    open: count,
    weeks: 0.5,
    endpointId: NO_ID,
    deadEndpointId: NO_ID,
    htmlBytes: 2_048,
    anew: false,
  });
  await delay(MILLION_CALM_MS);
  return largestWorker(rig);
}

/**
 * Returns the CPU time of an idle service in percent of one core, with all its processes and the database; null where
 * /proc is not available.
 */
export async function idleCpu(
  seconds: number,
  { workers }: { workers: number },
): Promise<number | null> {
  await using rig = await Rig.start({ workers, mxPort: 9 });
  await delay(CALM_MS * 3);
  const sum = (): number | null => {
    const parts = cpuOf({ supervisor: rig.pid });
    return parts && Object.values(parts).reduce((total, ms) => total + ms, 0);
  };
  const before = sum();
  await delay(seconds * 1000);
  const after = sum();
  return before === null || after === null ? null : (after - before) / (seconds * 10);
}

function largestWorker(rig: Rig): { nowMb: number; peakMb: number } | null {
  const each = workersOf(rig.pid).map(memoryOf);
  const known = each.filter((one) => one !== null);
  if (known.length === 0) return null;
  return {
    nowMb: Math.max(...known.map((one) => one.nowMb)),
    peakMb: Math.max(...known.map((one) => one.peakMb)),
  };
}

async function startTarpit(): Promise<AsyncDisposable & { port: number }> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => {}).on('close', () => sockets.delete(socket)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
