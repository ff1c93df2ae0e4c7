/** The API keys of a project and environment. A new key is shown once. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { ApiKey } from '../../../../sdk/src/api.ts';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, AllowedScreen, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { chosenOf, Field, Select, textOf } from '../../ui/field.tsx';
import { PageHead } from '../../ui/page.tsx';
import { Code, Empty } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

const PERMISSIONS = [
  ['full_access', 'Full access'],
  ['sending_access', 'Sending only'],
] as const;

export function ApiKeysScreen(): ReactNode {
  return (
    <AllowedScreen to="listApiKeys" title="API keys">
      <Keys />
    </AllowedScreen>
  );
}

function Keys(): ReactNode {
  const may = useMay();
  const { scope } = useApi();
  const [isAdding, setAdding] = useState(false);
  const [revoked, setRevoked] = useState<ApiKey | null>(null);
  const list = useList('listApiKeys');
  return (
    <>
      <PageHead
        title="API keys"
        about={`Keys for the ${scope.environment} environment of this project.`}
      >
        <Allowed to="createApiKey">
          <Button look="primary" onClick={() => setAdding(true)}>
            Create a key
          </Button>
        </Allowed>
      </PageHead>
      <ListTable
        label="API keys"
        list={list}
        keyOf={({ id }) => id}
        columns={[
          {
            title: 'Name',
            cell: ({ name }) => <span className="font-medium break-words">{name}</span>,
          },
          {
            title: 'Key',
            isWide: true,
            cell: ({ hint }) => <code className="font-mono text-xs">{hint}</code>,
          },
          { title: 'Permission', isWide: true, cell: permissionOf },
          {
            title: 'Last used',
            cell: ({ last_used_at: at }) =>
              at === null ? <span className="text-muted">never</span> : <Time at={at} />,
          },
          {
            title: '',
            isNumber: true,
            isHidden: !may('revokeApiKey'),
            cell: (key) => (
              <Button
                look="danger"
                aria-label={`Revoke ${key.name}`}
                onClick={() => setRevoked(key)}
              >
                Revoke
              </Button>
            ),
          },
        ]}
        empty={
          <Empty title="No API keys yet">
            <p>Applications send emails with a key of this project and environment.</p>
          </Empty>
        }
      />
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Create a key">
        <CreateForm />
      </Dialog>
      <Dialog isOpen={revoked !== null} onClose={() => setRevoked(null)} title="Revoke this key?">
        {revoked && <RevokeForm apiKey={revoked} onDone={() => setRevoked(null)} />}
      </Dialog>
    </>
  );
}

function permissionOf({ permission, domain }: ApiKey): string {
  const words = PERMISSIONS.find(([name]) => name === permission)?.[1] ?? permission;
  return domain === null ? words : `${words}, ${domain}`;
}

function CreateForm(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [key, setKey] = useState<string | null>(null);
  const { data } = useQuery(api.query('listDomains', { query: { limit: 100 } }));
  const domains = (data?.data ?? []).map(({ name }) => [name, name] as const);
  const create = async (form: FormData): Promise<void> => {
    const domain = textOf(form, 'domain');
    const body = {
      name: textOf(form, 'name'),
      permission: chosenOf(form, 'permission', PERMISSIONS),
      ...(domain !== '' && { domain }),
    };
    setKey((await api.call('createApiKey', { body })).key);
    await reload('listApiKeys');
  };
  if (key !== null) {
    return (
      <div className="space-y-3 p-4">
        <p>Copy the key now. It is not shown again.</p>
        <Code what="key" text={key} />
      </div>
    );
  }
  return (
    <ActionForm action="Create" send={create}>
      <Field label="Name" name="name" placeholder="Shop" autoComplete="off" required />
      <Select label="Permission" name="permission" options={PERMISSIONS} />
      <Select label="Restrict to domain" name="domain" options={[['', 'any domain'], ...domains]} />
    </ActionForm>
  );
}

function RevokeForm({ apiKey, onDone }: { apiKey: ApiKey; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const revoke = async (): Promise<void> => {
    await api.call('revokeApiKey', { path: { id: apiKey.id } });
    await reload('listApiKeys');
    onDone();
  };
  return (
    <ActionForm action="Revoke" look="danger" send={revoke}>
      <p>
        Requests with “{apiKey.name}” (<code className="font-mono text-xs">{apiKey.hint}</code>)
        will be refused. This cannot be undone.
      </p>
    </ActionForm>
  );
}
