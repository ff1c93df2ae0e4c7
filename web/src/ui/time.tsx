import { type ReactNode, useSyncExternalStore } from 'react';
import { serverNowMs } from '../lib/clock.ts';
import { absoluteTime, relativeTime } from '../lib/time.ts';

const TICK_MS = 10_000;

/** Seconds. An attempt that was due this long ago is late: the worker that takes it is busy. */
const DUE_S = 5;

/** When something happens next, or that it is due: a time that has passed would contradict "next". */
export function NextTime({ at }: { at: string }): ReactNode {
  useSyncExternalStore(subscribe, currentTick);
  const isDue = (serverNowMs() - Date.parse(at)) / 1000 >= DUE_S;
  if (!isDue) return <Time at={at} />;
  return (
    <time dateTime={at} title={absoluteTime(at)} className="whitespace-nowrap">
      due now
    </time>
  );
}

/** Relative within a day; the full time with its zone on hover. */
export function Time({ at }: { at: string }): ReactNode {
  useSyncExternalStore(subscribe, currentTick);
  // Not the time of the last tick: what happened since then would be in the future.
  const seconds = (serverNowMs() - Date.parse(at)) / 1000;
  return (
    <time dateTime={at} title={absoluteTime(at)} className="whitespace-nowrap tabular-nums">
      {relativeTime(seconds, at)}
    </time>
  );
}

/** One timer for all times of a page. */
let tick = 0;
const listeners = new Set<() => void>();
setInterval(() => {
  tick += 1;
  for (const listener of listeners) listener();
}, TICK_MS);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function currentTick(): number {
  return tick;
}
