/**
 * The retry schedules of mail and webhooks. The caller adds the time and a random number. An endpoint may ask for a
 * longer wait with Retry-After (webhooks/sending/response.ts).
 */
import { HOUR_MS, MINUTE_MS } from '../lib/units.ts';

/** Waits after the 1st, 2nd, … failed attempt, unless LETTERHAUS_RETRY_WAITS is set. The last one repeats. */
export const MAIL_RETRY_WAITS_MS: readonly number[] = [
  1 * MINUTE_MS,
  4 * MINUTE_MS,
  10 * MINUTE_MS,
  15 * MINUTE_MS,
  30 * MINUTE_MS,
  1 * HOUR_MS,
  2 * HOUR_MS,
  4 * HOUR_MS,
];

/** Minimum wait after a 5xx that counts as temporary (mail/replies/classify.ts). */
const SLOW_RETRY_MS = 30 * MINUTE_MS;

/** First wait for mail of test keys, which the simulator answers. It doubles with each attempt. */
const SIMULATED_FIRST_WAIT_MS = 2_000;

/** Seconds from the scheduled time until undelivered mail fails, unless `expires_in` is shorter. */
export const MAIL_LIFETIME_S = 72 * 3600;

export const SCHEDULE_DAYS_MAX = 30;

/** Waits before the 2nd, 3rd, … 10th attempt: the example schedule of Standard Webhooks. */
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

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: MINUTE_MS, h: HOUR_MS };

/**
 * Returns the milliseconds until the next delivery attempt, ±15 %. RFC 5321 §4.5.4.1 suggests 30 minutes and allows
 * other strategies. The first waits are short because most servers end greylisting within five minutes.
 * @param attempts attempts already made, 1 or more
 * @param random 0 <= random < 1
 */
export function mailRetryDelayMs(
  attempts: number,
  random: number,
  { waitsMs = MAIL_RETRY_WAITS_MS, slowly = false } = {},
): number {
  const wait = waitsMs[Math.min(attempts, waitsMs.length) - 1] ?? MINUTE_MS;
  return jittered(slowly ? Math.max(wait, SLOW_RETRY_MS) : wait, random);
}

export function simulatedRetryDelayMs(attempts: number, random: number): number {
  const wait = SIMULATED_FIRST_WAIT_MS * 2 ** Math.min(attempts - 1, 20);
  return jittered(Math.min(wait, 4 * HOUR_MS), random);
}

/** Parses `90s`, `15m` or `4h`, from 10 seconds to a day; null for anything else. */
export function parseRetryWaitMs(text: string): number | null {
  const [, count, unit] = /^(\d{1,5})([smh])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS_MS[unit ?? ''] ?? NaN);
  return ms >= 10_000 && ms <= 24 * HOUR_MS ? ms : null;
}

/** Returns the wait after the nth webhook attempt in milliseconds, ±15 %; null after the last attempt. */
export function webhookRetryDelayMs(attempts: number, random: number): number | null {
  const wait = WEBHOOK_WAITS_MS[attempts - 1];
  return wait === undefined ? null : jittered(wait, random);
}

function jittered(ms: number, random: number): number {
  return Math.round(ms * (1 - JITTER + 2 * JITTER * random));
}
