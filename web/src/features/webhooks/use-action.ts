/** One action behind a button without a form: it runs once at a time, and its failure is shown beside it. */
import { useState } from 'react';
import { sentenceOf } from '../../ui/states.tsx';

export function useAction(): {
  run: (action: () => Promise<unknown>) => void;
  isRunning: boolean;
  failure: string | null;
} {
  const [state, setState] = useState<{ isRunning: boolean; failure: string | null }>({
    isRunning: false,
    failure: null,
  });
  const run = async (action: () => Promise<unknown>): Promise<void> => {
    setState({ isRunning: true, failure: null });
    try {
      await action();
      setState({ isRunning: false, failure: null });
    } catch (error) {
      setState({ isRunning: false, failure: sentenceOf(error) });
    }
  };
  return { ...state, run: (action) => void run(action) };
}
