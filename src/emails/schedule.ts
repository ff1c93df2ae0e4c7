/** Cancels and reschedules accepted emails (schedule-store.ts), with the sentences of the refusals. */
import type { IsExpected } from '../core/entity-tag.ts';
import {
  CHANGED_SINCE,
  type FieldProblem,
  type Refusal,
  refuseFields,
  noSuch,
} from '../core/refusals.ts';
import { isFinal } from '../core/statuses.ts';
import { type EmailDetail, type EmailRef, findEmail } from './email-store.ts';
import type { Database } from '../database/database.ts';
import { cancelEmail, rescheduleEmail, type UncancelableCounts } from './schedule-store.ts';
import { TOO_FAR_AHEAD } from '../accept/accept-refusals.ts';
import { readScheduledAt } from '../accept/draft.ts';

const NO_SUCH_EMAIL = noSuch('email');

/**
 * Cancels the recipients that are scheduled, queued or deferred.
 * @param contentBytesMax longer content is not read
 * @returns the email after the change
 */
export async function cancel(
  db: Database,
  ref: EmailRef,
  contentBytesMax?: number,
): Promise<EmailDetail | Refusal> {
  const cancellation = await cancelEmail(db, ref);
  const email = cancellation && (await findEmail(db, ref, contentBytesMax));
  if (!cancellation || !email) return NO_SUCH_EMAIL;
  if (cancellation.canceled > 0) return email;
  return conflict('There is nothing left to cancel', email, cancellation);
}

/**
 * Changes the time of an email before its first attempt.
 * @param change.contentBytesMax longer content is not read
 * @returns the email after the change
 */
export async function reschedule(
  db: Database,
  ref: EmailRef,
  change: { at: string; isExpected?: IsExpected; contentBytesMax?: number },
): Promise<EmailDetail | Refusal> {
  const { at, isExpected, contentBytesMax } = change;
  const scheduledAt = readTime(at);
  if (!(scheduledAt instanceof Date)) return scheduledAt;
  const rescheduling = await rescheduleEmail(db, ref, scheduledAt, isExpected);
  const email = rescheduling && (await findEmail(db, ref, contentBytesMax));
  if (!rescheduling || !email) return NO_SUCH_EMAIL;
  switch (rescheduling.kind) {
    case 'moved':
    case 'same':
      return email;
    case 'unexpected':
      return CHANGED_SINCE;
    case 'too_far':
      return refuseFields([{ field: 'scheduled_at', message: TOO_FAR_AHEAD }]);
    case 'left':
      return conflict('The email can no longer be rescheduled', email, rescheduling);
  }
}

function readTime(text: string): Date | Refusal {
  const problems: FieldProblem[] = [];
  const time = readScheduledAt('scheduled_at', text, (field, message) => {
    problems.push({ field, message });
  });
  return time ?? refuseFields(problems);
}

/** Names a temporary reason before a permanent one. */
function conflict(
  what: string,
  { status }: EmailDetail,
  { sending, inDoubt }: UncancelableCounts,
): Refusal {
  const refusal = (why: string): Refusal => ({ refused: 'conflict', message: `${what}: ${why}.` });
  if (sending > 0) return refusal('a worker is sending the email; try again in a moment');
  if (inDoubt > 0) {
    return refusal(
      'the worker that was sending the email died, so the email may have been delivered; ' +
        'it will be retried',
    );
  }
  if (isFinal(status)) return refusal(`the email is ${status}`);
  return refusal('an attempt to deliver the email was made');
}
