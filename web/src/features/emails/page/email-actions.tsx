/** The actions of an email: cancel, reschedule, send again, try now, release, share, copy as curl, case file, print. */
import { useNavigate } from '@tanstack/react-router';
import { CalendarClock, Copy, FileDown, Printer, Share2, Terminal, X } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Email, EmailCreation, EmailInspection } from '../../../../../sdk/src/api.ts';
import { respond } from '../../../api/client.ts';
import { useReload } from '../../../api/list.ts';
import { acceptedId, type Api, useApi } from '../../../api/scope.ts';
import { copyText } from '../../../lib/clipboard.ts';
import { useInspection } from '../content/inspection.tsx';
import { ActionForm } from '../../../ui/action-form.tsx';
import { Allowed, useMay } from '../../../ui/allowed.tsx';
import { Button } from '../../../ui/button.tsx';
import { Dialog } from '../../../ui/dialog.tsx';
import { Field, textOf } from '../../../ui/field.tsx';
import type { MoreItems } from '../../../ui/more-menu.tsx';
import { type IfMatch, undoIfSame } from '../../../ui/shared-change.tsx';
import { SharedForm } from '../../../ui/shared-form.tsx';
import { Code } from '../../../ui/states.tsx';
import { absoluteTime } from '../../../lib/time.ts';
import { useOfferUndo } from '../../../ui/undo.tsx';
import { CaseFileForm } from './case-file.tsx';

const OPEN = new Set<Email['status']>(['scheduled', 'queued', 'deferred']);
const SHARED_S = 48 * 3_600;

const TITLES = {
  cancel: 'Cancel this email?',
  reschedule: 'Reschedule',
  resend: 'Send again',
  retry: 'Try now?',
  release: 'Release this email?',
  share: 'Share',
  curl: 'Copy as curl',
  'case-file': 'Download case file',
} as const;
export type EmailAction = keyof typeof TITLES;
export type OpenAction = (action: EmailAction) => void;

/** Returns the items of the menu, and the state of the dialog that an action opens. */
export function useEmailActions(email: Email): {
  open: OpenAction;
  items: MoreItems;
  action: EmailAction | null;
  onClose: () => void;
} {
  const may = useMay();
  const [action, setAction] = useState<EmailAction | null>(null);
  const choose = (one: EmailAction) => () => setAction(one);
  const isScheduled = email.status === 'scheduled' && may('rescheduleEmail');
  const items: MoreItems = [
    isScheduled && { label: 'Reschedule', icon: CalendarClock, onChoose: choose('reschedule') },
    hasContent(email) &&
      may('shareEmail') && { label: 'Share link', icon: Share2, onChoose: choose('share') },
    { label: 'Copy as curl', icon: Terminal, onChoose: choose('curl') },
    { label: 'Copy the id', icon: Copy, keys: 'c', onChoose: () => void copyText(email.id) },
    { label: 'Download case file', icon: FileDown, onChoose: choose('case-file') },
    { label: 'Print', icon: Printer, onChoose: () => window.print() },
    OPEN.has(email.status) &&
      may('cancelEmail') && {
        label: 'Cancel email',
        icon: X,
        isDestructive: true,
        onChoose: choose('cancel'),
      },
  ];
  return { open: setAction, items, action, onClose: () => setAction(null) };
}

function hasContent({ html, text }: Email): boolean {
  return html !== null || text !== null;
}

export function SendAgain(props: { email: Email; open: OpenAction; look?: 'primary' }): ReactNode {
  const { email, open, look } = props;
  if (!hasContent(email)) return null;
  return (
    <Allowed to="sendEmail">
      <Button {...(look && { look })} onClick={() => open('resend')}>
        Send again
      </Button>
    </Allowed>
  );
}

export function EmailDialog(props: {
  email: Email;
  action: EmailAction | null;
  onClose: () => void;
}): ReactNode {
  const { email, action, onClose } = props;
  return (
    <Dialog
      isOpen={action !== null}
      onClose={onClose}
      title={action === null ? '' : TITLES[action]}
    >
      {action !== null && <ActionContent email={email} action={action} onDone={onClose} />}
    </Dialog>
  );
}

