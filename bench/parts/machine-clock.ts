/** A clock that all processes of this machine share. */

/** Milliseconds since some moment in the past, the same for every process (CLOCK_MONOTONIC). */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
