/** The result of comparing one record of a sending domain with DNS. */
import type { RecordStatus } from './records.ts';

export type RecordComparison = {
  status: Exclude<RecordStatus, 'not_started'>;
  /** The mistake and its remedy. For a `verified` record, a possible improvement; null when there is none. */
  problem: string | null;
};

export function mismatch(problem: string): RecordComparison {
  return { status: 'mismatch', problem };
}
