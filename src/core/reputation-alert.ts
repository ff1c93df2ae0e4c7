/**
 * When a sender's reputation is in danger: the share of bounces and of complaints among what ended in
 * the last 24 hours, by sending domain. Receivers block senders at about these shares, and forgive
 * slowly. Pure rules; store/reputation.ts has the counts, src/service/maintenance/reputation-watch.ts acts.
 */

export const ALERT_KINDS = ['bounce', 'complaint'] as const;
export type AlertKind = (typeof ALERT_KINDS)[number];

/** Rates in millionths. */
export type AlertRule = {
  isOn: boolean;
  bouncesPpm: number;
  complaintsPpm: number;
  /** Of fewer emails a share says nothing. */
  emailsMin: number;
  /** Whether mail waits from then on, until it is released. */
  pauses: boolean;
};

export const DEFAULT_ALERT_RULE: AlertRule = {
  isOn: true,
  bouncesPpm: 50_000,
  complaintsPpm: 3_000,
  emailsMin: 500,
  pauses: false,
};

/** Where a project differs from the usual; null: as usual. */
export type OwnAlertRule = {
  isOn: boolean;
  bouncesPpm: number | null;
  complaintsPpm: number | null;
  emailsMin: number | null;
  pauses: boolean;
};

export function alertRule(own: OwnAlertRule | undefined): AlertRule {
  if (own === undefined) return DEFAULT_ALERT_RULE;
  return {
    isOn: own.isOn,
    bouncesPpm: own.bouncesPpm ?? DEFAULT_ALERT_RULE.bouncesPpm,
    complaintsPpm: own.complaintsPpm ?? DEFAULT_ALERT_RULE.complaintsPpm,
    emailsMin: own.emailsMin ?? DEFAULT_ALERT_RULE.emailsMin,
    pauses: own.pauses,
  };
}

/** Recipients of the last 24 hours. `ended`: delivered, sent, bounced or failed. */
export type OutcomeCounts = { ended: number; bounced: number; complained: number };

/** That it is beyond the rule already. `belowForMs`: for so long clearly better; null: not so. */
export type ActiveAlert = { isPaused: boolean; belowForMs: number | null };

export type Judgement = 'raises' | 'recovers' | 'gets_better' | 'gets_worse' | 'stays';

/** Better means below four fifths of the threshold, or hardly any mail at all; */
const BETTER_SHARE = 0.8;
/** and for an hour: else a warning would come and go with every batch of mail. */
const BETTER_FOR_MS = 3600_000;

export function judgeReputation(
  kind: AlertKind,
  counts: OutcomeCounts,
  { rule, active }: { rule: AlertRule; active: ActiveAlert | null },
): Judgement {
  const thresholdPpm = thresholdOf(kind, rule);
  const isEnough = counts.ended >= rule.emailsMin;
  const ppm = ratePpm(countOf(kind, counts), counts.ended);
  if (active === null) return rule.isOn && isEnough && ppm > thresholdPpm ? 'raises' : 'stays';
  // While nothing is sent the share says nothing: a pause ends by a person's hand.
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

/** Complaints may be about older mail: there can be more of them than emails that ended. */
export function ratePpm(count: number, ended: number): number {
  return ended === 0 ? 0 : Math.round((count / ended) * 1_000_000);
}

const PAUSED =
  ' New mail from this domain is accepted and waits until the operator lets it go ' +
  '(posthorn projects set-reputation-alert --resume).';

export type AlertFacts = {
  kind: AlertKind;
  count: number;
  ended: number;
  thresholdPpm: number;
  since: Date;
  /** Mail of the domain waits until it is released. */
  isPaused: boolean;
};

/** The warning, for people. */
export function describeAlert({
  kind,
  count,
  ended,
  thresholdPpm,
  since,
  isPaused,
}: AlertFacts): string {
  const share = showPercent(ratePpm(count, ended));
  const what = kind === 'bounce' ? 'bounced' : 'were reported as spam';
  const remedy =
    kind === 'bounce'
      ? 'mail only addresses that were confirmed, and look where the others came from.'
      : 'mail only people who asked for it, and let them unsubscribe easily.';
  return (
    `${count} of ${ended} emails of 24 hours ${what} (${share}, more than ` +
    `${showPercent(thresholdPpm)}) since ${since.toISOString()}: receivers block senders like ` +
    `this; ${remedy}${isPaused ? PAUSED : ''}`
  );
}

/** Reads `5%` or `0.3%` as millionths; null when it is not of that form, or not more than 0. */
export function parsePercent(text: string): number | null {
  const match = /^(\d{1,3}(?:\.\d{1,4})?)\s*%$/.exec(text.trim());
  const ppm = Math.round(Number(match?.[1] ?? 0) * 10_000);
  return ppm >= 1 && ppm <= 1_000_000 ? ppm : null;
}

/** `5%`, `0.3%`. */
export function showPercent(ppm: number): string {
  return `${Number((ppm / 10_000).toFixed(4))}%`;
}
