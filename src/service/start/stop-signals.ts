/**
 * The signals that stop the service. A Ctrl-C reaches it twice, from the terminal and from npm. The first signal
 * drains. Only a signal at least one second later stops immediately.
 */

/** A stop was requested before the service was ready. */
export class StartStopped extends Error {}

const SAME_SIGNAL_MS = 1_000;

type StopSignals = {
  stop: Promise<'stop'>;
  /** Aborted with StartStopped. */
  signal: AbortSignal;
  /** Calls `listener` for a signal that comes a second or more after the first. */
  onSecond(listener: () => void): void;
  close(): void;
};

export function listenForStopSignals(): StopSignals {
  const { promise, resolve } = Promise.withResolvers<'stop'>();
  const aborting = new AbortController();
  let firstMs: number | null = null;
  let onLater: () => void = () => {};
  const receive = (): void => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    resolve('stop');
    aborting.abort(new StartStopped());
    if (nowMs - firstMs >= SAME_SIGNAL_MS) onLater();
  };
  const names = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
  for (const name of names) process.on(name, receive);
  return {
    stop: promise,
    signal: aborting.signal,
    onSecond: (listener) => (onLater = listener),
    close: () => names.forEach((name) => process.off(name, receive)),
  };
}
