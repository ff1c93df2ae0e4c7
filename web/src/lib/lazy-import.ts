/**
 * Loads a part of the dashboard, also when the network is away at its first use: it waits until the service can be
 * reached again. A part that a new version of the service no longer has fails, so that the page is loaded anew.
 */
import { useSyncExternalStore } from 'react';

const RETRY_MS = 2_000;
/** A small file of the dashboard. */
const REACHABLE_URL = '/dashboard/icon.svg';

let waitingCount = 0;
const listeners = new Set<() => void>();

export async function importWhenOnline<Module>(load: () => Promise<Module>): Promise<Module> {
  try {
    return await load();
  } catch (error) {
    if (await isReachable()) throw error;
  }
  count(1);
  await untilOnline();
  count(-1);
  return importWhenOnline(load);
}

/** Returns whether a part waits for the service. */
export function useIsImportWaiting(): boolean {
  return useSyncExternalStore(subscribe, () => waitingCount > 0);
}

async function isReachable(): Promise<boolean> {
  try {
    return (await fetch(REACHABLE_URL, { method: 'HEAD', cache: 'no-store' })).ok;
  } catch {
    return false;
  }
}

function untilOnline(): Promise<void> {
  return new Promise((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      window.removeEventListener('online', end);
      resolve();
    };
    const timer = setTimeout(end, RETRY_MS);
    window.addEventListener('online', end);
  });
}

function count(by: 1 | -1): void {
  waitingCount += by;
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
