import { type FormEvent, type ReactNode, useContext, useState } from 'react';
import type { FieldProblem } from '../api/client.ts';
import { Button } from './button.tsx';
import { CloseDialog } from './dialog.tsx';
import { FormProblems, problemsWithFields } from './form-problems.ts';
import { sentenceOf } from './states.tsx';

type State = { isSending: boolean; failure: string | null; problems: readonly FieldProblem[] };
const IDLE: State = { isSending: false, failure: null, problems: [] };

/**
 * A form in a dialog. It shows the problem of a field beside that field, and any other problem above its buttons. It
 * keeps the typed text.
 */
export function ActionForm(props: {
  action: string;
  look?: 'primary' | 'danger';
  send: (form: FormData) => Promise<void>;
  children: ReactNode;
}): ReactNode {
  const [state, setState] = useState(IDLE);
  const close = useContext(CloseDialog);
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    const form = event.currentTarget;
    setState({ ...IDLE, isSending: true });
    try {
      await props.send(new FormData(form));
      setState(IDLE);
    } catch (error) {
      const problems = problemsWithFields(form, error);
      setState({
        isSending: false,
        failure: problems.length === 0 ? sentenceOf(error) : null,
        problems,
      });
    }
  };
  return (
    <FormProblems value={state.problems}>
      <form className="space-y-3 px-5 pt-1 pb-5" onSubmit={(event) => void submit(event)}>
        {props.children}
        {state.failure !== null && (
          <p role="alert" className="text-sm text-bad">
            {state.failure}
          </p>
        )}
        <div className="flex flex-wrap justify-end gap-2 pt-2">
          {close && <Button onClick={close}>Cancel</Button>}
          <Button
            type="submit"
            look={props.look === 'danger' ? 'destroy' : 'primary'}
            disabled={state.isSending}
          >
            {props.action}
          </Button>
        </div>
      </form>
    </FormProblems>
  );
}
