/**
 * Why a request is turned down: a closed catalogue. Everything below the surfaces answers with one
 * of these codes and a sentence; only http/ knows which HTTP status that is, only cli/ which exit
 * code. Retired codes are never used again for something else.
 */

export const REFUSAL_CODES = [
  'validation_error',
  'authentication_error',
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

/** One field that breaks a rule: `field` in dotted form as the client wrote it (`to[2]`). */
export type FieldProblem = { field: string; message: string };

/** A refusal as a value. `message` is one sentence: what is wrong and what to do. */
export type Refusal = {
  refused: RefusalCode;
  message: string;
  details?: readonly FieldProblem[];
};

export function isRefusal(value: object): value is Refusal {
  return 'refused' in value;
}
