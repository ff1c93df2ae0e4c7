/** Waits until `work` settles, but for `ms` at most: a silent database must not block a shutdown. Never throws. */
export async function waitAtMost(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const ended = work.then(
    () => {},
    () => {},
  );
  await Promise.race([ended, late]);
  clearTimeout(timer);
}
