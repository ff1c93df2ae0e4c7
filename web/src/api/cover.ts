/** Whether the page is covered by a form to sign in, because the session has ended while it was open. */
import { useSyncExternalStore } from 'react';

let isCovered = false;
const listeners = new Set<() => void>();

export function coverPage(covered: boolean): void {
  isCovered = covered;
  for (const listener of listeners) listener();
}

/** A dialog below the cover keeps what was typed: keys and clicks are not for it. */
export function isPageCovered(): boolean {
  return isCovered;
}

export function usePageCovered(): boolean {
  return useSyncExternalStore(subscribe, isPageCovered);
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}
