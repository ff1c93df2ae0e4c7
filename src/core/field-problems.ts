/**
 * Problems of fields as one refusal: the sentence says the first one by name and how many more
 * there are, `details` lists them all.
 */
import type { FieldProblem, Refusal } from './refusals.ts';

/** More than a person reads; a hostile body must not make an answer of megabytes. */
const DETAILS_MAX = 20;

/** @param problems at least one; `field` '' means the body as a whole */
export function refuseFields(problems: readonly FieldProblem[]): Refusal {
  const [first] = problems;
  if (!first) throw new Error('a refusal needs a problem');
  return {
    refused: 'validation_error',
    message: `${sentence(first)}${andMore(problems.length - 1)}`,
    details: problems.slice(0, DETAILS_MAX),
  };
}

function sentence({ field, message }: FieldProblem): string {
  return field === '' ? message : `${field}: ${message}`;
}

function andMore(count: number): string {
  if (count === 0) return '';
  return count === 1 ? ' (and 1 more problem)' : ` (and ${count} more problems)`;
}
