/** One email: its status and the reason, its content, its actions. */
import { useQuery } from '@tanstack/react-query';
import { Link, useParams, useSearch } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { lazy, type ReactNode, Suspense } from 'react';
import { STATUS_MEANINGS } from '../../../../../src/core/statuses.ts';
import type { Diagnosis, Email } from '../../../../../sdk/src/api.ts';
import { useEmail } from './use-email.ts';
import { useReload } from '../../../api/list.ts';
import { useEvents } from '../../../api/live.ts';
import { useApi } from '../../../api/scope.ts';
import { copyText } from '../../../lib/clipboard.ts';
import { useShortcuts } from '../../../lib/keys.ts';
import { importWhenOnline } from '../../../lib/lazy-import.ts';
import { CopyButton } from '../../../ui/copy.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { StatusBadge } from '../../../ui/status.tsx';
import { TabLinks } from '../../../ui/tab-links.tsx';
import { Time } from '../../../ui/time.tsx';
import { EmailActions } from './email-actions.tsx';
import { EmailDelivery } from './email-delivery.tsx';

const EmailContent = lazy(() =>
  importWhenOnline(() => import('./email-content.tsx')).then((screen) => ({
    default: screen.EmailContent,
  })),
);

const ROUTE = '/$project/$environment/emails/$id';
const WAIT_REFRESH_MS = 10_000;
const TABS = [
  ['delivery', 'Delivery'],
  ['preview', 'Preview'],
  ['checks', 'Checks'],
  ['headers', 'Headers'],
  ['text', 'Text'],
  ['html', 'HTML'],
  ['source', 'Source'],
] as const;

export function EmailScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: ROUTE });
  const reload = useReload();
  const email = useEmail(id);
  useEvents(api.scope, () => void reload('getEmail', { id }), { emailId: id });
  useShortcuts([{ keys: 'c', label: 'Copy the id', run: () => void copyText(id) }]);
  return (
    <article className="min-w-0">
      <BackLink />
      {email.isPending && <RowsSkeleton rows={5} />}
      {email.isError && <Problem error={email.error} retry={() => void email.refetch()} />}
      {email.isSuccess && <Loaded email={email.data} />}
    </article>
  );
}

/** Leads back to the list on screens that do not show it beside the email. */
function BackLink(): ReactNode {
  const { scope } = useApi();
  const { q } = useSearch({ from: '/$project/$environment/emails' });
  return (
    <Link
      to="/$project/$environment/emails"
      params={scope}
      search={q ? { q } : {}}
      className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
    >
      <ArrowLeft size={14} aria-hidden /> Emails
    </Link>
  );
}

function Loaded({ email }: { email: Email }): ReactNode {
  const api = useApi();
  const { tab: chosen } = useSearch({ from: ROUTE });
  const tab = TABS.find(([name]) => name === chosen)?.[0] ?? 'delivery';
  const diagnosis = useQuery({
    ...api.query('diagnoseEmail', { path: { id: email.id } }),
    // The reason to wait changes without an event, for example with the state of a provider.
    refetchInterval: ({ state }) =>
      state.data?.recipients.some(({ held_by: held }) => held !== null) ? WAIT_REFRESH_MS : false,
  });
  return (
    <>
      <header className="space-y-3 px-4 pt-2 pb-4">
        <h1 className="text-lg font-semibold break-words">{email.subject}</h1>
        <p className="text-sm break-words text-muted">
          <span className="font-mono text-xs">{email.from}</span> →{' '}
          <span className="font-mono text-xs">{email.to.join(', ')}</span>
          {' · '}
          <Time at={email.created_at} />
        </p>
        <div className="rounded-lg bg-side px-3 py-2.5">
          <StatusBadge status={email.status} />
          <p className="mt-0.5">{headline(email, diagnosis.data)}</p>
        </div>
        <EmailActions email={email} />
      </header>
      <TabLinks label="Parts of the email" tabs={TABS} />
      {tab === 'delivery' ? (
        <EmailDelivery email={email} diagnosis={diagnosis} />
      ) : (
        <Suspense fallback={<RowsSkeleton rows={4} />}>
          <EmailContent
            email={email}
            tab={tab}
            authentication={diagnosis.data?.sender.authentication ?? null}
          />
        </Suspense>
      )}
      <footer className="flex items-center gap-1 px-4 py-4 text-xs text-muted">
        <code className="font-mono break-all">{email.id}</code>
        <CopyButton text={email.id} what="id" />
      </footer>
    </>
  );
}

/** The diagnosis in words; while it loads, the meaning of the status. */
function headline(email: Email, diagnosis: Diagnosis | undefined): string {
  const [only, ...others] = diagnosis?.recipients ?? [];
  if (diagnosis === undefined || diagnosis.status !== email.status)
    return STATUS_MEANINGS[email.status];
  if (others.length > 0 || only === undefined) return diagnosis.summary;
  const { reason, held_by: held, next_step: next } = only;
  return [STATUS_MEANINGS[email.status], reason?.advice ?? next, held?.message]
    .filter(Boolean)
    .join(' ');
}
