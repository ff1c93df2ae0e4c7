/** A clock that all processes of this machine share. */

/** Returns milliseconds since a moment in the past that is the same for every process (CLOCK_MONOTONIC). */
export function machineMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}
