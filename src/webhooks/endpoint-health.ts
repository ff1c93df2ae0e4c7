/**
 * The health of a webhook endpoint. Failures in a row suspend it; a 410 or five days of failures disable it. Pure:
 * sending/webhook-outcomes.ts reads the facts and stores the decision.
 */
import type { EndpointStatus } from './endpoint-store.ts';
import { DAY_MS } from '../lib/units.ts';

/** A stored endpoint. */
export type HealthFacts = {
  status: EndpointStatus;
  disabledReason: string | null;
  failures: number;
  /** Time of the first failure in a row, in ISO 8601; null when the last attempt succeeded. */
  failingSince: string | null;
  failingForMs: number;
  /** True also when the suspension is over. */
  wasSuspended: boolean;
};

export type EndpointHealth = {
  failures: number;
  isFailing: boolean;
  /** Not null disables the endpoint. */
  disabledReason: string | null;
  /** Milliseconds from now; null does not change the suspension. */
  suspendedMs: number | null;
};

/** Summary of the attempts that are settled together. */
export type AttemptTally = {
  hasSucceeded: boolean;
  failures: number;
  isGone: boolean;
  /** Milliseconds for which the endpoint asked for no requests (Retry-After). */
  suspendMs: number;
  /** Highest attempt number of a failed delivery; 1 is the first attempt. */
  attempt: number;
};

/** After this many failures in a row, an endpoint gets one attempt at a time, between suspensions. */
export const SUSPENSION_FAILURES = 5;

const DISABLED_AFTER_MS = 5 * DAY_MS;
const SUSPENDED_FIRST_MS = 5_000;
const SUSPENDED_MAX_MS = 5 * 60_000;

/** @returns null when nothing changes, which is a success at a healthy endpoint */
export function nextHealth(endpoint: HealthFacts, tally: AttemptTally): EndpointHealth | null {
  const { hasSucceeded } = tally;
  if (hasSucceeded && !tally.isGone && endpoint.failingSince === null) return null;
  const failures = hasSucceeded ? 0 : endpoint.failures + tally.failures;
  const disabledReason = reasonToDisable(endpoint, tally);
  const health = { failures, isFailing: !hasSucceeded, disabledReason };
  return { ...health, suspendedMs: suspensionMs(endpoint, tally, health) };
}

/** A first attempt never disables: a failure a month after another one is not five days of failures. */
function reasonToDisable(endpoint: HealthFacts, tally: AttemptTally): string | null {
  if (endpoint.status === 'disabled') return endpoint.disabledReason;
  if (tally.isGone) return 'It responded with 410 Gone: it accepts no more webhooks.';
  const hasFailedTooLong = endpoint.failingForMs >= DISABLED_AFTER_MS && tally.attempt > 1;
  return hasFailedTooLong && !tally.hasSucceeded
    ? `Every attempt since ${endpoint.failingSince} failed.`
    : null;
}

/** A suspension of 0 ms makes the loops of all nodes search the endpoint's deliveries now. */
function suspensionMs(
  { wasSuspended }: HealthFacts,
  { hasSucceeded, suspendMs }: AttemptTally,
  { failures, disabledReason }: Omit<EndpointHealth, 'suspendedMs'>,
): number | null {
  if (disabledReason !== null) return 0;
  if (hasSucceeded) return wasSuspended ? 0 : null;
  const failuresBeyond = failures - SUSPENSION_FAILURES;
  const scheduledMs =
    failuresBeyond < 0 ? 0 : Math.min(SUSPENDED_FIRST_MS * 2 ** failuresBeyond, SUSPENDED_MAX_MS);
  return Math.max(suspendMs, scheduledMs) || null;
}
