/** Units of time, in milliseconds (`_MS`) and seconds (`_S`), and of memory, in bytes. */

export const MINUTE_MS = 60_000;
export const HOUR_MS = 60 * MINUTE_MS;
export const DAY_MS = 24 * HOUR_MS;
export const DAY_S = DAY_MS / 1_000;

export const MIB = 1024 ** 2;
export const GIB = 1024 ** 3;
