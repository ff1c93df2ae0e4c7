/** Measures the time from the command to the ready line. */
import { startService } from '../test/support/service.ts';
import { machineMs } from './parts/machine-clock.ts';

export type Startup = { firstMs: number; laterMs: number };

/** Starts the service with an empty data directory, stops it, and starts it again with the existing one. */
export async function startTwice({ workers }: { workers: number }): Promise<Startup> {
  const startedMs = machineMs();
  await using service = await startService({
    database: 'own',
    args: ['--workers', String(workers)],
    env: { LETTERHAUS_LOG: 'warn' },
  });
  const firstMs = machineMs() - startedMs;
  await service.stop();
  const againMs = machineMs();
  await service.restart();
  return { firstMs, laterMs: machineMs() - againMs };
}
