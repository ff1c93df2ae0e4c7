/** The conclusion of an email's page: the state, why, and the one action that helps. Pure. */
import type { Diagnosis, Email, Recipient } from '../../../../../sdk/src/api.ts';
import { STATUS_MEANINGS } from '../../../../../src/core/statuses.ts';
import { withProviderName } from '../../../lib/providers.ts';
import { LIMITS } from '../delivery/limits.ts';
import {
  groupRecipients,
  hasTheEmail,
  type RecipientGroup,
  splitAdvice,
} from '../delivery/recipient-groups.ts';

/** The action that helps most, or null where waiting helps or nothing does. */
export type VerdictAction =
  | 'retry'
  | 'release'
  | 'resend'
  | 'reschedule'
  | 'suppression'
  | 'recipient'
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
  const groups = groupRecipients(email);
  const [first] = groups;
  if (first === undefined) return verdictWithoutRecipients(email);
  const alike = groups.filter(({ status }) => status === first.status);
  const group = alike.length === 1 ? first : { ...first, recipients: allOf(alike) };
  const address = first.recipients[0]!.address;
  const isCurrent = diagnosis?.status === email.status;
  const diagnosed = isCurrent
    ? diagnosis.recipients.find((one) => one.address === address)
    : undefined;
  const isOpen = group.recipients.some(({ completed_at: ended }) => ended === null);
  const { cause, remedy } = alike.length === 1 ? reasonOf(first, diagnosed) : SEVERAL_REASONS;
  const waits = alike.length === 1 ? waitOf(diagnosed) : null;
  return {
    status: group.status,
    title: titleOf(email, group, cause),
    sentences: [remedy, waits].filter((text) => text !== null),
    // The attempt that is in progress was the next one.
    nextAttemptAt: isOpen && group.status !== 'sending' ? earliest(group) : null,
    expiresAt: isOpen && isCurrent ? diagnosis.expires_at : null,
    action: actionOf(alike, diagnosed),
    provider: providerOf(diagnosed),
    address,
  };
}

const SEVERAL_REASONS = {
  cause: null,
  remedy: 'The reasons differ. They stand beside the recipients.',
};

function allOf(groups: readonly RecipientGroup[]): Recipient[] {
  return groups.flatMap(({ recipients }) => recipients);
}

/** A scheduled email is in no queue of a provider yet. */
function providerOf(diagnosed: Diagnosed | undefined): string | null {
  const held = diagnosed?.held_by;
  if (!held || held.limit === 'schedule') return null;
  return diagnosed?.route?.provider ?? null;
}

function verdictWithoutRecipients({ status }: Email): EmailVerdict {
  const nothing = { nextAttemptAt: null, expiresAt: null, action: null, provider: null };
  return {
    status,
    title: wordOf(status),
    sentences: [meaningOf(status)].filter((text) => text !== null),
    ...nothing,
    address: null,
  };
}

function titleOf(email: Email, group: RecipientGroup, cause: string | null): string {
  const all = email.recipients.length;
  const count = group.recipients.length;
  const relation = hasTheEmail(group) ? 'to' : 'for';
  const share =
    count === all
      ? all === 1
        ? ''
        : ` ${relation} all ${all} recipients`
      : ` ${relation} ${count} of ${all} recipients`;
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
  if (reason === null) return { cause: null, remedy: meaningOf(status) };
  const { cause, remedy } = splitAdvice(reason.advice);
  return { cause, remedy };
}

/** Null where the title and the time below it say the same. */
function meaningOf(status: Email['status']): string | null {
  return status === 'scheduled' || status === 'canceled' ? null : STATUS_MEANINGS[status];
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

/** @param groups recipients of one status, by reason */
function actionOf(
  groups: readonly RecipientGroup[],
  diagnosed: Diagnosed | undefined,
): VerdictAction {
  const limit = diagnosed?.held_by?.limit;
  const status = groups[0]?.status ?? 'delivered';
  if (limit === 'hold') return 'release';
  if (limit === 'sender') return 'domain';
  if (limit === 'retry' && status === 'deferred') return 'retry';
  if (status === 'scheduled') return 'reschedule';
  if (status === 'suppressed' || status === 'complained') return 'suppression';
  if (!['bounced', 'failed', 'canceled'].includes(status)) return null;
  if (!groups.every(wouldEndAgain)) return 'resend';
  const [recipient, ...others] = allOf(groups);
  const isAboutAddress = groups[0]?.reason?.category === 'mailbox';
  return recipient !== undefined && others.length === 0 && isAboutAddress ? 'recipient' : null;
}

/** The same email to the same address would end in the same way. */
function wouldEndAgain({ reason }: RecipientGroup): boolean {
  return reason?.category === 'mailbox' || reason?.category === 'content';
}
