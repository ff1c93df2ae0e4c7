/**
 * When to try again: the retry schedules of mail and of webhooks. Pure: the caller adds the time
 * and passes the dice.
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/** Waits after the 1st, 2nd, ... failed attempt; the last one repeats until the mail expires. */
const MAIL_WAITS_MS = [
  1 * MINUTE_MS,
  4 * MINUTE_MS,
  10 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  1 * HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
];

/** Test keys deliver to a simulator: its retries come after seconds (doubling), to be seen. */
const SIMULATED_FIRST_WAIT_MS = 2_000;

/** Mail that nobody took for this long has failed, unless `expires_in` says sooner. */
export const MAIL_LIFETIME_S = 72 * 3600;

/** Standard Webhooks' example schedule: the wait before the 2nd, 3rd, ... 10th attempt. */
const WEBHOOK_WAITS_MS = [
  5_000,
  5 * MINUTE_MS,
  30 * MINUTE_MS,
  2 * HOUR_MS,
  5 * HOUR_MS,
  10 * HOUR_MS,
  14 * HOUR_MS,
  20 * HOUR_MS,
  24 * HOUR_MS,
];

const JITTER = 0.15;

/**
 * How long to wait before the next delivery attempt, in milliseconds, ±15 %.
 * RFC 5321 §4.5.4.1 suggests 30 minutes in general and allows other strategies; the short first
 * waits are for greylisting, which most receivers lift within five minutes.
 * @param attempts attempts already made, 1 or more
 * @param dice a random number, 0 (inclusive) to 1
 */
export function mailRetryDelayMs(
  attempts: number,
  environment: 'live' | 'test',
  dice: number,
): number {
  if (environment === 'test') return jittered(simulatedWaitMs(attempts), dice);
  const wait = MAIL_WAITS_MS[Math.min(attempts, MAIL_WAITS_MS.length) - 1] ?? MINUTE_MS;
  return jittered(wait, dice);
}

function simulatedWaitMs(attempts: number): number {
  return Math.min(SIMULATED_FIRST_WAIT_MS * 2 ** Math.min(attempts - 1, 20), 4 * HOUR_MS);
}

/**
 * How long to wait before the next webhook attempt, in milliseconds, ±15 %; null when the
 * schedule is used up.
 * @param attempts attempts already made, 1 or more
 */
export function webhookRetryDelayMs(attempts: number, dice: number): number | null {
  const wait = WEBHOOK_WAITS_MS[attempts - 1];
  return wait === undefined ? null : jittered(wait, dice);
}

function jittered(ms: number, dice: number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * dice));
}
