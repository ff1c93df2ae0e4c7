/**
 * One recipient: whether mail reaches it, all emails and refused requests, the last reply of its mail server, and the
 * history of its suppression.
 */
import { useQuery } from '@tanstack/react-query';
import { useNavigate, useParams } from '@tanstack/react-router';
import { Ban, Copy, Mail } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { EmailCounts, RecipientOverview } from '../../../../sdk/src/api.ts';
import type { Status } from '../../../../src/core/statuses.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { copyText } from '../../lib/clipboard.ts';
import { dayTime } from '../../lib/time.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button, ButtonLink } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Figure, Figures } from '../../ui/figure.tsx';
import { Crumb, PageBody, PageHead } from '../../ui/page.tsx';
import { PageState } from '../../ui/states.tsx';
import { useOfferUndo } from '../../ui/undo.tsx';
import { Verdict } from '../../ui/verdict.tsx';
import { SuppressionRemoval } from '../../ui/suppression-removal.tsx';
import { EmailsAndRequests } from './emails-and-requests.tsx';
import { LastReplyCard, SuppressionHistory } from './recipient-cards.tsx';
import { historyBeyondVerdict, verdictOf } from './verdict-words.ts';

const ROUTE = '/$project/$environment/recipients/$address';

export function RecipientScreen(): ReactNode {
  const { address } = useParams({ from: ROUTE });
  const api = useApi();
  const found = useQuery(api.query('getRecipient', { path: { address } }));
  const counts = useQuery(api.query('countEmails', { query: { to: address } }));
  return (
    <>
      <Head address={found.data?.address ?? address} recipient={found.data} />
      <PageState query={found} />
      {found.data && <Content key={address} recipient={found.data} counts={counts.data} />}
    </>
  );
}

function countText({ total, scanned_until: cut }: EmailCounts): string {
  return `${total.toLocaleString()}${cut === null ? '' : '+'}`;
}

function Head(props: { address: string; recipient: RecipientOverview | undefined }): ReactNode {
  const { address, recipient } = props;
  const { scope } = useApi();
  const may = useMay();
  const navigate = useNavigate();
  const [isAdding, setAdding] = useState(false);
  const emails = { to: '/$project/$environment/emails', params: scope } as const;
  const showEmails = () => void navigate({ ...emails, search: { q: `to:${address}` } });
  const canSuppress = may('createSuppression') && recipient?.suppression === null;
  return (
    <>
      <PageHead
        title={address}
        crumb={
          <Crumb to="/$project/$environment/recipients" params={scope}>
            Recipients
          </Crumb>
        }
        more={[
          { label: 'Copy the address', icon: Copy, onChoose: () => void copyText(address) },
          { label: 'Show in the list of emails', icon: Mail, onChoose: showEmails },
          canSuppress && {
            label: 'Suppress this address',
            icon: Ban,
            isDestructive: true,
            onChoose: () => setAdding(true),
          },
        ]}
      />
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Suppress this address?">
        <SuppressForm address={address} onDone={() => setAdding(false)} />
      </Dialog>
    </>
  );
}

/** Up to so many emails and requests stand above the cards instead of beside them. */
const SHORT = 4;

function Content(props: {
  recipient: RecipientOverview;
  counts: EmailCounts | undefined;
}): ReactNode {
  const { recipient, counts } = props;
  const { refused_requests: refused, last_reply: last } = recipient;
  const history = historyBeyondVerdict(recipient);
  const cards = [last !== null, history.length > 0].filter(Boolean).length;
  // Beside a card a short list would leave a hole.
  const isShort = counts !== undefined && counts.total + refused.length <= SHORT;
  const isBeside = cards > 0 && !isShort;
  return (
    <PageBody>
      <RecipientVerdict recipient={recipient} counts={counts} />
      <Outcomes recipient={recipient} counts={counts} />
      <div
        className={`grid grid-cols-1 gap-6 ${isBeside ? 'min-[1100px]:grid-cols-[minmax(0,5fr)_minmax(0,2fr)]' : ''}`}
      >
        <EmailsAndRequests recipient={recipient} />
        <div
          className={`grid grid-cols-1 content-start gap-6 empty:hidden ${cards > 1 && isShort ? 'min-[900px]:grid-cols-2' : ''}`}
        >
          <LastReplyCard recipient={recipient} />
          <SuppressionHistory history={history} />
        </div>
      </div>
    </PageBody>
  );
}

