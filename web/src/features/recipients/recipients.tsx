/**
 * The list of recipients: those with the newest email first, or the suppressed ones by address. Each leads to its page
 * (recipient.tsx), and so does a whole address that is searched, also one that never got an email.
 */
import { useSearch } from '@tanstack/react-router';
import { AtSign, Ban, SearchX } from 'lucide-react';
import type { ReactNode } from 'react';
import type { RecipientSummary, Suppression } from '../../../../sdk/src/api.ts';
import { useList } from '../../api/list.ts';
import { useScope } from '../../api/scope.ts';
import { ButtonLink } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Choices } from '../../ui/choices.tsx';
import { EmailLink } from '../../ui/email-link.tsx';
import { Find } from '../../ui/find.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { RecipientLink } from '../../ui/recipient-link.tsx';
import { Empty } from '../../ui/states.tsx';
import { StatusBadge } from '../../ui/status.tsx';
import { SuppressionMark } from '../../ui/suppression-mark.tsx';
import { Dash, ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

const ROUTE = '/$project/$environment/recipients';
const SHOWN = [
  ['written', 'Sent to'],
  ['suppressed', 'Suppressed'],
] as const;
const WHOLE_ADDRESS = /^[^\s"<>@]+@[^\s"<>@]+\.[^\s"<>@]+$/;

export function RecipientsScreen(): ReactNode {
  const { q, show } = useSearch({ from: ROUTE });
  const shown = SHOWN.find(([name]) => name === show)?.[0] ?? 'written';
  return (
    <>
      <PageHead
        title="Recipients"
        about="Addresses that this project sends to, with the delivery status of their mail and the reason."
      >
        <Choices label="Show" name="show" chosen={shown} options={SHOWN} />
      </PageHead>
      <PageBody>
        <Card
          wide={
            <>
              <Find
                label={shown === 'written' ? 'Search recipients' : 'Search suppressions'}
                q={q}
              />
              {shown === 'written' ? <Written q={q} /> : <Suppressed q={q} />}
            </>
          }
        />
      </PageBody>
    </>
  );
}

const ADDRESS = {
  title: 'Address',
  cell: ({ address }: { address: string }) => <RecipientLink address={address} />,
};

function Written({ q }: { q: string | undefined }): ReactNode {
  const list = useList('listRecipients', { query: { q }, cursor: (row) => row.last_email_id });
  return (
    <ListTable<RecipientSummary>
      label="Recipients"
      list={list}
      keyOf={({ address }) => address}
      columns={[
        ADDRESS,
        {
          title: 'Suppressed',
          isPlain: true,
          isLine: true,
          cell: ({ suppression }) =>
            suppression ? <SuppressionMark reason={suppression} isBesideStatus /> : <Dash />,
        },
        { title: 'Last email', cell: ({ last_status }) => <StatusBadge status={last_status} /> },
        {
          title: 'When',
          isNumber: true,
          isPlain: true,
          cell: ({ last_email_id: id, last_email_at: at }) => (
            <EmailLink id={id} isQuiet>
              <Time at={at} />
            </EmailLink>
          ),
        },
      ]}
      empty={
        <Nobody q={q} icon={AtSign} title="No recipients yet">
          Recipients of your emails appear here.
        </Nobody>
      }
    />
  );
}

function Suppressed({ q }: { q: string | undefined }): ReactNode {
  const query = { address: q };
  const list = useList('listSuppressions', { query, cursor: (row) => row.address });
  return (
    <ListTable<Suppression>
      label="Suppressed recipients"
      list={list}
      keyOf={({ address }) => address}
      columns={[
        ADDRESS,
        {
          title: 'Reason',
          isState: true,
          cell: ({ reason }) => <SuppressionMark reason={reason} />,
        },
        { title: 'Since', isNumber: true, cell: ({ created_at: at }) => <Time at={at} /> },
      ]}
      empty={
        <Nobody q={q} icon={Ban} title="No suppressed addresses">
          Hard bounces, complaints and unsubscribes are added automatically.
        </Nobody>
      }
    />
  );
}

/** An empty list. The searched text may be an address that has a page. */
function Nobody(props: {
  q: string | undefined;
  icon: typeof Ban;
  title: string;
  children: string;
}): ReactNode {
  const { q, icon, title, children } = props;
  const scope = useScope();
  if (q === undefined) {
    return (
      <Empty title={title} icon={icon}>
        <p>{children}</p>
      </Empty>
    );
  }
  return (
    <Empty
      title="No matching recipients"
      icon={SearchX}
      action={
        WHOLE_ADDRESS.test(q) && (
          <ButtonLink
            to="/$project/$environment/recipients/$address"
            params={{ ...scope, address: q }}
            preload={false}
          >
            Show {q}
          </ButtonLink>
        )
      }
    >
      <p className="break-words">
        None has <code className="font-mono text-sm">{q}</code> in its address.
      </p>
    </Empty>
  );
}
