/** The API keys of a project and environment, with the restrictions of each. A new key is shown once. */
import { useQuery } from '@tanstack/react-query';
import { KeyRound, Pencil, Plus, RotateCw, Trash2, TriangleAlert } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { ApiKey } from '../../../../sdk/src/api.ts';
import { findInList, useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import type { Fields } from '../../ui/shared-change.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { Allowed, AllowedScreen, useMay } from '../../ui/allowed.tsx';
import { useSelection } from '../../ui/bulk.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { useCreating } from '../../ui/creating.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { chosenOf, Field, textOf } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { MoreMenu } from '../../ui/more-menu.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Select } from '../../ui/select.tsx';
import { Code, Empty } from '../../ui/states.tsx';
import { ListTable, Never } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { serverNowMs } from '../../lib/clock.ts';
import { absoluteTime } from '../../lib/time.ts';
import { RotateForm } from './rotate-form.tsx';

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
  const [isAdding, setAdding] = useCreating();
  const [edited, setEdited] = useState<ApiKey | null>(null);
  const [revoked, setRevoked] = useState<readonly ApiKey[]>([]);
  const [rotated, setRotated] = useState<ApiKey | null>(null);
  const list = useList('listApiKeys');
  const selection = useSelection({
    rows: list.rows,
    keyOf: ({ id }) => id,
    nameOf: ({ name }) => name,
    isHidden: !may('revokeApiKey'),
  });
  const create = (
    <Allowed to="createApiKey">
      <Button look="primary" onClick={() => setAdding(true)}>
        <Plus size={15} aria-hidden />
        Create a key
      </Button>
    </Allowed>
  );
  return (
    <>
      <PageHead
        title="API keys"
        about={`Keys for the ${scope.environment} environment of this project.`}
        primary={list.rows.length > 0 && create}
      />
      <PageBody>
        <Card
          wide={
            <KeyTable
              {...{ list, selection, create }}
              onChange={setEdited}
              onRotate={setRotated}
              onRevoke={setRevoked}
            />
          }
        />
      </PageBody>
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Create a key">
        <CreateForm />
      </Dialog>
      <Dialog isOpen={edited !== null} onClose={() => setEdited(null)} title="Change this key">
        {edited && <ChangeForm apiKey={edited} onDone={() => setEdited(null)} />}
      </Dialog>
      <Dialog isOpen={rotated !== null} onClose={() => setRotated(null)} title="Rotate this key">
        {rotated && <RotateForm apiKey={rotated} />}
      </Dialog>
      <Dialog
        isOpen={revoked.length > 0}
        onClose={() => setRevoked([])}
        title={revoked.length > 1 ? `Revoke ${revoked.length} keys?` : 'Revoke this key?'}
      >
        <RevokeForm
          keys={revoked}
          onDone={() => {
            selection.clear();
            setRevoked([]);
          }}
        />
      </Dialog>
    </>
  );
}

function KeyTable(props: {
  list: ReturnType<typeof useList<'listApiKeys'>>;
  selection: ReturnType<typeof useSelection<ApiKey>>;
  create: ReactNode;
  onChange: (key: ApiKey) => void;
  onRotate: (key: ApiKey) => void;
  onRevoke: (keys: readonly ApiKey[]) => void;
}): ReactNode {
  const { list, selection, create, onChange, onRotate, onRevoke } = props;
  const may = useMay();
  return (
    <>
      {selection.bar(
        <Button size="small" look="danger" onClick={() => onRevoke(selection.chosen)}>
          Revoke {selection.chosen.length}
        </Button>,
      )}
      <ListTable
        label="API keys"
        list={list}
        isChosen={(key) => selection.chosen.includes(key)}
        keyOf={({ id }) => id}
        columns={[
          selection.column,
          {
            title: 'Name',
            cell: (key) => <NameCell apiKey={key} />,
          },
          {
            title: 'Permission',
            isPlain: true,
            isLine: true,
            cell: (key) => <PermissionCell apiKey={key} />,
          },
          {
            title: 'Expires',
            cell: ({ expires_at: at }) => <Expiry at={at} />,
          },
          {
            title: 'Last used',
            isNumber: true,
            cell: ({ last_used_at: at }) => (at === null ? <Never /> : <Time at={at} />),
          },
          {
            title: '',
            isNumber: true,
            isHidden: !may('revokeApiKey'),
            cell: (key) => (
              <KeyMenu
                name={key.name}
                onChange={() => onChange(key)}
                onRotate={() => onRotate(key)}
                onRevoke={() => onRevoke([key])}
              />
            ),
          },
        ]}
        empty={<NoKeys create={create} />}
      />
    </>
  );
}

