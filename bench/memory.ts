/** What a worker takes in memory: with nothing to do, and with a queue that does not get shorter. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { memoryOf, workersOf } from './parts/processes.ts';
import { DOMAINS, Rig } from './parts/rig.ts';

export type Memory = {
  /** Megabytes of the largest worker. */
  idleMb: number;
  queuedMb: number;
  peakMb: number;
};

/** For a worker to calm down before it is looked at. */
const CALM_MS = 3_000;

/** Every mail server accepts connections and says nothing: all that is accepted stays queued. */
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

function largestWorker(rig: Rig): { nowMb: number; peakMb: number } | null {
  const each = workersOf(rig.service.pid).map(memoryOf);
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
