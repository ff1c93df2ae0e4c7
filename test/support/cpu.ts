/** CPU time instead of time on a clock: it hardly depends on what else the machine does. */

/** Milliseconds that this thread computes during the work, which waits for nothing. */
export function cpuMs(work: () => unknown): number {
  const before = process.threadCpuUsage();
  work();
  const { user, system } = process.threadCpuUsage(before);
  return (user + system) / 1_000;
}
