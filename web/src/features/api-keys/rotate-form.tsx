/** Replaces a key by another one with the same rights. The old one still works for a while, so that nothing stops. */
import { type ReactNode, useState } from 'react';
import type { ApiKey } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { textOf } from '../../ui/field.tsx';
import { LastChange } from '../../ui/last-change.tsx';
import { Select } from '../../ui/select.tsx';
import { Code } from '../../ui/states.tsx';

/** Seconds for which the old key stays valid. */
const OVERLAPS = [
  ['86400', 'For a day'],
  ['604800', 'For 7 days'],
  ['2592000', 'For 30 days'],
  ['0', 'Not at all'],
] as const;

export function RotateForm({ apiKey }: { apiKey: ApiKey }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [key, setKey] = useState<string | null>(null);
  const rotate = async (form: FormData): Promise<void> => {
    const body = { expires_in: Number(textOf(form, 'expires_in')) };
    setKey((await api.call('rotateApiKey', { path: { id: apiKey.id }, body })).key);
    await reload('listApiKeys');
  };
  if (key !== null) {
    return (
      <div className="space-y-3 px-5 pt-1 pb-5">
        <p>Copy the new key now. It is not shown again.</p>
        <Code what="key" text={key} />
      </div>
    );
  }
  return (
    <ActionForm action="Rotate" send={rotate}>
      <p>
        “{apiKey.name}” gets a new key with the same rights. Put it into your applications before
        the old one ends.
      </p>
      <Select label="The old key works on" name="expires_in" options={OVERLAPS} />
      <LastChange of={apiKey.id} />
    </ActionForm>
  );
}
