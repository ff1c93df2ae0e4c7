/** The form that saves a search as a view. */
import type { ReactNode } from 'react';
import { useReload } from '../../../api/list.ts';
import { useApi } from '../../../api/scope.ts';
import { ActionForm } from '../../../ui/action-form.tsx';
import { Field, textOf } from '../../../ui/field.tsx';

export function SaveView({ q, onDone }: { q: string; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const save = async (form: FormData): Promise<void> => {
    await api.call('saveView', { body: { name: textOf(form, 'name'), q } });
    await reload('listViews');
    onDone();
  };
  return (
    <ActionForm action="Save" send={save}>
      <p>
        Saves <span className="font-mono text-xs break-all">{q}</span> as a view, for you in this
        project.
      </p>
      <Field
        label="Name"
        name="name"
        maxLength={80}
        autoComplete="off"
        hint="A view with the same name is replaced."
        required
        // The form is loaded after its dialog has opened.
        autoFocus
      />
    </ActionForm>
  );
}
