/**
 * What a refusal is in SMTP: the code and the enhanced code (RFC 5321, 3463), with the same sentence
 * that HTTP gives. 4xx where the same message may be taken later, 5xx where it will not.
 */
import type { Refusal, RefusalCode } from '../core/refusals.ts';
import { Overloaded } from '../core/overloaded.ts';
import { answerOf, type SmtpAnswer } from '../net/smtp/server-types.ts';
import { AcceptedUnknown } from '../store/accept.ts';
import { DatabaseUnavailable } from '../store/postgres/database.ts';

/** A refusal without a reply does not compile. */
const REPLIES = {
  validation_error: [554, '5.6.0'],
  authentication_error: [550, '5.7.8'],
  authorization_error: [550, '5.7.1'],
  domain_not_verified: [550, '5.7.1'],
  not_found: [554, '5.5.0'],
  idempotency_conflict: [554, '5.5.0'],
  conflict: [554, '5.5.0'],
  suppressed: [550, '5.7.1'],
  rate_limit_error: [451, '4.7.1'],
  service_unavailable: [451, '4.3.0'],
} as const satisfies Record<RefusalCode, readonly [code: number, enhanced: string]>;

export function replyTo({ refused, message, details }: Refusal): SmtpAnswer {
  // Who it is from is a question of what is allowed, whatever is wrong with it.
  if (/^(?:from|sender|resent-.*)$/i.test(details?.[0]?.field ?? ''))
    return answerOf(550, '5.7.1', message);
  const [code, enhanced] = REPLIES[refused];
  return answerOf(code, enhanced, message);
}

/** What was thrown on the way, where it is no bug: the sentence promises only what is known. */
export function replyToThrown(error: unknown): SmtpAnswer | null {
  const away = (text: string) => answerOf(451, '4.3.0', text);
  if (error instanceof Overloaded) {
    return away(`Nothing was accepted: ${error.message}; try again in a moment.`);
  }
  if (error instanceof AcceptedUnknown) {
    return away(
      'The database went away meanwhile: this may have been accepted. ' +
        'Sending it again with the same X-Posthorn-Idempotency-Key is safe.',
    );
  }
  if (!(error instanceof DatabaseUnavailable)) return null;
  return away('The database cannot be reached; nothing was accepted, try again in a moment.');
}
