import { type FormEvent, type ReactNode, useState } from 'react';
import { Button } from './button.tsx';
import { sentenceOf } from './states.tsx';

/** A form in a dialog. It shows a failure above its button and keeps the typed text. */
export function ActionForm(props: {
  action: string;
  look?: 'primary' | 'danger';
  send: (form: FormData) => Promise<void>;
  children: ReactNode;
}): ReactNode {
  const [state, setState] = useState<{ isSending: boolean; failure: string | null }>({
    isSending: false,
    failure: null,
  });
  const submit = async (event: FormEvent<HTMLFormElement>): Promise<void> => {
    event.preventDefault();
    setState({ isSending: true, failure: null });
    try {
      await props.send(new FormData(event.currentTarget));
      setState({ isSending: false, failure: null });
    } catch (error) {
      setState({ isSending: false, failure: sentenceOf(error) });
    }
  };
  return (
    <form className="space-y-3 p-4" onSubmit={(event) => void submit(event)}>
      {props.children}
      {state.failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {state.failure}
        </p>
      )}
      <Button type="submit" look={props.look ?? 'primary'} disabled={state.isSending}>
        {props.action}
      </Button>
    </form>
  );
}
