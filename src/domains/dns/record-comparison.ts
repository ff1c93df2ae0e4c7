/** What a check says about one record of a sending domain. */
import type { RecordStatus } from './records.ts';

/** The result of comparing a required record with the records in DNS. */
export type RecordComparison = {
  status: Exclude<RecordStatus, 'not_started'>;
  /** What is wrong and what to do. For a `verified` record, what can be improved; null when nothing is. */
  problem: string | null;
};

export function mismatch(problem: string): RecordComparison {
  return { status: 'mismatch', problem };
}
