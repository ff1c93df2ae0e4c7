import { type ReactNode, useContext } from 'react';
import { Button } from './button.tsx';
import { CloseDialog } from './dialog.tsx';
import { FormProblems } from './form-problems.ts';
import { useSubmit } from './submit.ts';

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
  const { form, onSubmit, isSending, failure, problems, attempt } = useSubmit(props.send);
  const close = useContext(CloseDialog);
  return (
    <FormProblems value={problems}>
      <form ref={form} className="space-y-3 px-5 pt-1 pb-5" onSubmit={onSubmit}>
        {props.children}
        {failure !== null && (
          <p key={attempt} role="alert" className="text-sm text-bad">
            {failure}
          </p>
        )}
        <div className="flex flex-wrap justify-end gap-2 pt-2">
          {close && <Button onClick={close}>Cancel</Button>}
          <Button
            type="submit"
            look={props.look === 'danger' ? 'destroy' : 'primary'}
            aria-disabled={isSending}
          >
            {props.action}
          </Button>
        </div>
      </form>
    </FormProblems>
  );
}