function ActionContent({ action, ...props }: FormProps & { action: EmailAction }): ReactNode {
  switch (action) {
    case 'cancel':
      return <CancelForm {...props} />;
    case 'reschedule':
      return <RescheduleForm {...props} />;
    case 'resend':
      return <ResendForm {...props} />;
    case 'retry':
    case 'release':
      return <QueueForm {...props} action={action} />;
    case 'share':
      return <ShareForm email={props.email} />;
    case 'case-file':
      return <CaseFileForm {...props} />;
    case 'curl':
      return (
        <div className="px-5 pt-1 pb-5">
          <Code what="request" text={asCurl(props.email)} />
        </div>
      );
  }
}

type FormProps = { email: Email; onDone: () => void };

function useChange(email: Email): { api: Api; changed: () => Promise<void> } {
  const api = useApi();
  const reload = useReload();
  return { api, changed: () => reload('getEmail', { id: email.id }) };
}

function CancelForm({ email, onDone }: FormProps): ReactNode {
  const { api, changed } = useChange(email);
  const cancel = async (): Promise<void> => {
    await api.call('cancelEmail', { path: { id: email.id } });
    await changed();
    onDone();
  };
  return (
    <ActionForm action="Cancel email" look="danger" send={cancel}>
      <p>Recipients who have not received this email yet will not get it. This cannot be undone.</p>
    </ActionForm>
  );
}

const QUEUE_CHANGES = {
  retry: {
    operation: 'retryQueue',
    label: 'Try now',
    says: 'The next attempt is made now instead of by the schedule. A suspended provider stays suspended.',
  },
  release: {
    operation: 'releaseQueue',
    label: 'Release',
    says: 'The recipients on hold are attempted again.',
  },
} as const;

function QueueForm({
  email,
  action,
  onDone,
}: FormProps & { action: keyof typeof QUEUE_CHANGES }): ReactNode {
  const { api, changed } = useChange(email);
  const { operation, label, says } = QUEUE_CHANGES[action];
  const send = async (): Promise<void> => {
    await api.call(operation, { body: { email_id: email.id } });
    await changed();
    onDone();
  };
  return (
    <ActionForm action={label} send={send}>
      <p>{says}</p>
    </ActionForm>
  );
}

type NewTime = { scheduled_at: string };

function RescheduleForm({ email, onDone }: FormProps): ReactNode {
  const offerUndo = useOfferUndo();
  const { api, changed } = useChange(email);
  const path = { id: email.id };
  const set = (body: NewTime, headers: IfMatch): Promise<Email> =>
    api.call('rescheduleEmail', { path, body, headers });
  const done = async (_: NewTime, { scheduled_at: at, etag }: Email): Promise<void> => {
    await changed();
    onDone();
    const { scheduled_at: before } = email;
    if (before === null || at === null) return;
    const undo = async (): Promise<void> => {
      await undoIfSame(etag, (headers) => set({ scheduled_at: before }, headers), changed);
    };
    offerUndo({ text: `Rescheduled to ${absoluteTime(at)}.`, undo });
  };
  return (
    <SharedForm
      action="Reschedule"
      object={email}
      of={{ target_id: email.id }}
      fields={{ scheduled_at: ['Time', (at) => (at === null ? 'at once' : absoluteTime(at))] }}
      bodyOf={(form) => ({ scheduled_at: new Date(textOf(form, 'scheduled_at')).toISOString() })}
      change={set}
      read={() => api.call('getEmail', { path })}
      onDone={done}
    >
      {({ scheduled_at: at }) => (
        <>
          {at && <p>Scheduled for {absoluteTime(at)}.</p>}
          <Field
            label="New time (your time zone)"
            name="scheduled_at"
            type="datetime-local"
            required
          />
        </>
      )}
    </SharedForm>
  );
}

