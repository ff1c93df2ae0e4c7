/** The contract between `posthorn start` and the supervisor (src/service/supervisor.ts keeps it). */
import type { Seeded } from '../service/first-start.ts';
import type { Failure } from './command.ts';

export const PARTS = ['api', 'delivery', 'webhooks', 'inbound'] as const;
export type Part = (typeof PARTS)[number];

export type ReadyInfo = {
  /** Where the API answers, without a final slash. */
  url: string;
  pid: number;
  dataDir: string;
  /** Where metrics are without a token; null: nowhere. */
  metricsUrl: string | null;
  /** Where mail comes in; null and none: it does not. */
  inboundPort: number | null;
  submissionPorts: readonly number[];
  /** Where the database is, without a password. */
  database: string;
  /** What was made when the database was empty; the key in it is shown here and never again. */
  firstStart: Seeded | null;
};

export type RunOptions = {
  /** null: one per core. */
  workers: number | null;
  /** null: all. */
  only: readonly Part[] | null;
  onReady(info: ReadyInfo): void;
  /** Why it cannot start, or had to end. */
  onFailed(failure: Failure): void;
};
