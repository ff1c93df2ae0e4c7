/** The thread in which the service runs the checks of the doctor. doctor-task.ts starts it, and ends it. */
import { parentPort, workerData } from 'node:worker_threads';
import type { Config } from '../../config/config.ts';
import type { DatabaseAddress } from '../../database/database.ts';
import { CHECKS } from '../../doctor/checks.ts';
import { type CheckReport, runChecks } from '../../doctor/run-checks.ts';
import { withCheckContext, withCheckedDatabase } from '../machine/doctor-context.ts';
import { systemWorld } from '../machine/system-world.ts';

/** @property config with the ports in use. Its variables were right at the start. */
export type DoctorThreadData = { config: Config; address: DatabaseAddress };
export type DoctorThreadMessage = { ended: number } | { reports: readonly CheckReport[] };

// oxlint-disable-next-line unicorn/require-post-message-target-origin -- no window
const send = (message: DoctorThreadMessage): void => parentPort!.postMessage(message);

async function examine({ config, address }: DoctorThreadData): Promise<readonly CheckReport[]> {
  // The service decides when a run is due (doctor/reports/doctor-watch.ts).
  const parts = { config, configProblems: [], domain: null, isFresh: true, world: systemWorld };
  let ended = 0;
  const onEnd = (): void => send({ ended: ++ended });
  return withCheckedDatabase(address, (database) =>
    withCheckContext({ ...parts, database }, (context) => runChecks(CHECKS, context, { onEnd })),
  );
}

send({ reports: await examine(workerData as DoctorThreadData) });
