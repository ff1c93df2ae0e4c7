/**
 * Sends a form once at a time. A refused field gets the focus and shows its problem, any other failure is a sentence
 * of the form; what was typed stays. A form that is sent keeps the focus, so its button is disabled only in words.
 */
import { type FormEvent, type RefObject, useEffect, useRef, useState } from 'react';
import type { FieldProblem } from '../api/client.ts';
import { firstRefused, problemsWithFields } from './form-problems.ts';
import { sentenceOf } from './states.tsx';

type State = {
  isSending: boolean;
  failure: string | null;
  problems: readonly FieldProblem[];
  /** A message that is the same as that of the last attempt is announced again. */
  attempt: number;
};
const IDLE: State = { isSending: false, failure: null, problems: [], attempt: 0 };

export type Submit = State & {
  form: RefObject<HTMLFormElement | null>;
  onSubmit: (event: FormEvent<HTMLFormElement>) => void;
};

export function useSubmit(send: (form: FormData) => Promise<unknown>): Submit {
  const [state, setState] = useState(IDLE);
  const form = useRef<HTMLFormElement>(null);
  // The next click may come before the button is drawn again.
  const isSending = useRef(false);
  const { problems } = state;
  useEffect(() => {
    if (form.current && problems.length > 0) firstRefused(form.current, problems)?.focus();
  }, [problems]);
  const submit = async (sent: HTMLFormElement): Promise<void> => {
    if (isSending.current) return;
    isSending.current = true;
    // Its last message stays until the next one, so that the button does not move away below a second click.
    setState((last) => ({ ...last, isSending: true, attempt: last.attempt + 1 }));
    try {
      await send(new FormData(sent));
      setState(IDLE);
    } catch (error) {
      const refused = problemsWithFields(sent, error);
      const failure = refused.length === 0 ? sentenceOf(error) : null;
      setState(({ attempt }) => ({ isSending: false, failure, problems: refused, attempt }));
    } finally {
      isSending.current = false;
    }
  };
  return {
    ...state,
    form,
    onSubmit: (event) => {
      event.preventDefault();
      void submit(event.currentTarget);
    },
  };
}
