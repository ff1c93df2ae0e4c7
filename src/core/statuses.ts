/**
 * The statuses of recipients and emails, as data.
 *
 * A recipient is stored with one status, which changes only along TRANSITIONS. The database has the same
 * table, which the settle statement joins. `sending` is never stored: an open recipient that a worker
 * holds is shown as `sending`.
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

/** What each status means, for people: in the dashboard and in the description of the API. */
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
 * Every allowed status change of a recipient. `deferred → deferred` is another deferred attempt. A
 * scheduled recipient counts as `queued` from its time on, without a write; its first attempt changes
 * its stored status. Only received mail (a late bounce, a complaint) changes a final status.
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

/**
 * The severity of a final status, 1 (delivered) to 7 (complained). An email whose recipients have all
 * ended shows the most severe of their statuses; `emails.worst` has the greatest rank.
 */
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
 * The status of an email from its recipients' counters: while any is open, the most active open one
 * (sending, queued, deferred, scheduled); then the most severe final one.
 * @param worstRank greatest STATUS_RANK among ended recipients, 0 when none has ended
 */
export function emailStatus(open: ReadonlySet<Status>, worstRank: number): Status {
  for (const status of ['sending', 'queued', 'deferred', 'scheduled'] as const) {
    if (open.has(status)) return status;
  }
  return BY_RANK[worstRank] ?? 'queued';
}
