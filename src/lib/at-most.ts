/** Waits for `work` to end, well or not, but for `ms` at most: a stop does not wait for a database that is silent. */
export async function atMost(ms: number, work: Promise<unknown>): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>();
  const timer = setTimeout(resolve, ms);
  const ended = work.then(
    () => {},
    () => {},
  );
  await Promise.race([ended, late]);
  clearTimeout(timer);
}
