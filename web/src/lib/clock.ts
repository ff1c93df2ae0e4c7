/**
 * The time of the service. The clock of a computer may be minutes late, and recent events would then appear to be in
 * the future.
 */

/** Milliseconds. Less than this is the rounding of the header and the way of the response. */
const SKEW_MIN_MS = 2_000;

let skewMs = 0;

/** Notes the `Date` header of a response, in whole seconds. */
export function noteServerTime(header: string | null): void {
  const serverMs = Date.parse(header ?? '');
  if (Number.isNaN(serverMs)) return;
  const aheadMs = serverMs + 500 - Date.now();
  skewMs = Math.abs(aheadMs) < SKEW_MIN_MS ? 0 : aheadMs;
}

export function serverNowMs(): number {
  return Date.now() + skewMs;
}
