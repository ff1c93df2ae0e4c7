/** Sends a test event of a chosen type, and shows the response of the receiver. */
import { type ReactNode, useState } from 'react';
import type { Webhook, WebhookDeliveryDetail } from '../../../../sdk/src/api.ts';
import { PROJECT_EVENT_TYPES } from '../../../../src/core/events.ts';
import type { Body } from '../../api/operations.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { inWords } from '../../lib/time.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { textOf } from '../../ui/field.tsx';
import { Select } from '../../ui/select.tsx';
import { firstLine } from './responses.ts';
import { CodeChip } from './statistics.tsx';

type SampleType = NonNullable<Body<'testWebhook'>['type']>;

const SAMPLES = PROJECT_EVENT_TYPES.filter((type): type is SampleType =>
  /^(email|suppression|domain)\./.test(type),
);
const OPTIONS = [
  ['', 'webhook.test'],
  ...SAMPLES.map((type) => [type, `${type}, an example`] as const),
] as const;

export function TestForm({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const [result, setResult] = useState<WebhookDeliveryDetail | null>(null);
  const send = async (form: FormData): Promise<void> => {
    const type = SAMPLES.find((one) => one === textOf(form, 'type'));
    const path = { id: webhook.id };
    setResult(null);
    setResult(await api.call('testWebhook', { path, body: type === undefined ? {} : { type } }));
    await reload('getWebhook', path);
  };
  const attempt = result?.log[0];
  return (
    <ActionForm action={result === null ? 'Send' : 'Send again'} send={send}>
      <p>
        Sends a signed event at once, in one attempt. Its ids belong to no object. A test does not
        count as a failure of the webhook.
      </p>
      <Select label="Event" name="type" options={OPTIONS} />
      {attempt && (
        <div role="status" className="space-y-1 rounded-lg border border-line p-3 text-sm">
          <p className="flex flex-wrap items-center gap-x-3">
            <CodeChip attempt={attempt} />
            <span className="text-muted tabular-nums">{inWords(attempt.latency_ms / 1000)}</span>
          </p>
          <p className="font-mono text-xs break-words">{firstLine(attempt) || 'empty response'}</p>
        </div>
      )}
    </ActionForm>
  );
}
