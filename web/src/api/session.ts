/** The session of the member who is signed in, with the projects it can open. */
import { queryOptions } from '@tanstack/react-query';
import type { Session } from '../../../sdk/src/api.ts';
import { ApiError, call, type Scope, sessionHasEnded } from './client.ts';

export const ENVIRONMENTS = ['live', 'test'] as const;

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }): Promise<Session | null> => readSession(signal),
  staleTime: 60_000,
  retry: false,
});

/** Whether this page has been open in a session. */
let wasSignedIn = false;

/**
 * Returns null when nobody is signed in.
 * @throws ApiError when the session has ended while this page was open, which then stays as it is
 */
async function readSession(signal: AbortSignal): Promise<Session | null> {
  try {
    const session = await call('getSession', { signal });
    wasSignedIn = true;
    return session;
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 401)) throw error;
    if (!wasSignedIn) return null;
    sessionHasEnded();
    throw error;
  }
}

/** Whether the installation has an account. */
export const setupQuery = queryOptions({
  queryKey: ['session', 'setup'],
  queryFn: ({ signal }) => call('getSetup', { signal }),
  retry: false,
});

export async function signOut(): Promise<void> {
  await call('endSession');
  forgetTab();
}

export async function signOutEverywhere(): Promise<void> {
  await call('endAllSessions');
  forgetTab();
}

function forgetTab(): void {
  wasSignedIn = false;
  // It holds the names of objects that were opened last.
  sessionStorage.clear();
}

const LAST_SCOPE = 'letterhaus-scope';

export function rememberScope(scope: Scope): void {
  localStorage.setItem(LAST_SCOPE, JSON.stringify(scope));
}

/** Whether no project was opened in this browser before. */
export function isFirstVisit(): boolean {
  return localStorage.getItem(LAST_SCOPE) === null;
}

/** The scope that was opened last; else the test environment, where a first email can be sent at once. */
export function scopeToOpen({ projects }: Session): Scope | null {
  const last = JSON.parse(localStorage.getItem(LAST_SCOPE) ?? 'null') as Scope | null;
  if (last && projects.some(({ id }) => id === last.project)) return last;
  const [first] = projects;
  return first ? { project: first.id, environment: 'test' } : null;
}
