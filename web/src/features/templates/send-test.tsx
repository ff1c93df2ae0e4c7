/** Sends the preview as an email: for real, or in the test environment, where nothing is delivered. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { RenderedTemplate } from '../../../../sdk/src/api.ts';
import type { Scope } from '../../api/client.ts';
import { acceptedId, apiOf, useScope } from '../../api/scope.ts';
import { sessionQuery } from '../../api/session.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, INPUT, textOf } from '../../ui/field.tsx';

/** @param options.rendered null: the draft has problems, so there is nothing to send */
export function SendTest({ rendered }: { rendered: RenderedTemplate | null }): ReactNode {
  const [isOpen, setOpen] = useState(false);
  return (
    <Allowed to="sendEmail">
      <Button disabled={rendered === null} onClick={() => setOpen(true)}>
        Send a test
      </Button>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Send a test">
        {rendered && <TestForm rendered={rendered} />}
      </Dialog>
    </Allowed>
  );
}

function TestForm({ rendered }: { rendered: RenderedTemplate }): ReactNode {
  const here = useScope();
  const { data: session } = useQuery(sessionQuery);
  const [environment, setEnvironment] = useState(here.environment);
  const [sent, setSent] = useState<string | null>(null);
  /** As typed; until then the domains, which are read meanwhile, suggest one. */
  const [from, setFrom] = useState<string | null>(null);
  const api = apiOf({ ...here, environment });
  const domains = useQuery(api.query('listDomains', { query: { limit: 100 } }));
  const domain = domains.data?.data.find(
    ({ status }) => status === 'verified' || status === 'degraded',
  )?.name;
  const send = async (form: FormData): Promise<void> => {
    setSent(null);
    const { subject, html, text } = rendered;
    const content = { subject, ...(html !== null && { html }), ...(text !== null && { text }) };
    const body = { from: textOf(form, 'from'), to: textOf(form, 'to'), ...content };
    setSent(acceptedId(await api.call('sendEmail', { body })));
  };
  const isLive = environment === 'live';
  return (
    <ActionForm action="Send" send={send}>
      {here.environment === 'live' && (
        <label className="block text-sm font-medium">
          Environment
          <select
            value={environment}
            onChange={({ target }) => setEnvironment(target.value as Scope['environment'])}
            className={`${INPUT} own-select mt-1`}
          >
            <option value="live">Live: delivered</option>
            <option value="test">Test: shown in the test inbox only</option>
          </select>
        </label>
      )}
      <p className="text-sm text-muted">
        {isLive
          ? 'Sends the preview as a real email.'
          : 'Sends the preview in the test environment. It is not delivered.'}
      </p>
      <Field
        label="From"
        name="from"
        value={from ?? (domain ? `test@${domain}` : '')}
        onChange={({ target }) => setFrom(target.value)}
        hint={domains.isSuccess && !domain ? 'There is no verified domain yet.' : undefined}
        required
      />
      <Field label="To" name="to" defaultValue={session?.member.email} required />
      {sent !== null && (
        <p role="status" className="text-sm">
          Accepted.{' '}
          <Link
            to={`/$project/$environment/${isLive ? 'emails' : 'test-inbox'}/$id`}
            params={{ ...api.scope, id: sent }}
            className="text-accent underline"
          >
            Show the email
          </Link>
        </p>
      )}
    </ActionForm>
  );
}
