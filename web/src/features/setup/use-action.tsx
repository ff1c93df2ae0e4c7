/** Runs the actions of steps: one request at a time, in one environment of the project, with a failure in words. */
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useMemo, useState } from 'react';
import { type Api, apiOf, useApi } from '../../api/scope.ts';
import { sentenceOf } from '../../ui/states.tsx';

/** Requests to one environment of the project, whichever the page shows. */
export function useApiIn(environment: 'live' | 'test'): Api {
  const { scope } = useApi();
  return useMemo(
    () => apiOf({ project: scope.project, environment }),
    [scope.project, environment],
  );
}

/** An action that runs once at a time, and its failure in a sentence. */
export function useAction(action: () => Promise<void>): {
  run: () => void;
  isRunning: boolean;
  failure: ReactNode;
} {
  const [state, setState] = useState<{ isRunning: boolean; failure: string | null }>({
    isRunning: false,
    failure: null,
  });
  const start = async (): Promise<void> => {
    setState({ isRunning: true, failure: null });
    try {
      await action();
      setState({ isRunning: false, failure: null });
    } catch (error) {
      setState({ isRunning: false, failure: sentenceOf(error) });
    }
  };
  const failure = state.failure !== null && (
    <p role="alert" className="text-sm text-bad">
      {state.failure}
    </p>
  );
  return { run: () => void start(), isRunning: state.isRunning, failure };
}

/** Reads everything of one environment again. */
export function useReloadIn(environment: 'live' | 'test'): () => Promise<void> {
  const api = useApiIn(environment);
  const cache = useQueryClient();
  return () => cache.invalidateQueries({ queryKey: api.key });
}
