/**
 * The closed catalogue of refusals. Rules return one of these codes and a sentence, written where the refusal is
 * decided (of an email: accept/accept.ts; of an exceeded limit: limits.ts). Only routes map them to statuses, and only
 * commands to exit codes. Retired codes are never reused.
 */

export const REFUSAL_CODES = [
  'validation_error',
  'authentication_error',
  'totp_required',
  'authorization_error',
  'domain_not_verified',
  'not_found',
  'idempotency_conflict',
  'conflict',
  'suppressed',
  'rate_limit_error',
  'service_unavailable',
] as const;

export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** A field that breaks a rule: `field` as the client wrote it, in dotted form (`to[2]`). */
export type FieldProblem = { field: string; message: string };

/** A refusal as a value. `message` is one sentence: what is wrong and what to do. */
export type Refusal = {
  refused: RefusalCode;
  message: string;
  details?: readonly FieldProblem[];
  /** A conflict with the maximum of stored mail, which passes; SMTP has a reply of its own for it. */
  isStorageFull?: true;
};

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value;
}

/** The same for an object that does not exist and for one of another project. */
export function noSuch(what: string): Refusal {
  const message = `There is no ${what} with this id in this project and environment.`;
  return { refused: 'not_found', message };
}

/** Limits the response to a hostile body. */
const DETAILS_MAX = 20;

/**
 * The message names the first field and counts the others, `details` lists all.
 * @param problems at least one; `field` '' means the body as a whole
 */
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

/** Work was refused because of load, before anything was stored. */
export class Overloaded extends Error {
  override readonly name = 'Overloaded';
}

/** There are as many as there may be. The message is that of a `conflict`. */
export class MaximumReached extends Error {
  override readonly name = 'MaximumReached';
}
