/** The project and environment in the address of the page, and requests within them. */
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'react';
import { call, type CallOptions, type Scope } from './client.ts';

export function useScope(): Scope {
  const { project, environment } = useParams({ from: '/$project/$environment' });
  return useMemo(
    () => ({ project, environment: environment as Scope['environment'] }),
    [project, environment],
  );
}

export type Api = {
  scope: Scope;
  /** Begins every query key, so that nothing is shown in another scope. */
  key: readonly [string, string];
  get: <Result>(path: string, signal?: AbortSignal) => Promise<Result>;
  send: <Result>(
    method: 'POST' | 'PATCH' | 'DELETE',
    path: string,
    body?: unknown,
  ) => Promise<Result>;
};

export function useApi(): Api {
  const scope = useScope();
  return useMemo(
    () => ({
      scope,
      key: [scope.project, scope.environment] as const,
      get: (path, signal) => call('GET', path, { scope, ...(signal ? { signal } : {}) }),
      send: (method, path, body) => {
        const options: CallOptions = body === undefined ? { scope } : { scope, body };
        return call(method, path, options);
      },
    }),
    [scope],
  );
}
