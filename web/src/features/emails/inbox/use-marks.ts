/** The marks of the test inbox, kept in this browser for each project, and equal in its tabs. */
import { useMemo, useSyncExternalStore } from 'react';
import { useScope } from '../../../api/scope.ts';
import { type Marks, parseMarks } from './marks.ts';

const listeners = new Set<() => void>();

export function useMarks(): { marks: Marks; change: (next: (marks: Marks) => Marks) => void } {
  const { project } = useScope();
  const key = `inbox:${project}`;
  const stored = useSyncExternalStore(subscribe, () => localStorage.getItem(key));
  const marks = useMemo(() => parseMarks(stored), [stored]);
  const change = (next: (marks: Marks) => Marks): void => {
    const changed = next(parseMarks(localStorage.getItem(key)));
    localStorage.setItem(key, JSON.stringify(changed));
    for (const listener of listeners) listener();
  };
  return { marks, change };
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  window.addEventListener('storage', listener);
  return () => {
    listeners.delete(listener);
    window.removeEventListener('storage', listener);
  };
}
