/** The result of comparing one record of a sending domain with DNS. */
import type { RecordStatus } from './records.ts';

/** Two clauses without a capital or a full stop, which `problemText` joins. */
export type RecordProblem = { mistake: string; remedy: string };

export type RecordComparison = {
  status: Exclude<RecordStatus, 'not_started'>;
  /** For a `verified` record, a possible improvement; null when there is none. */
  problem: RecordProblem | null;
};

/** The remedy when DNS did not respond. */
export const TRY_AGAIN = 'try again in a few minutes';

export function mismatch(mistake: string, remedy: string): RecordComparison {
  return { status: 'mismatch', problem: { mistake, remedy } };
}

/** Returns the sentence that the API shows, in the form `there is no record: add it`. */
export function problemText(problem: RecordProblem | null): string | null {
  return problem && `${problem.mistake}: ${problem.remedy}`;
}