function NoKeys({ create }: { create: ReactNode }): ReactNode {
  return (
    <Empty
      title="No API keys yet"
      icon={KeyRound}
      action={
        <>
          {create}
          <HandbookLink page="api">How requests are made</HandbookLink>
        </>
      }
    >
      <p>Applications send emails with a key of this project and environment.</p>
    </Empty>
  );
}

function KeyMenu(props: {
  name: string;
  onChange: () => void;
  onRotate: () => void;
  onRevoke: () => void;
}): ReactNode {
  return (
    <MoreMenu
      label={`More actions for ${props.name}`}
      size="small"
      items={[
        { label: 'Change', icon: Pencil, onChoose: props.onChange },
        { label: 'Rotate', icon: RotateCw, onChoose: props.onRotate },
        { label: 'Revoke', icon: Trash2, isDestructive: true, onChoose: props.onRevoke },
      ]}
    />
  );
}

function NameCell({ apiKey }: { apiKey: ApiKey }): ReactNode {
  return (
    <div className="break-words">
      <span className="font-medium">{apiKey.name}</span>
      <code className="block font-mono text-xs text-muted">{apiKey.hint}</code>
      {apiKey.warnings.map((warning) => (
        <p key={warning} className="flex gap-1.5 text-xs text-bad">
          <TriangleAlert size={13} aria-hidden className="mt-0.5 shrink-0" />
          {warning}
        </p>
      ))}
    </div>
  );
}

/** When a key expires; a chip when that is soon. */
function Expiry({ at }: { at: string | null }): ReactNode {
  if (at === null) return <Never />;
  const leftMs = Date.parse(at) - serverNowMs();
  if (leftMs > SOON_DAYS * DAY_MS) return <Time at={at} />;
  return (
    <Chip tone={leftMs <= 0 ? 'bad' : 'wait'}>
      {leftMs <= 0 && 'expired '}
      <Time at={at} />
    </Chip>
  );
}

const DAY_MS = 86_400_000;
const SOON_DAYS = 7;

const LISTS = [
  ['allowed_networks', 'Used from', 'Used only from networks', '203.0.113.0/24, 2001:db8::/32'],
  ['allowed_senders', 'Sends from', 'Sends only from', 'billing@acme.com, *.acme.com'],
  ['allowed_recipients', 'Sends to', 'Sends only to', 'acme.com, jo@example.org'],
] as const;

function PermissionCell({ apiKey }: { apiKey: ApiKey }): ReactNode {
  return (
    <>
      {PERMISSIONS.find(([name]) => name === apiKey.permission)?.[1] ?? apiKey.permission}
      <Restrictions apiKey={apiKey} />
    </>
  );
}

/** Where a key is limited to a domain, networks, senders or recipients. */
function Restrictions({ apiKey }: { apiKey: ApiKey }): ReactNode {
  const lists = LISTS.flatMap(([name, label]) => {
    const entries = apiKey[name];
    return entries ? `${label} ${entries.join(', ')}` : [];
  });
  const lines = apiKey.domain === null ? lists : [`For ${apiKey.domain}`, ...lists];
  return lines.map((line) => (
    <p
      key={line}
      className="[overflow-wrap:anywhere] text-muted max-md:inline max-md:before:mx-1.5 max-md:before:content-['·'/''] md:text-xs"
    >
      {line}
    </p>
  ));
}

/** The lists of a key, each in one field. An empty field does not limit the key. */
function ListFields({ apiKey }: { apiKey?: ApiKey }): ReactNode {
  return LISTS.map(([name, , label, example]) => (
    <Field
      key={name}
      label={label}
      name={name}
      placeholder={example}
      defaultValue={apiKey?.[name]?.join(', ')}
      hint="Separate several with commas. Leave empty for no limit."
      autoComplete="off"
    />
  ));
}

