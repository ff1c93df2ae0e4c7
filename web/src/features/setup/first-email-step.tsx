/** The key and the first email in test: both in one click, with the key filled in where the program needs it. */
import { useQuery } from '@tanstack/react-query';
import { Link, useSearch } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { ApiKey, Connection, EmailSummary } from '../../../../sdk/src/api.ts';
import { acceptedId, useApi } from '../../api/scope.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button, buttonLook } from '../../ui/button.tsx';
import { Choices } from '../../ui/choices.tsx';
import { Code } from '../../ui/states.tsx';
import { StatusBadge } from '../../ui/status.tsx';
import { Time } from '../../ui/time.tsx';
import type { Facts } from './steps.ts';
import { LANGUAGES, snippetOf } from './snippets.ts';
import { useAction, useApiIn, useReloadIn } from './use-action.tsx';

const KEY_NAME = 'Setup';
const TO = 'delivered@simulator.test';
const YOUR_KEY = 'YOUR_TEST_KEY';

type KeyProps = { secret: string | null; onSecret: (key: string) => void };

export function KeyStep({
  keys,
  secret,
  onSecret,
}: KeyProps & { keys: readonly ApiKey[] | undefined }): ReactNode {
  const { scope } = useApi();
  return (
    <>
      <p className="max-w-prose text-sm text-muted">
        A key of the test environment may only send. It delivers nothing, so it is safe to try with.
      </p>
      {secret !== null && (
        <>
          <p className="text-sm">Copy the key now. It is not shown again.</p>
          <Code what="key" text={secret} />
        </>
      )}
      <div className="flex flex-wrap items-center gap-2">
        {secret === null && <CreateKey keys={keys} onSecret={onSecret} />}
        <Link
          to="/$project/$environment/api-keys"
          params={{ ...scope, environment: 'test' }}
          className="link text-sm"
        >
          All keys
        </Link>
      </div>
    </>
  );
}

/** Creates a key, or replaces the one of this page, so that trying twice leaves one key. */
function CreateKey({
  keys,
  onSecret,
}: Omit<KeyProps, 'secret'> & { keys: readonly ApiKey[] | undefined }) {
  const api = useApiIn('test');
  const reload = useReloadIn('test');
  const existing = keys?.find(({ name }) => name === KEY_NAME);
  const { run, isRunning, failure } = useAction(async () => {
    const created = existing
      ? await api.call('rotateApiKey', { path: { id: existing.id }, body: { expires_in: 0 } })
      : await api.call('createApiKey', { body: { name: KEY_NAME, permission: 'sending_access' } });
    onSecret(created.key);
    await reload();
  });
  return (
    <>
      <Allowed to="createApiKey">
        <Button look="primary" disabled={isRunning} onClick={run}>
          {existing ? 'Replace the key of this page' : 'Create a test key'}
        </Button>
      </Allowed>
      {failure}
    </>
  );
}

export function FirstEmailStep({
  facts,
  secret,
  onSecret,
}: KeyProps & { facts: Facts }): ReactNode {
  const api = useApiIn('test');
  const domains = useQuery(api.query('listDomains', { query: { limit: 100 } }));
  const domain = domains.data?.data.find(({ status }) => status === 'verified')?.name;
  const connection = useQuery(useApi().query('getConnection')).data;
  if (domains.isPending || connection === undefined) return null;
  if (domain === undefined) return <TestDomain />;
  const from = `Hello <hello@${domain}>`;
  return (
    <>
      <Snippets from={from} secret={secret} connection={connection} />
      <div className="flex flex-wrap items-center gap-2">
        {secret === null && <CreateKey keys={facts.keys} onSecret={onSecret} />}
        <SendFromHere from={from} />
      </div>
      {facts.testEmail && <Outcome email={facts.testEmail} environment="test" />}
    </>
  );
}

/** The test environment verifies a domain without DNS. */
function TestDomain(): ReactNode {
  const api = useApiIn('test');
  const reload = useReloadIn('test');
  const { run, isRunning, failure } = useAction(async () => {
    const { id } = await api.call('createDomain', { body: { name: 'acme.test' } });
    await api.call('verifyDomain', { path: { id } });
    await reload();
  });
  return (
    <>
      <p className="text-sm">
        This project has no domain in test yet. There it needs no DNS records.
      </p>
      <Allowed to="createDomain">
        <Button look="primary" disabled={isRunning} onClick={run}>
          Add acme.test
        </Button>
      </Allowed>
      {failure}
    </>
  );
}

function Snippets(props: {
  from: string;
  secret: string | null;
  connection: Connection;
}): ReactNode {
  const { from, secret, connection } = props;
  const chosen = useSearch({ from: '/$project/$environment/setup' }).language;
  const language = LANGUAGES.find(([name]) => name === chosen)?.[0] ?? 'curl';
  const { smtp } = connection;
  const port = smtp.ports.find((one) => one === 587) ?? smtp.ports[0];
  const text = snippetOf(language, {
    url: connection.has_public_url ? connection.url : location.origin,
    key: secret ?? YOUR_KEY,
    from,
    to: TO,
    smtp: port === undefined ? null : { host: smtp.host, port },
  });
  return (
    <>
      <div className="flex flex-wrap items-center gap-x-4 gap-y-2">
        <div className="max-w-full overflow-x-auto">
          <Choices
            label="Language"
            name="language"
            chosen={language}
            options={LANGUAGES.map(([name, label]) => [name, label])}
          />
        </div>
        <span className="ml-auto text-sm text-muted">
          {secret === null ? `Replace ${YOUR_KEY} with a key` : 'Your key is filled in'}
        </span>
      </div>
      <Code what="program" text={text} />
    </>
  );
}

function SendFromHere({ from }: { from: string }): ReactNode {
  const api = useApiIn('test');
  const reload = useReloadIn('test');
  const { run, isRunning, failure } = useAction(async () => {
    const subject = 'Hello from Letterhaus';
    acceptedId(await api.call('sendEmail', { body: { from, to: TO, subject, text: 'It works.' } }));
    await reload();
  });
  return (
    <>
      <Allowed to="sendEmail">
        <Button disabled={isRunning} onClick={run}>
          Send it from here
        </Button>
      </Allowed>
      {failure}
    </>
  );
}

/** The newest email, which appears as soon as it is accepted. */
export function Outcome(props: { email: EmailSummary; environment: 'live' | 'test' }): ReactNode {
  const { email, environment } = props;
  const { scope } = useApi();
  return (
    <p
      role="status"
      className="flex flex-wrap items-center gap-x-3 gap-y-1 border-t border-line pt-3 text-sm"
    >
      <StatusBadge status={email.status} />
      <span className="font-medium break-words">{email.subject}</span>
      <span className="min-w-0 break-words text-muted">
        to {email.to.join(', ')}, <Time at={email.created_at} />
      </span>
      <Link
        to="/$project/$environment/emails/$id"
        params={{ ...scope, environment, id: email.id }}
        className={`${buttonLook({ size: 'small' })} ml-auto`}
      >
        Open email
      </Link>
    </p>
  );
}
