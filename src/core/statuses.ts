/**
 * The statuses of recipients and emails. A recipient has one stored status, which changes only along TRANSITIONS.
 * The database contains the same table, and the settle statement joins it. `sending` is never stored: the API shows it
 * for an open recipient while a worker leases it.
 */

export const OPEN_STATUSES = ['scheduled', 'queued', 'deferred'] as const;
export const FINAL_STATUSES = [
  'delivered',
  'sent',
  'canceled',
  'suppressed',
  'failed',
  'bounced',
  'complained',
] as const;

export type OpenStatus = (typeof OPEN_STATUSES)[number];
export type FinalStatus = (typeof FINAL_STATUSES)[number];
export type StoredStatus = OpenStatus | FinalStatus;
export type Status = StoredStatus | 'sending';

/** Sentences for people, in the dashboard and the API description. */
export const STATUS_MEANINGS: Readonly<Record<Status, string>> = {
  scheduled: 'Scheduled for later.',
  queued: 'Accepted. Waiting for the first attempt.',
  sending: 'An attempt is in progress.',
  deferred: 'The last attempt failed temporarily. It will be retried.',
  delivered: "The recipient's mail server accepted it.",
  sent: 'A relay accepted it. What happens next is known only if a bounce or complaint comes back.',
  bounced: 'The receiving side refused it permanently.',
  failed: 'Given up without a permanent reply.',
  suppressed: 'Not attempted: the address is on the suppression list.',
  canceled: 'Canceled before it was sent.',
  complained: 'The recipient reported it as spam.',
};

/**
 * All allowed changes of a recipient's status. `deferred → deferred` is another deferred attempt. A scheduled
 * recipient becomes `queued` at its time without a write; its first attempt changes the stored status. Only received
 * mail (a late bounce, a complaint) changes a final status.
 */
export const TRANSITIONS: readonly (readonly [StoredStatus, StoredStatus])[] = [
  ['scheduled', 'queued'],
  ['queued', 'scheduled'],
  ...OPEN_STATUSES.flatMap((from) =>
    (['deferred', 'delivered', 'sent', 'bounced', 'failed', 'suppressed', 'canceled'] as const).map(
      (to) => [from, to] as const,
    ),
  ),
  ['sent', 'delivered'],
  ['sent', 'bounced'],
  ['sent', 'complained'],
  ['delivered', 'bounced'],
  ['delivered', 'complained'],
];

/** Severity of a final status, 1 (delivered) to 7 (complained). `emails.worst` stores the highest one. */
export const STATUS_RANK: Readonly<Record<FinalStatus, number>> = {
  delivered: 1,
  sent: 2,
  canceled: 3,
  suppressed: 4,
  failed: 5,
  bounced: 6,
  complained: 7,
};

const BY_RANK = Object.fromEntries(
  Object.entries(STATUS_RANK).map(([status, rank]) => [rank, status]),
) as Record<number, FinalStatus>;

export function isFinal(status: Status): status is FinalStatus {
  return status in STATUS_RANK;
}

/**
 * Returns the status of an email: the most active status of its open recipients, else the most severe final one.
 * @param worstRank the highest STATUS_RANK of ended recipients; 0 when none has ended
 */
export function emailStatus(open: ReadonlySet<Status>, worstRank: number): Status {
  for (const status of ['sending', 'queued', 'deferred', 'scheduled'] as const) {
    if (open.has(status)) return status;
  }
  return BY_RANK[worstRank] ?? 'queued';
}

/** Categories of the reasons why mail is deferred or ended; mail/replies/meanings.ts says what follows from each. */
export const CATEGORIES = [
  'mailbox',
  'quota',
  'greylist',
  'policy',
  'reputation',
  'content',
  'authentication',
  'network',
  'tls',
  'protocol',
  'expired',
] as const;
export type Category = (typeof CATEGORIES)[number];
