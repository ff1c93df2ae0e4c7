/**
 * The closed catalogue of refusals. The rule that refuses returns a code and a sentence. Only routes map codes to
 * HTTP statuses, and only commands map them to exit codes. A retired code is never reused.
 */

const NAME_CHARACTERS_MAX = 64;

export const REFUSAL_CODES = [
  'validation_error',
  'authentication_error',
  'totp_required',
  'authorization_error',
  'key_restricted',
  'domain_not_verified',
  'not_found',
  'idempotency_conflict',
  'conflict',
  'precondition_failed',
  'suppressed',
  'rate_limit_error',
  'service_unavailable',
] as const;

export type RefusalCode = (typeof REFUSAL_CODES)[number];

/** An invalid field. `field` is the client's name for it, with dots and indexes (`to[2]`). */
export type FieldProblem = { field: string; message: string };

/** @property message one sentence: what is wrong and what to do */
export type Refusal = {
  refused: RefusalCode;
  message: string;
  details?: readonly FieldProblem[];
  /** A `conflict` that passes when stored mail falls below its maximum. SMTP has its own reply for it. */
  isStorageFull?: true;
};

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value;
}

/** The same for unknown, revoked and expired keys, so that the refusal does not disclose the difference. */
export const KEY_REFUSED = 'The API key is not valid; check it, or make a new one.';

/** Names the address and not the networks: the client may be a stranger who found the key. */
export function refuseNetwork(clientAddress: string): Refusal {
  return {
    refused: 'key_restricted',
    message: `This key may not be used from ${clientAddress}; use it from its networks, or add this one to its allowed_networks.`,
  };
}

/** Returns the refusal for an unknown object. It must be the same for an object of another project. */
export function noSuch(noun: string): Refusal {
  const message = `There is no ${noun} with this id in this project and environment.`;
  return { refused: 'not_found', message };
}

/** The caller sent the entity tag of an earlier state. */
export const CHANGED_SINCE: Refusal = {
  refused: 'precondition_failed',
  message:
    'The object has changed since you read it, so nothing was changed. Read it again, then send your change with ' +
    'its new ETag in If-Match.',
};

/** Limit on the details in the response to a hostile body. */
const DETAILS_MAX = 20;

/**
 * Returns one refusal for all problems. The message names the first field and counts the others.
 * @param problems at least one; `field` '' is the whole body
 */
export function refuseFields(problems: readonly FieldProblem[]): Refusal {
  const [first] = problems;
  if (!first) throw new Error('a refusal needs a problem');
  return {
    refused: 'validation_error',
    message: `${sentenceOfProblem(first)}${moreProblems(problems.length - 1)}`,
    details: problems.slice(0, DETAILS_MAX),
  };
}

function sentenceOfProblem({ field, message }: FieldProblem): string {
  return field === '' ? message : `${field}: ${message}`;
}

function moreProblems(count: number): string {
  if (count === 0) return '';
  return count === 1 ? ' (and 1 more problem)' : ` (and ${count} more problems)`;
}

/** Thrown when load prevents work, before anything is stored. */
export class Overloaded extends Error {
  override readonly name = 'Overloaded';
}

/** Thrown when the maximum number of objects exists. The `conflict` has the same message. */
export class MaximumReached extends Error {
  override readonly name = 'MaximumReached';
}

/** A client's name reaches responses, logs and terminals, so all but 64 printable ASCII characters are replaced. */
export function printableName(name: string): string {
  const plain = name.replace(/[^!-~]/g, '?');
  return plain.length <= NAME_CHARACTERS_MAX ? plain : `${plain.slice(0, NAME_CHARACTERS_MAX)}…`;
}
