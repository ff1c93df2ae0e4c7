/**
 * The states of an installation that become problems, and when: one table for the doctor, the conditions that the
 * service reports (core/operator-events.ts) and the alarms of deploy/prometheus. test/tidy/thresholds.test.ts compares
 * alarms and documents with it.
 *
 * `soon` is yellow in the doctor and a ticket among the alarms: act within days. `urgent` is red. `refused`: from here
 * on the service accepts no mail.
 */
import { DAY_MS, GIB, HOUR_MS, MINUTE_MS } from '../lib/units.ts';

/**
 * Limits on the time that a certificate has left; the smaller one counts. ACME clients renew a certificate when a third
 * of its life is left, so a renewal has failed when a sixth is left.
 */
export const CERTIFICATE_ENDS = {
  soon: { withinMs: 21 * DAY_MS, lifeShare: 1 / 6 },
  urgent: { withinMs: 3 * DAY_MS, lifeShare: 1 / 20 },
} as const;

/** Limits on the difference between two clocks. */
export const CLOCK_SKEW = {
  soonMs: MINUTE_MS,
  urgentMs: 5 * MINUTE_MS,
  refusedMs: HOUR_MS,
} as const;

/** Settlements need space, too, so mail is refused before the disk is full. */
export const DISK_FREE = { soonBytes: 5 * GIB, urgentBytes: 2 * GIB, refusedBytes: GIB } as const;

/** Limits on the age of the newest backup. A backup takes time and a failure is retried, so one interval may pass. */
export const BACKUP_AGE = { soonIntervals: 2, urgentMs: 7 * DAY_MS } as const;

/** Limits on the time since the oldest recipient in the queue became due. */
export const MAIL_WAITS = { soonMs: 30 * MINUTE_MS, urgentMs: 4 * HOUR_MS } as const;

/** Limit on the time that one email in twenty waits for its first attempt. */
export const FIRST_ATTEMPT_WAITS = { soonMs: MINUTE_MS } as const;

/** Limit on the share of deferred attempts, among more than `attemptsMin`. */
export const DEFERRED_SHARE = { soon: 0.5, attemptsMin: 50 } as const;

/** Limits on the transactions since the oldest row was frozen. PostgreSQL refuses writes at two billion. */
export const FROZEN_AGE = { soon: 500_000_000, urgent: 1_200_000_000 } as const;

/** @param certificate `lifeMs`: from its beginning to its end; `leftMs`: negative after its end */
export function judgeCertificate(certificate: {
  leftMs: number;
  lifeMs: number;
}): 'good' | 'soon' | 'urgent' {
  const { leftMs, lifeMs } = certificate;
  const isWithin = ({ withinMs, lifeShare }: { withinMs: number; lifeShare: number }): boolean =>
    leftMs <= Math.min(withinMs, lifeMs * lifeShare);
  if (isWithin(CERTIFICATE_ENDS.urgent)) return 'urgent';
  return isWithin(CERTIFICATE_ENDS.soon) ? 'soon' : 'good';
}
