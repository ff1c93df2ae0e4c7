/** The webhooks, and the form that adds one and shows its signing secret once. */
import { Link } from '@tanstack/react-router';
import { Plus, Webhook as Webhooks } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useList } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { useCreating } from '../../ui/creating.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { Card } from '../../ui/card.tsx';
import { Chip } from '../../ui/chip.tsx';
import { answerInWords, stateOf } from './responses.ts';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty } from '../../ui/states.tsx';
import { Dash, ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';
import { AddForm } from './webhook-forms.tsx';

const TONES = { enabled: 'good', failing: 'bad', disabled: 'quiet' } as const;

export function WebhookMark(props: { webhook: Webhook; size?: 'normal' | 'big' }): ReactNode {
  const { webhook, size = 'normal' } = props;
  const state = stateOf(webhook);
  return (
    <Chip tone={TONES[state]} size={size}>
      {state}
    </Chip>
  );
}

export function WebhooksScreen(): ReactNode {
  const [isAdding, setAdding] = useCreating();
  const list = useList('listWebhooks');
  const isEmpty = list.isSuccess && list.rows.length === 0;
  const add = (
    <Allowed to="createWebhook">
      <Button look="primary" onClick={() => setAdding(true)}>
        <Plus size={15} aria-hidden />
        Add a webhook
      </Button>
    </Allowed>
  );
  return (
    <>
      <PageHead
        title="Webhooks"
        about="Endpoints that receive signed events. Failed deliveries are retried for 3 days."
        primary={!isEmpty && add}
      />
      <PageBody>
        <Card wide={<WebhookList list={list} add={add} />} />
      </PageBody>
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Add a webhook">
        <AddForm />
      </Dialog>
    </>
  );
}

type List = ReturnType<typeof useList<'listWebhooks'>>;

function WebhookList({ list, add }: { list: List; add: ReactNode }): ReactNode {
  return (
    <ListTable
      label="Webhooks"
      list={list}
      keyOf={({ id }) => id}
      columns={[
        { title: 'URL', cell: (webhook) => <Url webhook={webhook} /> },
        { title: 'State', isState: true, cell: (webhook) => <WebhookMark webhook={webhook} /> },
        {
          title: 'Last failure',
          isPlain: true,
          cell: (webhook) => <LastFailure webhook={webhook} />,
        },
        {
          title: 'Events',
          isWide: true,
          cell: ({ events }) => <Events events={events} />,
        },
      ]}
      empty={
        <Empty
          title="No webhooks yet"
          icon={Webhooks}
          action={
            <>
              {add}
              <HandbookLink page="webhooks">How webhooks work</HandbookLink>
            </>
          }
        >
          <p>
            Add the URL of your application to be notified when an email is delivered, bounces or
            gets a complaint.
          </p>
        </Empty>
      }
    />
  );
}

/** Some types of events in a line; all of them in the title. */
function Events({ events }: Pick<Webhook, 'events'>): ReactNode {
  if (events === null) return 'All events';
  const rest = events.length - EVENTS_SHOWN;
  return (
    <span className="block max-w-60 break-words" title={events.join(', ')}>
      {events.slice(0, rest > 1 ? EVENTS_SHOWN : undefined).join(', ')}
      {rest > 1 && <span className="whitespace-nowrap text-muted"> and {rest} more</span>}
    </span>
  );
}

const EVENTS_SHOWN = 2;

function Url({ webhook: { id, url } }: { webhook: Webhook }): ReactNode {
  const { scope } = useApi();
  return (
    <Link
      to="/$project/$environment/webhooks/$id"
      params={{ ...scope, id }}
      className="cell-link font-medium [overflow-wrap:anywhere]"
    >
      {url}
    </Link>
  );
}

function LastFailure({ webhook: { last_failure: last } }: { webhook: Webhook }): ReactNode {
  if (last === null) return <Dash />;
  return (
    <span className="block max-w-md break-words">
      <span className="line-clamp-2 first-letter:uppercase" title={answerInWords(last)}>
        {answerInWords(last)}
      </span>
      <span className="text-xs text-muted">
        <Time at={last.at} />
      </span>
    </span>
  );
}
