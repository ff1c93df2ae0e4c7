/** The webhooks, and the form that adds one and shows its signing secret once. */
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useList } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { useCreating } from '../../ui/creating.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Chip } from '../../ui/chip.tsx';
import { answerInWords, stateOf } from './responses.ts';
import { PageHead } from '../../ui/page.tsx';
import { Empty } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { AddForm } from './webhook-forms.tsx';

const TONES = { enabled: 'good', failing: 'bad', disabled: 'quiet' } as const;

export function WebhookMark({ webhook }: { webhook: Webhook }): ReactNode {
  const state = stateOf(webhook);
  return (
    <Chip tone={TONES[state]} isQuiet={state === 'enabled'}>
      {state}
    </Chip>
  );
}

export function WebhooksScreen(): ReactNode {
  const { scope } = useApi();
  const [isAdding, setAdding] = useCreating();
  const list = useList('listWebhooks');
  return (
    <>
      <PageHead
        title="Webhooks"
        about="Endpoints that receive signed events. Failed deliveries are retried."
      >
        <Allowed to="createWebhook">
          <Button look="primary" onClick={() => setAdding(true)}>
            Add a webhook
          </Button>
        </Allowed>
      </PageHead>
      <ListTable
        label="Webhooks"
        list={list}
        keyOf={({ id }) => id}
        columns={[
          {
            title: 'URL',
            cell: ({ id, url }) => (
              <Link
                to="/$project/$environment/webhooks/$id"
                params={{ ...scope, id }}
                className="font-mono text-xs break-all hover:underline"
              >
                {url}
              </Link>
            ),
          },
          { title: 'State', cell: (webhook) => <WebhookMark webhook={webhook} /> },
          {
            title: 'Last failure',
            isWide: true,
            cell: ({ last_failure: last }) =>
              last && (
                <span className="line-clamp-2 max-w-md break-words">
                  {answerInWords(last)}, <Time at={last.at} />
                </span>
              ),
          },
          { title: 'Events', isWide: true, cell: ({ events }) => events?.join(', ') ?? 'all' },
        ]}
        empty={
          <Empty title="No webhooks yet">
            <p>
              Add the URL of your application to be notified when an email is delivered, bounces or
              gets a complaint.
            </p>
          </Empty>
        }
      />
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Add a webhook">
        <AddForm />
      </Dialog>
    </>
  );
}
