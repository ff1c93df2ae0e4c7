/** Limits of sending domains that the service and the command line share. */
import { HOUR_MS } from '../lib/units.ts';

/** Milliseconds without a required record after which a domain stops sending. */
export const FAILED_AFTER_MS = 72 * HOUR_MS;

/** Returns when a domain stops sending unless its records are found before. */
export function failsAt(failingSince: Date): string {
  return new Date(failingSince.getTime() + FAILED_AFTER_MS).toISOString();
}

export const WAITING_SHOWN_MAX = 100_000;
