/** The passkeys of the signed-in member: list, add, remove. */
import { useQuery, useQueryClient, type UseQueryResult } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Passkey } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { sessionQuery, setupQuery } from '../../api/session.ts';
import { createPasskey, hasPasskeys } from '../../lib/passkey.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Section } from '../../ui/section.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { PasswordField, passwordIn } from './password-field.tsx';

const KEY = ['session', 'passkeys'] as const;

export function Passkeys(): ReactNode {
  const cache = useQueryClient();
  const { data: setup } = useQuery(setupQuery);
  const [open, setOpen] = useState<'add' | Passkey | null>(null);
  const passkeys = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => call('listPasskeys', { signal }),
  });
  const close = (): void => {
    setOpen(null);
    void cache.invalidateQueries({ queryKey: KEY });
    void cache.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
  };
  const add = async (form: FormData): Promise<void> => {
    const creation = await call('startPasskey', { body: passwordIn(form) });
    await call('addPasskey', { body: await createPasskey(creation, textOf(form, 'name')) });
    close();
  };
  const remove = async (form: FormData): Promise<void> => {
    if (open === null || open === 'add') return;
    await call('removePasskey', { path: { id: open.id }, body: passwordIn(form) });
    close();
  };
  const canAdd = setup?.passkeys === true && hasPasskeys();
  return (
    <>
      <Section
        title="Passkeys"
        about={
          canAdd
            ? 'Sign in with your device: no address, password or code. A passkey is a second factor, too.'
            : 'Passkeys need a host name and https: open the dashboard at its public address.'
        }
        actions={
          canAdd && (
            <Button size="small" onClick={() => setOpen('add')}>
              Add a passkey
            </Button>
          )
        }
        wide={listed(passkeys, setOpen)}
      />
      <Dialog isOpen={open === 'add'} onClose={close} title="Add a passkey">
        <ActionForm action="Continue" send={add}>
          <Field
            label="Name"
            name="name"
            hint="For example, of the device"
            maxLength={100}
            required
          />
          <PasswordField />
        </ActionForm>
      </Dialog>
      <Dialog isOpen={open !== null && open !== 'add'} onClose={close} title="Remove this passkey?">
        <ActionForm action="Remove" look="danger" send={remove}>
          <p>It no longer signs you in. Remove it from the device, too.</p>
          <PasswordField />
        </ActionForm>
      </Dialog>
    </>
  );
}

/** The list in its state; null while it is empty, because a card has no empty part. */
function listed(
  list: UseQueryResult<{ data: Passkey[] }>,
  onRemove: (one: Passkey) => void,
): ReactNode {
  if (list.isPending) return <RowsSkeleton rows={1} />;
  if (list.isError) return <Problem error={list.error} retry={() => void list.refetch()} />;
  const { data: rows } = list.data;
  return rows.length === 0 ? null : <PasskeyTable rows={rows} onRemove={onRemove} />;
}

function PasskeyTable(props: { rows: Passkey[]; onRemove: (one: Passkey) => void }): ReactNode {
  return (
    <Table
      label="Passkeys"
      rows={props.rows}
      keyOf={({ id }) => id}
      columns={[
        { title: 'Name', cell: ({ name }) => <span className="break-words">{name}</span> },
        { title: 'Added', cell: ({ created_at: at }) => <Time at={at} /> },
        {
          title: 'Last used',
          cell: ({ last_used_at: at }) => (at === null ? 'Never' : <Time at={at} />),
        },
        {
          title: '',
          isNumber: true,
          cell: (passkey) => (
            <Button
              size="small"
              look="danger"
              aria-label={`Remove the passkey ${passkey.name}`}
              onClick={() => props.onRemove(passkey)}
            >
              Remove
            </Button>
          ),
        },
      ]}
    />
  );
}
