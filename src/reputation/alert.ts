/**
 * Reputation alerts: the shares of bounces and complaints among the recipients that ended in the last 24 hours, by
 * sending domain. Receivers block senders at about these shares, and for a long time. Pure: reputation-store.ts
 * counts, reputation-watch.ts acts.
 */

export const ALERT_KINDS = ['bounce', 'complaint'] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** A rule. Shares are in millionths. */
export type AlertRule = {
  isOn: boolean;
  bouncesPpm: number;
  complaintsPpm: number;
  emailsMin: number;
  /** True when an alert puts new mail on hold until it is released. */
  pauses: boolean;
};

export const DEFAULT_ALERT_RULE: AlertRule = {
  isOn: true,
  bouncesPpm: 50_000,
  complaintsPpm: 3_000,
  emailsMin: 500,
  pauses: false,
};

/** A project's settings, or null for the default. */
export type ProjectAlertRule = {
  isOn: boolean;
  bouncesPpm: number | null;
  complaintsPpm: number | null;
  emailsMin: number | null;
  pauses: boolean;
};

export function effectiveAlertRule(own: ProjectAlertRule | undefined): AlertRule {
  if (own === undefined) return DEFAULT_ALERT_RULE;
  return {
    isOn: own.isOn,
    bouncesPpm: own.bouncesPpm ?? DEFAULT_ALERT_RULE.bouncesPpm,
    complaintsPpm: own.complaintsPpm ?? DEFAULT_ALERT_RULE.complaintsPpm,
    emailsMin: own.emailsMin ?? DEFAULT_ALERT_RULE.emailsMin,
    pauses: own.pauses,
  };
}

/** Recipients of the last 24 hours. `ended` counts delivered, sent, bounced and failed. */
export type OutcomeCounts = { ended: number; bounced: number; complained: number };

/** An active alert. `belowForMs`: time since the share became clearly lower, or null when it is not lower. */
export type ActiveAlert = { isPaused: boolean; belowForMs: number | null };

export type AlertChange = 'raises' | 'recovers' | 'gets_better' | 'gets_worse' | 'stays';

/** An alert can end while the share is at most this part of the threshold, or mail is below `emailsMin`. */
const BETTER_SHARE = 0.8;
/** It ends after this time, so that an alert does not start and end with every batch of mail. */
const BETTER_FOR_MS = 3600_000;

export function alertChange(
  kind: AlertKind,
  counts: OutcomeCounts,
  { rule, active }: { rule: AlertRule; active: ActiveAlert | null },
): AlertChange {
  const thresholdPpm = thresholdOf(kind, rule);
  const isEnough = counts.ended >= rule.emailsMin;
  const ppm = ratePpm(countOf(kind, counts), counts.ended);
  if (active === null) return rule.isOn && isEnough && ppm > thresholdPpm ? 'raises' : 'stays';
  // The share of a paused sender does not change, so an operator must end the pause.
  if (active.isPaused) return 'stays';
  if (!rule.isOn) return 'recovers';
  const isBetter = !isEnough || ppm <= BETTER_SHARE * thresholdPpm;
  if (!isBetter) return active.belowForMs === null ? 'stays' : 'gets_worse';
  if (active.belowForMs === null) return 'gets_better';
  return active.belowForMs >= BETTER_FOR_MS ? 'recovers' : 'stays';
}

export function thresholdOf(kind: AlertKind, rule: AlertRule): number {
  return kind === 'bounce' ? rule.bouncesPpm : rule.complaintsPpm;
}

export function countOf(kind: AlertKind, { bounced, complained }: OutcomeCounts): number {
  return kind === 'bounce' ? bounced : complained;
}

/** Complaints may concern older mail, so there may be more of them than ended emails. */
export function ratePpm(count: number, ended: number): number {
  return ended === 0 ? 0 : Math.round((count / ended) * 1_000_000);
}

const PAUSED =
  ' New mail from this domain is accepted and put on hold until the operator releases it ' +
  '(letterhaus projects set-reputation-alert --resume).';

export type AlertFacts = {
  kind: AlertKind;
  count: number;
  ended: number;
  thresholdPpm: number;
  since: Date;
  /** True while mail of the domain is on hold until it is released. */
  isPaused: boolean;
};

export function describeAlert({
  kind,
  count,
  ended,
  thresholdPpm,
  since,
  isPaused,
}: AlertFacts): string {
  const share = showPercent(ratePpm(count, ended));
  const outcome = kind === 'bounce' ? 'bounced' : 'were reported as spam';
  const remedy =
    kind === 'bounce'
      ? 'mail only addresses that were confirmed, and check the source of the other addresses.'
      : 'mail only people who asked for it, and let them unsubscribe easily.';
  return (
    `${count} of ${ended} emails of 24 hours ${outcome} (${share}, more than ` +
    `${showPercent(thresholdPpm)}) since ${since.toISOString()}: receivers block senders like ` +
    `this; ${remedy}${isPaused ? PAUSED : ''}`
  );
}

/** Parses `5%` or `0.3%` into millionths. Returns null for other text, and for 0 or less. */
export function parsePercent(text: string): number | null {
  const match = /^(\d{1,3}(?:\.\d{1,4})?)\s*%$/.exec(text.trim());
  const ppm = Math.round(Number(match?.[1] ?? 0) * 10_000);
  return ppm >= 1 && ppm <= 1_000_000 ? ppm : null;
}

export function showPercent(ppm: number): string {
  return `${Number((ppm / 10_000).toFixed(4))}%`;
}
