/** The dialogs of the page of a webhook: tests, changes, replays, removal. */
import { useNavigate } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import type { Webhook } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { SignatureForm } from './signature-form.tsx';
import { TestForm } from './test-form.tsx';
import { EditForm, ReplayForm, RotateForm } from './webhook-forms.tsx';

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

function DisableForm({ webhook, onDone }: { webhook: Webhook; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const disable = async (): Promise<void> => {
    await api.call('updateWebhook', { path: { id: webhook.id }, body: { status: 'disabled' } });
    await reload('listWebhooks');
    onDone();
  };
  return (
    <ActionForm action="Disable" look="danger" send={disable}>
      <p>
        Disabled endpoints receive no events. Pending deliveries fail. Missed events are not sent
        later.
      </p>
    </ActionForm>
  );
}

function RemoveForm({ webhook }: { webhook: Webhook }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const remove = async (): Promise<void> => {
    const { id, etag } = webhook;
    await api.call('deleteWebhook', { path: { id }, headers: { 'if-match': etag } });
    await navigate({ to: '/$project/$environment/webhooks', params: api.scope });
    await reload('listWebhooks');
  };
  return (
    <ActionForm action="Remove webhook" look="danger" send={remove}>
      <p>It no longer receives events. This cannot be undone.</p>
    </ActionForm>
  );
}
