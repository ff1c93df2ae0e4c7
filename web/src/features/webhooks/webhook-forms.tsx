/** The forms of a webhook: registering and changing one, its secret, sending a period again. */
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import { PROJECT_EVENT_TYPES } from '../../../../src/core/events.ts';
import type { Webhook, WebhookCreation } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { chosenOf, Field, Select, textOf } from '../../ui/field.tsx';
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
  const change = async (form: FormData): Promise<void> => {
    await api.call('updateWebhook', { path: { id: webhook.id }, body: readWebhook(form) });
    await reload('listWebhooks');
    onDone();
  };
  return (
    <ActionForm action="Save" send={change}>
      <WebhookFields webhook={webhook} />
    </ActionForm>
  );
}

function readWebhook(form: FormData): Pick<WebhookCreation, 'url' | 'events'> {
  const url = textOf(form, 'url');
  if (textOf(form, 'which') === 'all') return { url, events: null };
  const ticked = form.getAll('event');
  const events = PROJECT_EVENT_TYPES.filter((type) => ticked.includes(type));
  if (events.length === 0) throw new Error('Choose an event, or all.');
  return { url, events };
}

function WebhookFields({ webhook }: { webhook?: Webhook }): ReactNode {
  const [isAll, setAll] = useState(webhook?.events == null);
  return (
    <>
      <Field
        label="Address"
        name="url"
        type="url"
        placeholder="https://acme.com/webhooks/email"
        defaultValue={webhook?.url}
        required
      />
      <fieldset>
        <legend className="mb-1 text-sm font-medium">Events</legend>
        <Choice type="radio" name="which" value="all" isOn={isAll} onOn={() => setAll(true)}>
          All, including types that are added later
        </Choice>
        <Choice type="radio" name="which" value="chosen" isOn={!isAll} onOn={() => setAll(false)}>
          Only these
        </Choice>
        {!isAll && (
          <div className="mt-1 ml-6 columns-1 sm:columns-2">
            {PROJECT_EVENT_TYPES.map((type) => (
              <Choice
                key={type}
                type="checkbox"
                name="event"
                value={type}
                isFirstOn={webhook?.events?.includes(type) ?? false}
              >
                {type}
              </Choice>
            ))}
          </div>
        )}
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

/** Shown once, with what it is for. */
function Secret({ secret }: { secret: string }): ReactNode {
  return (
    <div className="space-y-3 p-4">
      <p>Your program verifies signatures with this secret. It is shown only now.</p>
      <Code what="signing secret" text={secret} />
      <p>For example with the client of this service, or any library for Standard Webhooks:</p>
      <Code what="example" text={EXAMPLE} />
    </div>
  );
}

const EXAMPLE = `import { verifyWebhook } from '@letterhaus/sdk';

// The body as it came, before any JSON parser.
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
    <ActionForm action="Make a new secret" send={rotate}>
      <p>
        For 24 hours everything is signed with both secrets, so that your program can change over
        without missing anything.
      </p>
    </ActionForm>
  );
}

const STATUSES = [
  ['failed', 'Only those that failed'],
  ['', 'All'],
] as const;
const DAY_MS = 86_400_000;

/** A period; its replay is in the address of the page, so that its progress is found again. */
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
    <ActionForm action="Send again" send={replay}>
      <p>
        Each with the same id, at most 50,000, oldest first. Your program has to ignore ids that it
        has seen.
      </p>
      <Field
        label="From, in your zone"
        name="since"
        type="datetime-local"
        defaultValue={localTime(now - DAY_MS)}
        required
      />
      <Field label="To" name="until" type="datetime-local" defaultValue={localTime(now)} required />
      <Select label="Which" name="status" options={STATUSES} />
    </ActionForm>
  );
}

/** As a field for times has it: local, to the minute. */
function localTime(ms: number): string {
  const offsetMs = new Date(ms).getTimezoneOffset() * 60_000;
  return new Date(ms - offsetMs).toISOString().slice(0, 16);
}
