/**
 * The entry of the service: forks the workers, then loads the supervisor (supervisor.ts).
 *
 * Workers load twice as much code as the supervisor, so a start takes as long as theirs. Therefore this file imports
 * only what forking needs (test/journey/loaded.test.ts), and the supervisor loads at the same time as they do. On the
 * first start of a data directory, the supervisor first has to measure how they compute signatures.
 */
import { availableParallelism } from 'node:os';
import type { Config } from '../config/config.ts';
import { createLog, logUncaught } from './machine/log.ts';
import { findOpensslTuning } from './machine/openssl-tuning.ts';
import { WorkerPool } from './pool/worker-pool.ts';
import type { RunOptions } from './supervisor.ts';

type ServiceOptions = Omit<RunOptions, 'log' | 'workers'> & {
  /** Number of workers, or null for one per core. */
  workers: number | null;
};

/** Runs until a stop is requested. @returns the exit code */
export async function runService(config: Config, options: ServiceOptions): Promise<number> {
  logUncaught();
  const log = createLog({ level: config.logLevel, forPeople: process.stderr.isTTY });
  const workers = options.workers ?? availableParallelism();
  const env = findOpensslTuning(config.dataDir);
  const pool = env === null ? null : new WorkerPool({ count: workers, log, env });
  const { supervise } = await import('./supervisor.ts');
  return supervise(config, { ...options, workers, log }, pool);
}
