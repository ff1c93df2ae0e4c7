/** Units of time, in milliseconds (`_MS`) and seconds (`_S`), and of memory, in bytes. Parses periods such as `6h`. */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const DAY_S = DAY_MS / 1_000;

/** The units of a period in options and variables: `30m`. */
const UNIT_MS = { s: 1_000, m: MINUTE_MS, h: HOUR_MS, d: DAY_MS };

/**
 * Parses a period such as `30m` or `6h`.
 * @param units the units that may be written, such as `mhd`
 * @returns milliseconds, or null for any other text
 */
export function parsePeriodMs(text: string, units: string): number | null {
  const [, count, unit = ''] = /^(\d{1,5})([smhd])$/.exec(text) ?? [];
  if (count === undefined || !units.includes(unit)) return null;
  return Number(count) * UNIT_MS[unit as keyof typeof UNIT_MS];
}

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;
