/** Settings of the installation as a whole, for its owners. Each is changed where it is shown. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { ProviderBlock, RetentionState } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { inWords } from '../../lib/time.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Fact, Facts } from '../../ui/facts.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { useLastChange } from '../../ui/last-change.tsx';
import { PageBody } from '../../ui/page.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { sentenceOf } from '../../ui/states.tsx';
import { Table } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { Variables } from './variables.tsx';

export function Installation(): ReactNode {
  return (
    <PageBody>
      <Hold />
      <ReturnPathHost />
      <Retention />
      <Blocks />
      <TlsFailures />
      <Variables />
    </PageBody>
  );
}

/** Only after a restore: nothing is sent until an owner has looked. */
function Hold(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [isOpen, setOpen] = useState(false);
  const isOnHold = useQuery(api.query('getStatus')).data?.on_hold === true;
  const hold = useQuery({ ...api.query('getHold'), enabled: isOnHold, retry: false }).data;
  if (!isOnHold || hold === undefined) return null;
  const unsent = hold.mail.reduce((sum, one) => sum + one.unsent, 0);
  const inDoubt = hold.mail.reduce((sum, one) => sum + one.in_doubt, 0);
  const release = async (form: FormData): Promise<void> => {
    await api.call('endHold', { body: { except_in_doubt: form.get('except_in_doubt') !== null } });
    await Promise.all([reload('getStatus'), reload('getHold')]);
    setOpen(false);
  };
  return (
    <Verdict
      tone="wait"
      title="The installation is on hold after a restore"
      action={
        <Button look="primary" onClick={() => setOpen(true)}>
          Release…
        </Button>
      }
    >
      <p>
        It accepts mail and sends none. A release sends to {unsent.toLocaleString()} recipients and{' '}
        {hold.webhooks.toLocaleString()} webhook deliveries; {inDoubt.toLocaleString()} recipients
        may have got their email before the loss.
      </p>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Release the installation?">
        <ActionForm action="Release" send={release}>
          <label className="flex items-center gap-2 text-sm">
            <input type="checkbox" name="except_in_doubt" defaultChecked />
            Keep recipients in doubt on hold in the queue
          </label>
        </ActionForm>
      </Dialog>
    </Verdict>
  );
}

function ReturnPathHost(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [isOpen, setOpen] = useState(false);
  const host = useQuery(api.query('getReturnPathHost')).data;
  const last = useLastChange(host?.name ?? '');
  if (host === undefined) return null;
  const done = async (): Promise<void> => {
    await Promise.all([reload('getReturnPathHost'), reload('listAuditEvents')]);
    setOpen(false);
  };
  return (
    <Card
      title="Host for bounces"
      about="Bounces of all domains go to this host."
      actions={
        <Button size="small" onClick={() => setOpen(true)}>
          Change the host
        </Button>
      }
      footer={last}
    >
      <Facts isWide>
        <Fact name="Host" isCode={host.name !== null}>
          {host.name ?? 'Not set yet'}
        </Fact>
        <Fact name="Host names of the nodes" isCode>
          {host.node_names.join(', ') || '–'}
        </Fact>
      </Facts>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Change the host for bounces">
        <SharedForm
          action="Save"
          object={host}
          of={{ action: 'setReturnPathHost' }}
          fields={{ name: 'Host' }}
          bodyOf={(form) => ({ name: textOf(form, 'name') })}
          change={(body, headers) => api.call('setReturnPathHost', { body, headers })}
          read={() => api.call('getReturnPathHost')}
          onDone={done}
        >
          {({ name }) => (
            <>
              <p>Verified domains have 72 hours to publish the new host.</p>
              <Field
                label="Host"
                name="name"
                defaultValue={name ?? ''}
                placeholder="mail.example.com"
                autoComplete="off"
                required
              />
            </>
          )}
        </SharedForm>
      </Dialog>
    </Card>
  );
}

function Retention(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [isOpen, setOpen] = useState(false);
  const state = useQuery(api.query('getRetention')).data;
  if (state === undefined) return null;
  const confirm = async (): Promise<void> => {
    await api.call('confirmRetention');
    await reload('getRetention');
    setOpen(false);
  };
  const isWaiting = state.waiting.length > 0 || state.held_until !== null;
  return (
    <Card
      title="How long mail is kept"
      about={
        <>
          A project may have shorter periods.{' '}
          <HandbookLink page="configuration#how-long-mail-is-kept" isInText>
            How to set them
          </HandbookLink>
        </>
      }
      actions={
        isWaiting && (
          <Button size="small" look="danger" onClick={() => setOpen(true)}>
            Remove what is due…
          </Button>
        )
      }
    >
      <RetentionFacts state={state} />
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title="Remove all mail that is due?">
        <ActionForm action="Remove" look="danger" send={confirm}>
          <p>All due mail is removed within ten minutes. This cannot be undone.</p>
        </ActionForm>
      </Dialog>
    </Card>
  );
}

