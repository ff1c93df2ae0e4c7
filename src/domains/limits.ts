/** Rules of sending domains that the service and the command line share. */

/** After this time without a required record, a domain stops sending. */
export const FAILED_AFTER_MS = 72 * 3_600_000;

/** When a domain stops sending unless its records are found before. */
export function failsAt(failingSince: Date): string {
  return new Date(failingSince.getTime() + FAILED_AFTER_MS).toISOString();
}

/** Recipients that wait for mail of a domain are counted up to this number. */
export const WAITING_SHOWN_MAX = 100_000;