function listIn(form: FormData, name: string): string[] | null {
  const entries = textOf(form, name)
    .split(/[\s,]+/)
    .filter((entry) => entry !== '');
  return entries.length === 0 ? null : entries;
}

function listsIn(form: FormData) {
  return {
    allowed_networks: listIn(form, 'allowed_networks'),
    allowed_senders: listIn(form, 'allowed_senders'),
    allowed_recipients: listIn(form, 'allowed_recipients'),
  };
}

const FIELDS = {
  name: 'Name',
  allowed_networks: 'Used only from networks',
  allowed_senders: 'Sends only from',
  allowed_recipients: 'Sends only to',
} as const;

function ChangeForm({ apiKey, onDone }: { apiKey: ApiKey; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const { id } = apiKey;
  return (
    <SharedForm
      action="Save"
      object={apiKey}
      of={{ target_id: id }}
      fields={FIELDS}
      bodyOf={(form) => ({ name: textOf(form, 'name'), ...listsIn(form) })}
      change={(body, headers) => api.call('updateApiKey', { path: { id }, body, headers })}
      read={() => findInList(api, 'listApiKeys', (one) => one.id === id)}
      onDone={async () => {
        await reload('listApiKeys');
        onDone();
      }}
    >
      {(object) => (
        <>
          <Field label="Name" name="name" defaultValue={object.name} autoComplete="off" required />
          <ListFields apiKey={object} />
        </>
      )}
    </SharedForm>
  );
}

const EXPIRIES = [
  ['', 'Never'],
  ['7', 'In 7 days'],
  ['30', 'In 30 days'],
  ['90', 'In 90 days'],
  ['365', 'In a year'],
] as const;

function expiryIn(form: FormData): string | null {
  const days = textOf(form, 'expires');
  return days === '' ? null : new Date(serverNowMs() + Number(days) * DAY_MS).toISOString();
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
      ...(expiryIn(form) !== null && { expires_at: expiryIn(form) }),
      ...listsIn(form),
    };
    setKey((await api.call('createApiKey', { body })).key);
    await reload('listApiKeys');
  };
  if (key !== null) {
    return (
      <div className="space-y-3 px-5 pt-1 pb-5">
        <p>Copy the key now. It is not shown again.</p>
        <Code what="key" text={key} />
      </div>
    );
  }
  return (
    <ActionForm action="Create" send={create}>
      <Field label="Name" name="name" placeholder="Shop" autoComplete="off" required />
      <Select label="Permission" name="permission" options={PERMISSIONS} />
      <Select label="Restrict to domain" name="domain" options={[['', 'Any domain'], ...domains]} />
      <Select label="Expires" name="expires" options={EXPIRIES} />
      <ListFields />
    </ActionForm>
  );
}

/** The fields of a key that somebody can change. */
const CHANGES: Fields<ApiKey> = {
  ...FIELDS,
  permission: 'Permission',
  domain: 'Domain',
  expires_at: ['Expires', (at) => (at === null ? 'never' : absoluteTime(at))],
};

function RevokeForm({ keys, onDone }: { keys: readonly ApiKey[]; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  return (
    <SharedAction
      action="Revoke"
      look="danger"
      objects={keys}
      nameOf={({ name }) => name}
      of={({ id }) => ({ target_id: id })}
      changes={CHANGES}
      act={({ id }, headers) => api.call('revokeApiKey', { path: { id }, headers })}
      read={({ id }) => findInList(api, 'listApiKeys', (one) => one.id === id)}
      onSome={() => reload('listApiKeys')}
      onDone={onDone}
    >
      {(left) => (
        <>
          <p>
            Requests with {left.length > 1 ? 'these keys' : 'this key'} will be refused. This cannot
            be undone.
          </p>
          <ul className="text-sm">
            {left.map(({ id, name, hint }) => (
              <li key={id}>
                “{name}” (<code className="font-mono text-xs">{hint}</code>)
              </li>
            ))}
          </ul>
        </>
      )}
    </SharedAction>
  );
}
