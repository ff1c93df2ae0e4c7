/** Describes the machine that produced the figures. */
import { availableParallelism, cpus, loadavg, release, totalmem, type } from 'node:os';
import { DEFAULT_SEARCH, findEngine } from '../src/database/embedded/binaries.ts';

export type Machine = {
  cpus: string;
  memoryGb: number;
  kernel: string;
  node: string;
  postgres: string;
  /** Load average over the minute before the first measurement. Other load makes the figures worse. */
  load: number;
};

export function describeMachine(): Machine {
  return {
    cpus: `${availableParallelism()} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
    memoryGb: Math.round(totalmem() / 1e9),
    kernel: `${type()} ${release()}`,
    node: process.version,
    postgres: findEngine(DEFAULT_SEARCH, null).version,
    load: loadNow(),
  };
}

export function loadNow(): number {
  return Math.round((loadavg()[0] ?? 0) * 100) / 100;
}
