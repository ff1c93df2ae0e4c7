/**
 * Whether the service can be reached, by all requests of the page. While it cannot, screens keep what they show,
 * and the frame says since when (shell/connection-line.tsx). Requests that read are repeated until one succeeds
 * (`retryRead`); then everything that is shown is read again.
 *
 * Only a response to a request of the outage ends it. Others may have been under way when the network went away.
 */
import { useSyncExternalStore } from 'react';

/**
 * `offline`: the browser has no network. `unreachable`: the service does not respond. `unavailable`: it responds with
 * 503, for example while it has no database.
 */
export type Outage = 'offline' | 'unreachable' | 'unavailable';

export type Connection =
  | { kind: 'up' }
  /** `readAtMs`: time of the last response before the outage; null before the first. */
  | { kind: 'down'; outage: Outage; sinceMs: number; readAtMs: number | null }
  /** It was down, and is up since a moment. */
  | { kind: 'back' };

const UP: Connection = { kind: 'up' };
/** How long the page says that the connection is back. */
const BACK_MS = 4_000;

let connection: Connection = UP;
let respondedAtMs: number | null = null;
/** As the browser says. */
let hasNetwork = true;
const listeners = new Set<() => void>();
const contactListeners = new Set<(isBack: boolean) => void>();
/** Outages that have begun. */
let outages = 0;

/** Returns what a request keeps for `noteContact`. */
export function outagesSoFar(): number {
  return outages;
}

/**
 * Notes a response, or an event. It ends an outage, or it is a reason to find out whether the outage has ended.
 * @param askedAfter `outagesSoFar` at the time of the request
 */
export function noteContact(askedAfter: number): void {
  respondedAtMs = Date.now();
  if (connection.kind !== 'down') return;
  const isBack = askedAfter === outages;
  if (isBack) {
    set({ kind: 'back' });
    setTimeout(() => connection.kind === 'back' && set(UP), BACK_MS);
  }
  for (const listener of contactListeners) listener(isBack);
}

/** Notes a request that failed because of an outage. */
export function noteOutage(failed: 'unreachable' | 'unavailable'): void {
  const outage = hasNetwork ? failed : 'offline';
  if (connection.kind === 'down') {
    if (connection.outage !== outage) set({ ...connection, outage });
    return;
  }
  outages += 1;
  set({ kind: 'down', outage, sinceMs: Date.now(), readAtMs: respondedAtMs });
}

/** Notes that the browser has lost its network, or has one again. */
export function noteNetwork(isThere: boolean): void {
  hasNetwork = isThere;
  if (!isThere || connection.kind === 'down') noteOutage('unreachable');
}

/** Calls `listener` when something arrives during an outage. `isBack`: it has ended the outage. */
export function whenContact(listener: (isBack: boolean) => void): () => void {
  contactListeners.add(listener);
  return () => contactListeners.delete(listener);
}

export function useConnection(): Connection {
  return useSyncExternalStore(subscribe, () => connection);
}

function set(next: Connection): void {
  connection = next;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Statuses of a service that is away: its own, and those of a proxy before it. 0: there was no response. */
const OUTAGE_STATUSES: readonly number[] = [0, 502, 503, 504];

export function isOutage(status: number): boolean {
  return OUTAGE_STATUSES.includes(status);
}

const RETRIES_MAX = 2;

/** Returns whether a read is repeated: during an outage until its end. A refused request would be refused again. */
export function retryRead(count: number, error: Error): boolean {
  const status = 'status' in error ? Number(error.status) : 400;
  return isOutage(status) || (status >= 500 && count < RETRIES_MAX);
}

const RETRY_FIRST_MS = 1_000;
const RETRY_MAX_MS = 8_000;

/** Milliseconds until the next try. Pages that lost the service at the same moment do not come back at the same. */
export function retryDelayMs(count: number): number {
  const delayMs = Math.min(RETRY_MAX_MS, RETRY_FIRST_MS * 2 ** count);
  return delayMs * (0.5 + Math.random() / 2);
}
