import { type ReactNode, useSyncExternalStore } from 'react';
import { absoluteTime, relativeTime } from '../lib/time.ts';

const TICK_MS = 10_000;

/** Relative within a day; the full time with its zone on hover. */
export function Time({ at }: { at: string }): ReactNode {
  const now = useSyncExternalStore(subscribe, currentTick);
  const atMs = Date.parse(at);
  // A time since the last tick is past, too.
  const sinceMs = atMs > now && atMs <= Date.now() ? 0 : now - atMs;
  return (
    <time dateTime={at} title={absoluteTime(at)} className="whitespace-nowrap tabular-nums">
      {relativeTime(sinceMs / 1000, at)}
    </time>
  );
}

/** One timer for all times of a page. */
let tick = Date.now();
const listeners = new Set<() => void>();
setInterval(() => {
  tick = Date.now();
  for (const listener of listeners) listener();
}, TICK_MS);

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function currentTick(): number {
  return tick;
}
