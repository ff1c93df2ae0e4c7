/**
 * When to stop. A Ctrl-C reaches the service twice (from the terminal and from npm), so the first
 * signal drains and only one that comes a second later cuts short.
 */

const SAME_SIGNAL_MS = 1_000;

export type StopSignals = {
  /** The first request to stop. */
  stop: Promise<'stop'>;
  /** Somebody is impatient. */
  onSecond(listener: () => void): void;
  close(): void;
};

export function createSignals(): StopSignals {
  const { promise, resolve } = Promise.withResolvers<'stop'>();
  let firstMs: number | null = null;
  let impatient: () => void = () => {};
  const receive = (): void => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    resolve('stop');
    if (nowMs - firstMs >= SAME_SIGNAL_MS) impatient();
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, receive);
  return {
    stop: promise,
    onSecond: (listener) => (impatient = listener),
    close: () => names.forEach((name) => process.off(name, receive)),
  };
}
