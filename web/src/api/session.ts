/** Who is signed in, and which projects and environments they see. */
import { queryOptions } from '@tanstack/react-query';
import type { CurrentApiKey } from '../../../sdk/src/api.ts';
import { ApiError, call, keyOfTab, type Scope } from './client.ts';

export type Session = {
  /** What the account menu shows. */
  name: string;
  projects: readonly { id: string; name: string }[];
  /** A key has one; a member both. */
  environments: readonly Scope['environment'][];
};

type MemberSession = {
  member: { id: string; email: string; name: string; role: string };
  projects: { id: string; name: string }[];
};

export const sessionQuery = queryOptions({
  queryKey: ['session'],
  queryFn: ({ signal }): Promise<Session | null> => readSession(signal),
  staleTime: 60_000,
  retry: false,
});

/** @returns null when nobody is signed in */
async function readSession(signal: AbortSignal): Promise<Session | null> {
  try {
    return keyOfTab.read() === null ? await ofMember(signal) : await ofKey(signal);
  } catch (error) {
    // 404: a version without accounts.
    if (error instanceof ApiError && [401, 404].includes(error.status)) {
      keyOfTab.forget();
      return null;
    }
    throw error;
  }
}

async function ofMember(signal: AbortSignal): Promise<Session> {
  const { member, projects } = await call<MemberSession>('GET', '/v1/session', { signal });
  return { name: member.name || member.email, projects, environments: ['live', 'test'] };
}

async function ofKey(signal: AbortSignal): Promise<Session> {
  const key = await call<CurrentApiKey>('GET', '/v1/api-keys/current', { signal });
  return { name: key.name, projects: [key.project], environments: [key.environment] };
}

/** What the sign-in page offers. */
export const setupQuery = queryOptions({
  queryKey: ['session', 'setup'],
  queryFn: async ({ signal }): Promise<'key' | 'owner' | 'password'> => {
    try {
      const setup = await call<{ needs_owner: boolean }>('GET', '/v1/session/setup', { signal });
      return setup.needs_owner ? 'owner' : 'password';
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return 'key';
      throw error;
    }
  },
  retry: false,
});

export async function signOut(): Promise<void> {
  if (keyOfTab.read() === null) await call('DELETE', '/v1/session');
  keyOfTab.forget();
}

const LAST_SCOPE = 'posthorn-scope';

export function rememberScope(scope: Scope): void {
  localStorage.setItem(LAST_SCOPE, JSON.stringify(scope));
}

/** The scope that was open last, else the first one. */
export function scopeToOpen({ projects, environments }: Session): Scope | null {
  const last = JSON.parse(localStorage.getItem(LAST_SCOPE) ?? 'null') as Scope | null;
  const [firstProject] = projects;
  if (!firstProject) return null;
  const isThere =
    last &&
    projects.some(({ id }) => id === last.project) &&
    environments.includes(last.environment);
  return isThere ? last : { project: firstProject.id, environment: environments[0] ?? 'test' };
}
