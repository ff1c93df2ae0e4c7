/**
 * The life of a recipient and of an email, as data.
 *
 * A recipient is stored in one status and only moves along TRANSITIONS; the same table is seeded
 * into the database, where the settle statement joins it. `sending` is never stored: an open
 * recipient that a worker holds shows as `sending`.
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

/**
 * Every allowed move of a recipient. `deferred → deferred` is another deferred attempt. A scheduled
 * one is `queued` from its time on without being written: its first attempt moves it on.
 * The moves out of a final status come from inbound mail only (a late bounce, a complaint).
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
 * How bad an ending is, 1 (delivered) to 7 (complained). An email whose recipients have all ended
 * shows the worst of their statuses; the database keeps the greatest rank in `emails.worst`.
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
 * The status of an email from its recipients' counters: while any is open, the most active of the
 * open ones (sending, queued, deferred, scheduled); then the worst ending.
 * @param worstRank greatest STATUS_RANK among ended recipients, 0 when none has ended
 */
export function emailStatus(open: ReadonlySet<Status>, worstRank: number): Status {
  for (const status of ['sending', 'queued', 'deferred', 'scheduled'] as const) {
    if (open.has(status)) return status;
  }
  return BY_RANK[worstRank] ?? 'queued';
}
