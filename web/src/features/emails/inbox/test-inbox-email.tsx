/** One email of the test inbox, as its reader would see it, and its parts. */
import { Link, useParams, useSearch } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { useEmail } from '../page/use-email.ts';
import { useApi } from '../../../api/scope.ts';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { TabLinks } from '../../../ui/tab-links.tsx';
import { absoluteTime } from '../../../lib/time.ts';
import { type ContentTab, EmailContent } from '../page/email-content.tsx';

const ROUTE = '/$project/$environment/test-inbox/$id';
const TABS: readonly (readonly [ContentTab, string])[] = [
  ['preview', 'Preview'],
  ['text', 'Text'],
  ['html', 'HTML'],
  ['headers', 'Headers'],
  ['checks', 'Checks and links'],
  ['source', 'Source'],
];

export function TestInboxEmailScreen(): ReactNode {
  const { id } = useParams({ from: ROUTE });
  const email = useEmail(id);
  return (
    <article className="min-w-0">
      <BackLink />
      {email.isPending && <RowsSkeleton rows={5} />}
      {email.isError && <Problem error={email.error} retry={() => void email.refetch()} />}
      {email.isSuccess && <Loaded email={email.data} />}
    </article>
  );
}

function BackLink(): ReactNode {
  const { scope } = useApi();
  const { q } = useSearch({ from: '/$project/$environment/test-inbox' });
  return (
    <Link
      to="/$project/$environment/test-inbox"
      params={scope}
      search={q ? { q } : {}}
      className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
    >
      <ArrowLeft size={14} aria-hidden /> Test inbox
    </Link>
  );
}

function Loaded({ email }: { email: Email }): ReactNode {
  const { scope } = useApi();
  const { tab: chosen } = useSearch({ from: ROUTE });
  const tab = TABS.find(([name]) => name === chosen)?.[0] ?? 'preview';
  const lines: [string, string[]][] = [
    ['From', [email.from]],
    ['To', email.to],
    ['Cc', email.cc],
    ['Bcc', email.bcc],
    ['Reply to', email.reply_to],
    ['Date', [absoluteTime(email.created_at)]],
  ];
  return (
    <>
      <header className="space-y-3 px-4 pt-2 pb-4">
        <h1 className="text-lg font-semibold break-words">{email.subject}</h1>
        <dl className="text-sm">
          {lines
            .filter(([, texts]) => texts.length > 0)
            .map(([name, texts]) => (
              <div key={name} className="flex gap-3">
                <dt className="w-16 shrink-0 text-muted">{name}</dt>
                <dd className="min-w-0 break-words">{texts.join(', ')}</dd>
              </div>
            ))}
        </dl>
        <Link
          to="/$project/$environment/emails/$id"
          params={{ ...scope, id: email.id }}
          className="text-sm text-accent underline"
        >
          Delivery status
        </Link>
      </header>
      <TabLinks label="Parts of the email" tabs={TABS} />
      <EmailContent email={email} tab={tab} authentication={null} />
    </>
  );
}
