/** Reputation alerts and their rule as the API returns them. */
import { type AlertRule, describeAlert, ratePpm, showPercent } from './alert.ts';
import type { Alert } from './reputation-store.ts';

export function alertRuleToWire({ isOn, bouncesPpm, complaintsPpm, emailsMin, pauses }: AlertRule) {
  return {
    on: isOn,
    bounces: showPercent(bouncesPpm),
    complaints: showPercent(complaintsPpm),
    min: emailsMin,
    pause: pauses,
  };
}

export function alertToWire(alert: Alert) {
  const { environment, domain, kind, count, ended, thresholdPpm, since, isPaused } = alert;
  return {
    about: 'reputation' as const,
    environment,
    domain,
    kind,
    rate: showPercent(ratePpm(count, ended)),
    threshold: showPercent(thresholdPpm),
    count,
    ended,
    since: since.toISOString(),
    paused: isPaused,
    message: describeAlert(alert),
  };
}
