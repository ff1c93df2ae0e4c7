/**
 * The health of a webhook endpoint: failures in a row suspend it, a 410 or five days of failures disable it. Pure:
 * sending/outcomes.ts reads the facts and writes what is decided here.
 */
import {
  type EndpointFacts,
  type EndpointHealth,
  SUSPENSION_FAILURES,
} from './sending/queue-store.ts';

/** What the attempts at one endpoint that are settled together have shown. */
export type Tally = {
  hasSucceeded: boolean;
  failures: number;
  /** The endpoint wants no more webhooks (410). */
  isGone: boolean;
  /** How long it asked for no requests at all. */
  restMs: number;
  /** The highest number of a failed attempt at one delivery; 1: the first. */
  attempt: number;
};

type Facts = Omit<EndpointFacts, 'projectId' | 'endpointId' | 'version'>;

const DISABLED_AFTER_MS = 5 * 24 * 3600_000;
const SUSPENDED_FIRST_MS = 5_000;
const SUSPENDED_MAX_MS = 5 * 60_000;

/** @returns null when nothing changes: a success at an endpoint that is not failing */
export function nextHealth(endpoint: Facts, tally: Tally): EndpointHealth | null {
  const { hasSucceeded } = tally;
  if (hasSucceeded && !tally.isGone && endpoint.failingSince === null) return null;
  const failures = hasSucceeded ? 0 : endpoint.failures + tally.failures;
  const disabledReason = reasonToDisable(endpoint, tally);
  const health = { failures, isFailing: !hasSucceeded, disabledReason };
  return { ...health, suspendedMs: suspensionMs(endpoint, tally, health) };
}

/** A first attempt disables nothing: one failure a month after another one is not five days of failures. */
function reasonToDisable(endpoint: Facts, tally: Tally): string | null {
  if (endpoint.status === 'disabled') return endpoint.disabledReason;
  if (tally.isGone) return 'It answered 410 Gone: it wants no more webhooks.';
  const isOver = endpoint.failingForMs >= DISABLED_AFTER_MS && tally.attempt > 1;
  return isOver && !tally.hasSucceeded
    ? `Every attempt since ${endpoint.failingSince} failed.`
    : null;
}

/** A suspension of 0 ms makes the loops of all nodes look at the endpoint now. */
function suspensionMs(
  { wasSuspended }: Facts,
  { hasSucceeded, restMs }: Tally,
  { failures, disabledReason }: Omit<EndpointHealth, 'suspendedMs'>,
): number | null {
  if (disabledReason !== null) return 0;
  if (hasSucceeded) return wasSuspended ? 0 : null;
  const beyond = failures - SUSPENSION_FAILURES;
  const ownMs = beyond < 0 ? 0 : Math.min(SUSPENDED_FIRST_MS * 2 ** beyond, SUSPENDED_MAX_MS);
  return Math.max(restMs, ownMs) || null;
}
