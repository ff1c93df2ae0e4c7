/** The project and environment in the address of the page, and requests within them. */
import { useParams } from '@tanstack/react-router';
import { useMemo } from 'react';
import type { AcceptedEmail } from '../../../sdk/src/api.ts';
import { type CallOptions, callWith, type Scope } from './client.ts';
import {
  type AnyParts,
  type OperationId,
  type PartsArgument,
  pathOf,
  type ReadId,
  type Result,
} from './operations.ts';

export function useScope(): Scope {
  const { project, environment } = useParams({ from: '/$project/$environment' });
  return useMemo(
    () => ({ project, environment: environment as Scope['environment'] }),
    [project, environment],
  );
}

type Options = Pick<CallOptions, 'signal' | 'headers'>;

/** For useQuery. */
export type ReadQuery<Id extends ReadId> = {
  queryKey: readonly unknown[];
  queryFn: (context: { signal: AbortSignal }) => Promise<Result<Id>>;
};

export type Api = {
  scope: Scope;
  /** Begins every query key, so that nothing is shown in another scope. */
  key: readonly [string, string];
  call: <Id extends OperationId>(
    id: Id,
    ...parts: PartsArgument<Id, Options>
  ) => Promise<Result<Id>>;
  /** Returns the arguments of useQuery for a read. The key contains the path, by which useReload finds it. */
  query: <Id extends ReadId>(id: Id, ...parts: PartsArgument<Id>) => ReadQuery<Id>;
};

export function useApi(): Api {
  const scope = useScope();
  return useMemo(() => apiOf(scope), [scope]);
}

export function apiOf(scope: Scope): Api {
  const key = [scope.project, scope.environment] as const;
  return {
    scope,
    key,
    call: async <Id extends OperationId>(id: Id, ...[parts]: PartsArgument<Id, Options>) =>
      (await callWith(id, { ...(parts as AnyParts), scope })) as Result<Id>,
    query: <Id extends ReadId>(id: Id, ...[parts]: PartsArgument<Id>) => {
      const { path, query = {} } = (parts ?? {}) as AnyParts;
      return {
        queryKey: [...key, pathOf(id, path), query],
        queryFn: async ({ signal }) =>
          (await callWith(id, { path, query, scope, signal })) as Result<Id>,
      };
    },
  };
}

/** The id of an email that was sent: only a dry run has none. */
export function acceptedId(accepted: Result<'sendEmail'>): string {
  return (accepted as AcceptedEmail).id;
}
