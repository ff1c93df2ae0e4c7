/** The forms of a webhook: add, edit, rotate its secret, replay events. */
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { PROJECT_EVENT_TYPES } from '../../../../src/core/events.ts';
import type { Webhook, WebhookCreation } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { chosenOf, Field, FieldProblem, textOf } from '../../ui/field.tsx';
import { FieldRefusal } from '../../ui/form-problems.ts';
import { Select } from '../../ui/select.tsx';
import { Code } from '../../ui/states.tsx';

export function AddForm(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [secret, setSecret] = useState<string | null>(null);
  const add = async (form: FormData): Promise<void> => {
    setSecret((await api.call('createWebhook', { body: readWebhook(form) })).signing_secret);
    await reload('listWebhooks');
  };
  if (secret !== null) return <Secret secret={secret} />;
  return (
    <ActionForm action="Add" send={add}>
      <WebhookFields />
    </ActionForm>
  );
}

export function EditForm({ webhook, onDone }: { webhook: Webhook; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const path = { id: webhook.id };
  return (
    <SharedForm
      action="Save"
      object={webhook}
      of={{ target_id: webhook.id }}
      fields={{ url: 'URL', events: ['Events', eventsInWords] }}
      bodyOf={readWebhook}
      change={(body, headers) => api.call('updateWebhook', { path, body, headers })}
      read={() => api.call('getWebhook', { path })}
      onDone={async () => {
        await reload('listWebhooks');
        onDone();
      }}
    >
      {(object) => <WebhookFields webhook={object} />}
    </SharedForm>
  );
}

export function eventsInWords(events: Webhook['events']): string {
  return events === null ? 'all' : events.toSorted().join(', ');
}

function readWebhook(form: FormData): Pick<WebhookCreation, 'url' | 'events'> {
  const url = textOf(form, 'url');
  if (textOf(form, 'which') === 'all') return { url, events: null };
  const ticked = form.getAll('events');
  const events = PROJECT_EVENT_TYPES.filter((type) => ticked.includes(type));
  if (events.length === 0) throw new FieldRefusal('events', 'Select at least one event, or all.');
  return { url, events };
}

function WebhookFields({ webhook }: { webhook?: Webhook }): ReactNode {
  const [isAll, setAll] = useState(webhook?.events == null);
  return (
    <>
      <Field
        label="URL"
        name="url"
        type="url"
        placeholder="https://acme.com/webhooks/email"
        defaultValue={webhook?.url}
        required
      />
      <fieldset>
        <legend className="mb-1 text-sm font-medium">Events</legend>
        <Choice type="radio" name="which" value="all" isOn={isAll} onOn={() => setAll(true)}>
          All events, including types added later
        </Choice>
        <Choice type="radio" name="which" value="chosen" isOn={!isAll} onOn={() => setAll(false)}>
          Selected events
        </Choice>
        {!isAll && (
          <div className="mt-1 ml-6 columns-1 sm:columns-2">
            {PROJECT_EVENT_TYPES.map((type) => (
              <Choice
                key={type}
                type="checkbox"
                name="events"
                value={type}
                isFirstOn={webhook?.events?.includes(type) ?? false}
              >
                {type}
              </Choice>
            ))}
          </div>
        )}
        <FieldProblem of="events" />
      </fieldset>
    </>
  );
}

function Choice(props: {
  type: 'radio' | 'checkbox';
  name: string;
  value: string;
  children: ReactNode;
  isOn?: boolean;
  onOn?: () => void;
  isFirstOn?: boolean;
}): ReactNode {
  const { type, name, value } = props;
  const state =
    props.onOn === undefined
      ? { defaultChecked: props.isFirstOn }
      : { checked: props.isOn, onChange: props.onOn };
  return (
    <label className="flex items-center gap-2 py-0.5 text-sm">
      <input type={type} name={name} value={value} className="size-4 accent-accent" {...state} />
      {props.children}
    </label>
  );
}

function Secret({ secret }: { secret: string }): ReactNode {
  return (
    <div className="space-y-3 p-4">
      <p>Use this secret to verify signatures. Copy it now: it is not shown again.</p>
      <Code what="signing secret" text={secret} />
      <p>For example with the Letterhaus SDK, or any Standard Webhooks library:</p>
      <Code what="example" text={EXAMPLE} />
    </div>
  );
}

const EXAMPLE = `import { verifyWebhook } from '@letterhaus/sdk';

// The body as received, before any JSON parser.
const event = await verifyWebhook({
  payload: await request.text(),
  headers: request.headers,
  secret: process.env.LETTERHAUS_WEBHOOK_SECRET,
});`;

export function RotateForm({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const [secret, setSecret] = useState<string | null>(null);
  const rotate = async (): Promise<void> => {
    const rotated = await api.call('rotateWebhookSecret', { path: { id: webhook.id } });
    setSecret(rotated.signing_secret);
  };
  if (secret !== null) return <Secret secret={secret} />;
  return (
    <ActionForm action="Rotate secret" send={rotate}>
      <p>
        Events are signed with both secrets for 24 hours, so that you can switch without missing
        any.
      </p>
    </ActionForm>
  );
}

const STATUSES = [
  ['failed', 'Failed events only'],
  ['', 'All events'],
] as const;
const DAY_MS = 86_400_000;

/** Replays a period. The address of the page keeps the id of the replay, so its progress is found again. */
export function ReplayForm(props: { webhook: Webhook; onDone: () => void }): ReactNode {
  const api = useApi();
  const navigate = useNavigate();
  const replay = async (form: FormData): Promise<void> => {
    const status = chosenOf(form, 'status', STATUSES);
    const body = {
      since: new Date(textOf(form, 'since')).toISOString(),
      // To the end of that minute.
      until: new Date(new Date(textOf(form, 'until')).getTime() + 60_000).toISOString(),
      ...(status !== '' && { status }),
    };
    const { id } = await api.call('replayWebhook', { path: { id: props.webhook.id }, body });
    await navigate({ to: '.', params: true, search: (all) => ({ ...all, replay: id }) });
    props.onDone();
  };
  const now = Date.now();
  return (
    <ActionForm action="Replay events" send={replay}>
      <p>
        Sends stored events again with their original IDs, oldest first, at most 50,000. Your
        endpoint must ignore IDs that it has already processed.
      </p>
      <Field
        label="From (your time zone)"
        name="since"
        type="datetime-local"
        defaultValue={localTime(now - DAY_MS)}
        required
      />
      <Field label="To" name="until" type="datetime-local" defaultValue={localTime(now)} required />
      <Select label="Events" name="status" options={STATUSES} />
    </ActionForm>
  );
}

/** The value of a `datetime-local` field. */
function localTime(ms: number): string {
  const offsetMs = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - offsetMs).toISOString().slice(0, 16);
}