function ResendForm({ email, onDone }: FormProps): ReactNode {
  const api = useApi();
  const navigate = useNavigate();
  const inspection = useInspection(email.id);
  const attached = inspection.data ?? null;
  const count = attached?.attachments.length ?? 0;
  const send = async (form: FormData): Promise<void> => {
    const to = textOf(form, 'to')
      .split(',')
      .map((part) => part.trim());
    // The attachments may still be loading when the form is sent.
    const found = attached ?? (await inspection.refetch({ throwOnError: true })).data;
    const isWanted = count === 0 || form.has('files');
    const files = isWanted && found ? await attachmentsOf(api, found) : [];
    const attachments = files.length > 0 ? { attachments: files } : {};
    const body = { ...copyOf(email), ...attachments, to, cc: [], bcc: [] };
    const id = acceptedId(await api.call('sendEmail', { body }));
    onDone();
    await navigate({ to: '/$project/$environment/emails/$id', params: { ...api.scope, id } });
  };
  const missed = email.recipients.filter(
    ({ status }) => status !== 'delivered' && status !== 'sent',
  );
  const to = (missed.length > 0 ? missed : email.recipients).map(({ address }) => address);
  return (
    <ActionForm action="Send" send={send}>
      <p>
        Sends a new email with the same sender, reply address, subject, content, tags and metadata.
        Custom headers, tracking, TLS and unsubscribe settings are not copied.
      </p>
      <Field label="To" name="to" defaultValue={to.join(', ')} required />
      {count > 0 && (
        <label className="flex items-center gap-2 text-sm">
          <input type="checkbox" name="files" defaultChecked className="size-4" />
          Include {count === 1 ? 'the attachment' : `${count} attachments`}
        </label>
      )}
    </ActionForm>
  );
}

type Attachments = NonNullable<EmailCreation['attachments']>;

async function attachmentsOf(api: Api, inspection: EmailInspection): Promise<Attachments> {
  const files: Attachments = [];
  for (const file of inspection.attachments) {
    const path = { id: inspection.id, number: file.number };
    const response = await respond('downloadEmailAttachment', { path, scope: api.scope });
    const content = base64Of(new Uint8Array(await response.arrayBuffer()));
    const { filename, content_type, content_id } = file;
    files.push({ filename, content_type, content, ...(content_id !== null && { content_id }) });
  }
  return files;
}

/** A call has a limited number of arguments. */
const BYTES_AT_ONCE = 8_192;

function base64Of(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += BYTES_AT_ONCE) {
    text += String.fromCharCode(...bytes.subarray(at, at + BYTES_AT_ONCE));
  }
  return btoa(text);
}

function ShareForm({ email }: { email: Email }): ReactNode {
  const api = useApi();
  const [url, setUrl] = useState<string | null>(null);
  const share = async (): Promise<void> => {
    const path = { id: email.id };
    setUrl((await api.call('shareEmail', { path, body: { expires_in: SHARED_S } })).url);
  };
  return (
    <ActionForm action="Create link" send={share}>
      <p>Anyone with the link can read this email for 48 hours.</p>
      {url && <Code what="link" text={url} />}
    </ActionForm>
  );
}

/** The fields of an email that a new one copies. */
function copyOf(email: Email): EmailCreation {
  const { from, to, cc, bcc, reply_to, subject, html, text, tags, metadata } = email;
  const optional = { cc, bcc, reply_to, html, text, tags, metadata };
  const given = Object.entries(optional).filter(
    ([, value]) => value !== null && Object.keys(value).length > 0,
  );
  return { from, to, subject, ...Object.fromEntries(given) };
}

function asCurl(email: Email): string {
  const json = JSON.stringify(copyOf(email), null, 2).replaceAll("'", String.raw`'\''`);
  return [
    `curl ${location.origin}/v1/emails \\`,
    `  -H "Authorization: Bearer $LETTERHAUS_API_KEY" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  -d '${json}'`,
  ].join('\n');
}
