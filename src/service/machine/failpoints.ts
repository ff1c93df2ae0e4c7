/**
 * Arms the failpoints that LETTERHAUS_FAILPOINTS names, for tests only. The supervisor arms all of its own. Each worker
 * that starts arms the next of the others, so the successor of a killed worker is not killed by the same one.
 */
import { writeSync } from 'node:fs';
import { type ArmedFailpoint, armFailpoints, isSupervisorFailpoint } from '../../lib/failpoint.ts';

const DELAY_MS = 3_000;
/** Covers four attempts to write an outcome. A later attempt may write less (settle/unsettled.ts). */
const SQL_FAILS_FOR_MS = 5_000;

let forWorkers: ArmedFailpoint[] = [];

export function armSupervisor(armed: readonly ArmedFailpoint[]): void {
  forWorkers = armed.filter((one) => !isSupervisorFailpoint(one));
  armFailpoints(armed.filter(isSupervisorFailpoint), act);
}

export function nextWorkerFailpoint(): ArmedFailpoint | null {
  return forWorkers.shift() ?? null;
}

export function armWorker(armed: ArmedFailpoint | null): void {
  if (armed !== null) armFailpoints([armed], act);
}

const lastsUntilMs = new Map<ArmedFailpoint, number>();

function act(armed: ArmedFailpoint): void {
  const { name, action, hit } = armed;
  const untilMs = lastsUntilMs.get(armed);
  if (untilMs !== undefined) {
    if (performance.now() < untilMs) failAsSql(action);
    return;
  }
  // Does not use the log, whose stream is not flushed when the process is killed.
  writeSync(2, `${JSON.stringify({ failpoint: name, action, hit, pid: process.pid })}\n`);
  switch (action) {
    case 'kill':
      process.kill(process.pid, 'SIGKILL');
      break;
    case 'freeze':
      process.kill(process.pid, 'SIGSTOP');
      break;
    case 'delay':
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, DELAY_MS);
      break;
    case 'throw':
      throw new Error(`failpoint ${name}`);
    case 'sql_42703':
    case 'sql_23514':
    case 'sql_xx000':
      lastsUntilMs.set(armed, performance.now() + SQL_FAILS_FOR_MS);
      failAsSql(action);
  }
}

function failAsSql(action: string): never {
  const code = action.slice('sql_'.length).toUpperCase();
  throw Object.assign(new Error(`failpoint ${action}`), { code });
}
