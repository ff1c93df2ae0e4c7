/**
 * The doctor of a running service. Its checks run in a thread (doctor-thread.ts), so that they do not delay the
 * connections that the supervisor grants to workers, and so that a stop ends them at once, with all their connections.
 */
import { hostname } from 'node:os';
import { Worker } from 'node:worker_threads';
import type { Logger } from 'pino';
import type { Config } from '../../config/config.ts';
import { moduleFile } from '../../config/module-file.ts';
import type { OperatorEvents } from '../../core/operator-events.ts';
import { untilAborted } from '../../database/server/watched-session.ts';
import { DoctorWatch } from '../../doctor/reports/doctor-watch.ts';
import type { CheckReport } from '../../doctor/run-checks.ts';
import { systemWorld } from '../machine/system-world.ts';
import type { ServiceDatabase } from '../service-database.ts';
import type { DoctorThreadData, DoctorThreadMessage } from './doctor-thread.ts';

type DoctorContext = {
  database: Pick<ServiceDatabase, 'db' | 'address' | 'instance'>;
  /** The configuration with the ports in use. */
  ports: Config;
  operatorEvents: OperatorEvents;
  log: Logger;
  /** Aborted when the service stops. */
  signal: AbortSignal;
};

const THREAD = moduleFile(new URL('./doctor-thread.ts', import.meta.url));

export function createDoctorWatch(context: DoctorContext): DoctorWatch {
  const { database, ports, signal } = context;
  const { db, address, instance } = database;
  return new DoctorWatch({
    ...context,
    db,
    node: { instance, host: hostname() },
    isDaily: ports.isDoctorDaily,
    examine: (onProgress) => examine({ config: ports, address }, { onProgress, signal }),
    world: systemWorld,
  });
}

async function examine(
  workerData: DoctorThreadData,
  { onProgress, signal }: { onProgress: (ended: number) => void; signal: AbortSignal },
): Promise<readonly CheckReport[]> {
  const { promise, resolve, reject } = Promise.withResolvers<readonly CheckReport[]>();
  const thread = new Worker(THREAD, { workerData });
  thread.on('message', (message: DoctorThreadMessage) => {
    if ('reports' in message) resolve(message.reports);
    else onProgress(message.ended);
  });
  thread.once('error', reject);
  thread.once('exit', (code) => reject(new Error(`the thread of the doctor ended (${code})`)));
  try {
    return await untilAborted(promise, signal);
  } finally {
    await thread.terminate();
  }
}