function RecipientVerdict(props: {
  recipient: RecipientOverview;
  counts: EmailCounts | undefined;
}): ReactNode {
  const { recipient, counts } = props;
  const { address, suppression, last_reply: last } = recipient;
  const { scope } = useApi();
  const [isRemoving, setRemoving] = useState(false);
  const { tone, title, text } = verdictOf(recipient, counts, dayTime);
  const cause = suppression?.source_email_id ?? last?.email_id ?? null;
  const causeLabel = suppression?.source_email_id
    ? 'Show the email that caused it'
    : 'Show the email';
  return (
    <Verdict
      tone={tone}
      title={title}
      action={
        (suppression !== null || cause !== null) && (
          <>
            {suppression !== null && (
              <Allowed to="deleteSuppression">
                <Button onClick={() => setRemoving(true)}>Remove suppression</Button>
              </Allowed>
            )}
            {cause !== null && (
              <ButtonLink to="/$project/$environment/emails/$id" params={{ ...scope, id: cause }}>
                {causeLabel}
              </ButtonLink>
            )}
          </>
        )
      }
    >
      {text !== null && <p>{text}</p>}
      <Dialog
        isOpen={isRemoving}
        onClose={() => setRemoving(false)}
        title="Remove the suppression?"
      >
        {suppression && (
          <RemoveForm {...{ address, suppression }} onDone={() => setRemoving(false)} />
        )}
      </Dialog>
    </Verdict>
  );
}

function useReloadRecipient(address: string): () => Promise<void> {
  const reload = useReload();
  return async () => {
    await Promise.all([reload('getRecipient', { address }), reload('listSuppressions')]);
  };
}

function RemoveForm(props: {
  address: string;
  suppression: NonNullable<RecipientOverview['suppression']>;
  onDone: () => void;
}): ReactNode {
  const { address, suppression, onDone } = props;
  const { reason, expires_at } = suppression;
  const api = useApi();
  const reload = useReloadRecipient(address);
  const offerUndo = useOfferUndo();
  const done = async (): Promise<void> => {
    onDone();
    await reload();
    offerUndo({
      text: `${address} can receive emails again. Send refused emails again.`,
      undo: async () => {
        await api.call('createSuppression', { body: { address, reason, expires_at } });
        await reload();
      },
    });
  };
  return (
    <SuppressionRemoval action="Remove suppression" rows={[suppression]} onDone={done}>
      <p>
        <span className="font-mono text-xs break-all">{address}</span> can receive emails again.
        Emails that were refused meanwhile are not sent. Send them again.
      </p>
    </SuppressionRemoval>
  );
}

function SuppressForm({ address, onDone }: { address: string; onDone: () => void }): ReactNode {
  const api = useApi();
  const reload = useReloadRecipient(address);
  const add = async (): Promise<void> => {
    await api.call('createSuppression', { body: { address } });
    onDone();
    await reload();
  };
  return (
    <ActionForm action="Suppress" look="danger" send={add}>
      <p>This project sends no more emails to {address}, until the suppression is removed.</p>
    </ActionForm>
  );
}

const WAITING: readonly Status[] = ['scheduled', 'queued', 'sending', 'deferred'];

function Outcomes(props: {
  recipient: RecipientOverview;
  counts: EmailCounts | undefined;
}): ReactNode {
  const { recipient, counts } = props;
  if (counts === undefined) return null;
  const { statuses } = counts;
  const sum = (...names: Status[]) =>
    names.reduce((total, name) => total + (statuses[name] ?? 0), 0);
  const [delivered, failed] = [sum('delivered', 'sent'), sum('bounced', 'failed', 'complained')];
  const refused = recipient.refused_requests.length;
  return (
    <Figures label="Delivery status of the emails">
      <Figure size="small" label="Delivered" value={delivered} delta={`of ${countText(counts)}`} />
      <Figure
        size="small"
        label="Bounced or failed"
        value={failed}
        tone={failed > 0 ? 'bad' : undefined}
      />
      <Figure size="small" label="Not sent: suppressed" value={sum('suppressed')} />
      <Figure size="small" label="Requests refused" value={refused} limit="in the last week" />
      <Figure size="small" label="Waiting" value={sum(...WAITING)} />
    </Figures>
  );
}
