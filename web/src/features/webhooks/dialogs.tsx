/** The dialogs of the page of a webhook: tests, changes, replays, removal. */
import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import type { AuditQuery } from '../../api/last-change.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import type { Fields } from '../../ui/shared-change.tsx';
import { SignatureForm } from './signature-form.tsx';
import { TestForm } from './test-form.tsx';
import { EditForm, eventsInWords, ReplayForm, RotateForm } from './webhook-forms.tsx';

export type OpenDialog =
  | 'test'
  | 'signature'
  | 'edit'
  | 'disable'
  | 'rotate'
  | 'replay'
  | 'remove'
  | null;

export function WebhookDialogs(props: {
  webhook: Webhook;
  open: OpenDialog;
  close: () => void;
}): ReactNode {
  const { webhook, open, close } = props;
  const dialogs = [
    ['test', 'Send a test event', <TestForm key="test" webhook={webhook} />],
    ['signature', 'Check a signature', <SignatureForm key="signature" />],
    ['edit', 'Edit this webhook', <EditForm key="edit" webhook={webhook} onDone={close} />],
    [
      'disable',
      'Disable this webhook?',
      <DisableForm key="off" webhook={webhook} onDone={close} />,
    ],
    ['rotate', 'Rotate signing secret', <RotateForm key="rotate" webhook={webhook} />],
    ['replay', 'Replay events', <ReplayForm key="replay" webhook={webhook} onDone={close} />],
    ['remove', 'Remove this webhook?', <RemoveForm key="remove" webhook={webhook} />],
  ] as const;
  return dialogs.map(([name, title, form]) => (
    <Dialog key={name} isOpen={open === name} onClose={close} title={title}>
      {form}
    </Dialog>
  ));
}

const CHANGES: Fields<Webhook> = {
  url: 'URL',
  events: ['Events', eventsInWords],
  status: 'Status',
};

function sharedWebhook(webhook: Webhook) {
  const of = ({ id }: Webhook): AuditQuery => ({ target_id: id });
  return { objects: [webhook], of, changes: CHANGES };
}

function DisableForm({ webhook, onDone }: { webhook: Webhook; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const path = { id: webhook.id };
  const body = { status: 'disabled' } as const;
  return (
    <SharedAction
      action="Disable"
      look="danger"
      {...sharedWebhook(webhook)}
      act={(_, headers) => api.call('updateWebhook', { path, body, headers })}
      read={() => api.call('getWebhook', { path })}
      isDone={({ status }) => status === 'disabled'}
      onDone={async () => {
        await reload('listWebhooks');
        onDone();
      }}
    >
      <p>
        Disabled endpoints receive no events. Pending deliveries fail. Missed events are not sent
        later.
      </p>
    </SharedAction>
  );
}

function RemoveForm({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const path = { id: webhook.id };
  return (
    <SharedAction
      action="Remove webhook"
      look="danger"
      {...sharedWebhook(webhook)}
      act={(_, headers) => api.call('deleteWebhook', { path, headers })}
      read={() => api.call('getWebhook', { path })}
      onDone={async () => {
        await navigate({ to: '/$project/$environment/webhooks', params: api.scope });
        await reload('listWebhooks');
      }}
    >
      <p>It no longer receives events. This cannot be undone.</p>
    </SharedAction>
  );
}
