/** Describes whether mail reaches a recipient, and the reason if it does not. */
import type { EmailCounts, RecipientOverview } from '../../../../sdk/src/api.ts';
import type { Status } from '../../../../src/core/statuses.ts';
import type { Tone } from '../../ui/tone.ts';

type Suppression = NonNullable<RecipientOverview['suppression']>;

/** Completes "Suppressed since …:". */
const WHY: Readonly<Record<Suppression['reason'], string>> = {
  hard_bounce: 'the mailbox refused an email permanently',
  complaint: 'the person reported an email as spam',
  unsubscribe: 'the person unsubscribed',
  manual: 'somebody added the address',
};

/** Advice before the suppression is removed, by its reason. */
const BEFORE_REMOVAL: Readonly<Record<Suppression['reason'], string>> = {
  hard_bounce:
    'Remove the suppression if the person has confirmed the address. Another hard bounce adds it again.',
  complaint: 'Remove it only if the person asks for mail. Further complaints harm your reputation.',
  unsubscribe: 'Remove it only if the person asks for mail again.',
  manual: 'Remove the suppression to send to this address again.',
};

/** `text` is null where the title says all. */
export type Verdict = { tone: Tone; title: string; text: string | null };

/** @param day formats the time of the suppression */
export function verdictOf(
  { suppression, refused_requests: refused, last_reply: last }: RecipientOverview,
  counts: EmailCounts | undefined,
  day: (at: string) => string,
): Verdict {
  if (suppression !== null) {
    const { reason, created_at: at, simulated, expires_at: ends } = suppression;
    const since = refused.filter(({ created_at: refusedAt }) => refusedAt >= at).length;
    const until = ends === null ? '' : ` It ends on ${day(ends)}.`;
    const held = `Emails to this address are refused before they are sent${since > 0 ? `: ${since} since then` : ''}.`;
    return {
      tone: 'quiet',
      // A date stays in one line.
      title: `Suppressed since ${day(at).replaceAll(' ', '\u00a0')}: ${WHY[reason]}`,
      text: simulated
        ? `The simulator still answers emails to this address, so that a test can be repeated.${until}`
        : `${held}${until} ${BEFORE_REMOVAL[reason]}`,
    };
  }
  const [newest] = refused;
  if (newest !== undefined && isNewer(newest.created_at, last?.completed_at ?? null)) {
    return {
      tone: 'bad',
      title: `The API refused the last request of ${day(newest.created_at)}`,
      text: newest.error.message,
    };
  }
  if (last === null) {
    const hasEmails = counts !== undefined && counts.total > 0;
    return hasEmails
      ? { tone: 'open', title: 'No mail server has replied yet', text: waitingText(counts) }
      : { tone: 'open', title: 'No email to this address', text: 'Nothing is stored about it.' };
  }
  return {
    ...OUTCOMES[last.status],
    text: last.reason?.advice ?? null,
  };
}

function isNewer(at: string, than: string | null): boolean {
  return than === null || at > than;
}

function waitingText({ total }: EmailCounts): string {
  return total === 1 ? 'One email waits or was simulated.' : `${total} emails wait.`;
}

const OUTCOMES: Readonly<Record<Status, { tone: Tone; title: string }>> = {
  delivered: { tone: 'good', title: 'Emails arrive: the last one was delivered' },
  sent: { tone: 'good', title: 'Emails arrive: a relay took the last one' },
  bounced: { tone: 'bad', title: 'The last email bounced' },
  failed: { tone: 'bad', title: 'The last email failed' },
  complained: { tone: 'spam', title: 'The person reported the last email as spam' },
  deferred: { tone: 'wait', title: 'The mail server deferred the last email' },
  suppressed: { tone: 'quiet', title: 'The last email was not sent: the address was suppressed' },
  canceled: { tone: 'quiet', title: 'The last email was canceled' },
  scheduled: { tone: 'open', title: 'The next email is scheduled' },
  queued: { tone: 'open', title: 'The last email waits' },
  sending: { tone: 'open', title: 'The last email is being sent' },
};

type HistoryEntry = RecipientOverview['history'][number];

/** The history of the suppression, unless it is only the addition that the verdict describes. */
export function historyBeyondVerdict({
  suppression,
  history,
}: Pick<RecipientOverview, 'suppression' | 'history'>): HistoryEntry[] {
  const [first, ...others] = history;
  const isInVerdict = suppression !== null && first?.by === 'delivery' && others.length === 0;
  return isInVerdict ? [] : history;
}

/** Says who made a change: "added by jo@acme.com". */
export function changeInWords({ action, reason, by, actor }: HistoryEntry): string {
  const name = actor?.name ?? null;
  switch (by) {
    case 'delivery':
      return `${action} ${reason === 'complaint' ? 'after a complaint' : 'after a bounce'}`;
    case 'recipient':
      return action === 'added' ? 'the person unsubscribed' : 'the person subscribed again';
    case 'command_line':
      return `${action} on the command line`;
    case 'import':
      return `imported${name === null ? '' : ` by ${name}`}`;
    case 'api':
      return `${action} by ${name ?? 'an API key'}`;
  }
}

/** The status of an email whose sender has nothing to do. */
const FINE: ReadonlySet<Status> = new Set(['delivered', 'sent', 'scheduled', 'queued', 'sending']);

export const isProblem = (status: Status): boolean => !FINE.has(status);
