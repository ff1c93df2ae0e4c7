/**
 * The retry schedules of mail and of webhooks. Pure: the caller adds the time and a random number. A
 * webhook waits longer when its receiver asks for it with Retry-After (webhooks/sending/attempt.ts).
 */

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;

/**
 * Waits after the 1st, 2nd, ... failed attempt unless LETTERHAUS_RETRY_WAITS says otherwise; the last one
 * repeats until the mail expires.
 */
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

/** The minimum wait after a 5xx that is temporary (mail/replies/classify.ts). */
const SLOW_RETRY_MS = 30 * MINUTE_MS;

/** For mail of test keys, which a simulator answers: a few seconds, doubling. */
const SIMULATED_FIRST_WAIT_MS = 2_000;

/** Mail fails after this time from its scheduled time, unless `expires_in` is shorter. */
export const MAIL_LIFETIME_S = 72 * 3600;

/** How far ahead an email may be scheduled. */
export const SCHEDULE_DAYS_MAX = 30;

/** The example schedule of Standard Webhooks: the wait before the 2nd, 3rd, … 10th attempt. */
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
  dice: number,
  { waitsMs = MAIL_RETRY_WAITS_MS, slowly = false } = {},
): number {
  const wait = waitsMs[Math.min(attempts, waitsMs.length) - 1] ?? MINUTE_MS;
  return jittered(slowly ? Math.max(wait, SLOW_RETRY_MS) : wait, dice);
}

/** As mailRetryDelayMs, for mail of test keys. */
export function simulatedRetryDelayMs(attempts: number, dice: number): number {
  const wait = SIMULATED_FIRST_WAIT_MS * 2 ** Math.min(attempts - 1, 20);
  return jittered(Math.min(wait, 4 * HOUR_MS), dice);
}

const UNITS_MS: Readonly<Record<string, number>> = { s: 1000, m: MINUTE_MS, h: HOUR_MS };

/** `90s`, `15m` or `4h`, from 10 seconds to a day; null for anything else. */
export function parseRetryWaitMs(text: string): number | null {
  const [, count, unit] = /^(\d{1,5})([smh])$/.exec(text) ?? [];
  const ms = Number(count) * (UNITS_MS[unit ?? ''] ?? NaN);
  return ms >= 10_000 && ms <= 24 * HOUR_MS ? ms : null;
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
