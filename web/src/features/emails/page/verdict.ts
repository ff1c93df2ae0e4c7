/** The conclusion of an email's page: the state, why, and the one action that helps. Pure. */
import type { Diagnosis, Email } from '../../../../../sdk/src/api.ts';
import { STATUS_MEANINGS } from '../../../../../src/core/statuses.ts';
import { withProviderName } from '../../../lib/providers.ts';
import { LIMITS } from '../delivery/limits.ts';
import { groupRecipients, type RecipientGroup, splitAdvice } from '../delivery/recipient-groups.ts';

/** The action that helps most, or null where waiting helps or nothing does. */
export type VerdictAction =
  | 'retry'
  | 'release'
  | 'resend'
  | 'reschedule'
  | 'suppression'
  | 'domain'
  | null;

export type EmailVerdict = {
  status: Email['status'];
  title: string;
  /** Sentences: the reason, and what to do. */
  sentences: string[];
  nextAttemptAt: string | null;
  expiresAt: string | null;
  action: VerdictAction;
  /** The provider whose queue the email waits in. */
  provider: string | null;
  /** The recipient that the verdict is about. */
  address: string | null;
};

type Diagnosed = Diagnosis['recipients'][number];

/** @param diagnosis undefined while it loads */
export function verdictOf(email: Email, diagnosis: Diagnosis | undefined): EmailVerdict {
  const [group] = groupRecipients(email);
  if (group === undefined) return verdictWithoutRecipients(email);
  const address = group.recipients[0]!.address;
  const isCurrent = diagnosis?.status === email.status;
  const diagnosed = isCurrent
    ? diagnosis.recipients.find((one) => one.address === address)
    : undefined;
  const isOpen = group.recipients.some(({ completed_at: ended }) => ended === null);
  const { cause, remedy } = reasonOf(group, diagnosed);
  return {
    status: group.status,
    title: titleOf(email, group, cause),
    sentences: [remedy, waitOf(diagnosed)].filter((text) => text !== null),
    // The attempt that is in progress was the next one.
    nextAttemptAt: isOpen && group.status !== 'sending' ? earliest(group) : null,
    expiresAt: isOpen && isCurrent ? diagnosis.expires_at : null,
    action: actionOf(group, diagnosed),
    provider: diagnosed?.held_by ? (diagnosed.route?.provider ?? null) : null,
    address,
  };
}

function verdictWithoutRecipients({ status }: Email): EmailVerdict {
  const nothing = { nextAttemptAt: null, expiresAt: null, action: null, provider: null };
  return {
    status,
    title: wordOf(status),
    sentences: [STATUS_MEANINGS[status]],
    ...nothing,
    address: null,
  };
}

function titleOf(email: Email, group: RecipientGroup, cause: string | null): string {
  const all = email.recipients.length;
  const count = group.recipients.length;
  const share =
    count === all
      ? all === 1
        ? ''
        : ` for all ${all} recipients`
      : ` for ${count} of ${all} recipients`;
  return `${wordOf(group.status)}${share}${cause === null ? '' : `: ${cause}`}`;
}

function wordOf(status: string): string {
  return status.charAt(0).toUpperCase() + status.slice(1);
}

function reasonOf(
  { status, reason }: RecipientGroup,
  diagnosed: Diagnosed | undefined,
): { cause: string | null; remedy: string | null } {
  if (status === 'suppressed') {
    const cause = 'the address is on the suppression list';
    return { cause, remedy: diagnosed?.next_step ?? null };
  }
  const held = diagnosed?.held_by;
  // The status says these two itself.
  const isPlain = !held || held.limit === 'attempt' || held.limit === 'schedule';
  if (reason === null && !isPlain) return { cause: lowered(LIMITS[held.limit]), remedy: null };
  if (reason === null) return { cause: null, remedy: STATUS_MEANINGS[status] };
  const { cause, remedy } = splitAdvice(reason.advice);
  return { cause, remedy };
}

function lowered(text: string): string {
  return text.charAt(0).toLowerCase() + text.slice(1);
}

/** The limit that the recipient waits for. The retry schedule is said by the time of the next attempt. */
function waitOf(diagnosed: Diagnosed | undefined): string | null {
  const held = diagnosed?.held_by;
  if (!held || held.limit === 'retry' || held.limit === 'schedule') return null;
  return withProviderName(held.message, diagnosed?.route?.provider ?? '');
}

function earliest({ recipients }: RecipientGroup): string | null {
  const times = recipients.flatMap(({ next_attempt_at: at }) => at ?? []);
  return times.toSorted()[0] ?? null;
}

function actionOf({ status }: RecipientGroup, diagnosed: Diagnosed | undefined): VerdictAction {
  const limit = diagnosed?.held_by?.limit;
  if (limit === 'hold') return 'release';
  if (limit === 'sender') return 'domain';
  if (limit === 'retry' && status === 'deferred') return 'retry';
  if (status === 'scheduled') return 'reschedule';
  if (status === 'suppressed' || status === 'complained') return 'suppression';
  return ['bounced', 'failed', 'canceled'].includes(status) ? 'resend' : null;
}