function RetentionFacts({ state }: { state: RetentionState }): ReactNode {
  return (
    <div className="space-y-2 text-sm">
      <Facts isWide>
        <Fact name="Content">{kept(state.content)}</Fact>
        <Fact name="Emails with their timeline">{kept(state.metadata)}</Fact>
        <Fact name="Last check for mail to remove">
          {state.ran_at === null ? 'Never' : <Time at={state.ran_at} />}
        </Fact>
      </Facts>
      {state.held_until !== null && (
        <p className="text-wait">
          Paused until <Time at={state.held_until} />, because the clock of the database moved by{' '}
          {inWords(Math.abs(state.clock_moved_s ?? 0))}.
        </p>
      )}
      {state.waiting.length > 0 && (
        <p className="text-wait">
          {state.waiting.length} due weeks are removed on later days, a tenth of all a day.
        </p>
      )}
    </div>
  );
}

/** "45 days"; the service writes "45d". */
function kept(period: string): string {
  const [, number = '', unit = ''] = /^(\d+)([dh])$/.exec(period) ?? [];
  if (number === '') return period === 'ever' ? 'for ever' : period;
  const noun = unit === 'd' ? 'day' : 'hour';
  return `${number} ${number === '1' ? noun : `${noun}s`}`;
}

function Blocks(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [failure, setFailure] = useState<string | null>(null);
  const blocks = useQuery(api.query('listProviderBlocks')).data?.data ?? [];
  if (blocks.length === 0) return null;
  const probe = async ({ provider }: ProviderBlock): Promise<void> => {
    setFailure(null);
    await api
      .call('probeProvider', { path: { provider } })
      .catch((error: unknown) => setFailure(sentenceOf(error)));
    await reload('listProviderBlocks');
  };
  return (
    <Card
      title="Providers that refuse this installation"
      tone="bad"
      wide={
        <Table
          label="Provider blocks"
          rows={blocks}
          keyOf={({ provider, subject }) => `${provider} ${subject}`}
          columns={[
            { title: 'Provider', cell: ({ provider }) => provider },
            {
              title: 'Refuses',
              isPlain: true,
              cell: ({ subject, reply }) => (
                <span className="break-words">
                  {subject}
                  <span className="block font-mono text-xs text-muted">{reply}</span>
                </span>
              ),
            },
            {
              title: 'Since',
              cell: ({ since }) => (since === null ? '–' : <Time at={since} />),
            },
            {
              title: 'Next try',
              isNumber: true,
              cell: ({ next_probe_in_s: seconds }) =>
                seconds === null ? 'Under way' : `In ${inWords(seconds)}`,
            },
            {
              title: '',
              isNumber: true,
              cell: (block) => (
                <Button
                  size="small"
                  look="quiet"
                  aria-label={`Try ${block.provider} now`}
                  onClick={() => void probe(block)}
                >
                  Try now
                </Button>
              ),
            },
          ]}
        />
      }
    >
      {failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {failure}
        </p>
      )}
    </Card>
  );
}

/** Sessions that were refused because TLS was not as the receiver's policy requires. */
function TlsFailures(): ReactNode {
  const api = useApi();
  const results = useQuery(api.query('listTlsResults', { query: { days: 7 } })).data?.data ?? [];
  const failed = results.filter(({ result }) => result !== 'success');
  if (failed.length === 0) return null;
  return (
    <Card
      title="TLS that failed in 7 days"
      about={
        <HandbookLink page="transport-security" isInText>
          How TLS is checked
        </HandbookLink>
      }
      wide={
        <Table
          label="TLS failures"
          rows={failed}
          keyOf={({ day, domain, policy, result }) => `${day} ${domain} ${policy} ${result}`}
          columns={[
            {
              title: 'Day',
              cell: ({ day }) => <span className="whitespace-nowrap tabular-nums">{day}</span>,
            },
            {
              title: 'Domain',
              isPlain: true,
              cell: ({ domain }) => <span className="break-all">{domain}</span>,
            },
            { title: 'Result', isPlain: true, cell: ({ result }) => result },
            {
              title: 'Sessions',
              isNumber: true,
              cell: ({ sessions }) => sessions.toLocaleString(),
            },
          ]}
        />
      }
    />
  );
}
