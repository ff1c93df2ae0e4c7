/** CPU time instead of wall time: it hardly depends on other programs on the machine. */

/** Returns the CPU milliseconds of this thread during the work, which must be synchronous. */
export function cpuMs(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
