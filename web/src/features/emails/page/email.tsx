/**
 * One email: its delivery status with the reason, the one action that helps, its parts, and a menu of all other
 * actions.
 */
import { useQuery } from '@tanstack/react-query';
import { useLocation, useParams, useSearch } from '@tanstack/react-router';
import { ArrowRight } from 'lucide-react';
import { lazy, type ReactNode, type RefObject, Suspense, useEffect, useRef } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { useEmail } from './use-email.ts';
import { useReload } from '../../../api/list.ts';
import { useEvents } from '../../../api/live.ts';
import { useApi } from '../../../api/scope.ts';
import { copyText } from '../../../lib/clipboard.ts';
import { useShortcuts } from '../../../lib/keys.ts';
import { importWhenOnline } from '../../../lib/lazy-import.ts';
import { CopyButton } from '../../../ui/copy.tsx';
import { Crumb, PageHead } from '../../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { TabLinks } from '../../../ui/tab-links.tsx';
import { Time } from '../../../ui/time.tsx';
import { EmailDialog, SendAgain, useEmailActions } from './email-actions.tsx';
import { EmailDelivery } from './email-delivery.tsx';
import { EmailVerdict } from './email-verdict.tsx';
import { verdictOf } from './verdict.ts';

const EmailContent = lazy(() =>
  importWhenOnline(() => import('./email-content.tsx')).then((screen) => ({
    default: screen.EmailContent,
  })),
);
const EmailEvents = lazy(() =>
  importWhenOnline(() => import('./email-events.tsx')).then((screen) => ({
    default: screen.EmailEvents,
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
  ['events', 'Events'],
] as const;

const OPEN_DIALOG = '[role="dialog"][data-open]';

export function EmailScreen(): ReactNode {
  const api = useApi();
  const { id } = useParams({ from: ROUTE });
  const reload = useReload();
  const email = useEmail(id);
  const article = useRef<HTMLElement>(null);
  useEvents(api.scope, () => void reload('getEmail', { id }), { emailId: id });
  useShortcuts([{ keys: 'c', label: 'Copy the id', run: () => void copyText(id) }]);
  useFocusThatFollows(article, email.isSuccess ? id : null);
  return (
    <article
      ref={article}
      tabIndex={-1}
      aria-label={email.data?.subject ?? 'Email'}
      className="min-w-0 outline-none"
    >
      {email.isPending && <RowsSkeleton rows={5} />}
      {email.isError && (
        <>
          <div className="px-(--page-x) pt-4 min-[900px]:pt-6">
            <Crumb to="/$project/$environment/emails" params={api.scope}>
              Emails
            </Crumb>
          </div>
          <Problem error={email.error} retry={() => void email.refetch()} />
        </>
      )}
      {email.isSuccess && <Loaded key={id} email={email.data} />}
    </article>
  );
}

/**
 * Moves the focus to an email that was opened, so that Tab and screen readers go on there. While the list is walked by
 * keys, the focus stays in the list; and who opened a dialog before the email arrived goes on typing there.
 */
function useFocusThatFollows(article: RefObject<HTMLElement | null>, shownId: string | null): void {
  const { isWalking } = useLocation().state;
  useEffect(() => {
    if (shownId === null || isWalking || document.activeElement?.closest(OPEN_DIALOG)) return;
    article.current?.focus({ preventScroll: true });
    // Only for an email that appears, not whenever the list is left.
  }, [shownId]);
}

/** From whom to whom, and when. A narrow page breaks the line before the recipient only. */
function Ways({ email }: { email: Email }): ReactNode {
  const [first = '', ...others] = [...email.to, ...email.cc, ...email.bcc];
  return (
    <>
      <span>{email.from}</span>
      <span className="sr-only"> to </span>{' '}
      <span className="inline-block max-w-full">
        <ArrowRight size={12} aria-hidden className="mr-1 inline-block align-[-1px]" />
        <span>{first}</span>
        {others.length > 0 && <span> +{others.length}</span>}
      </span>{' '}
      <span className="max-sm:block">
        <span className="max-sm:sr-only"> · </span>
        <Time at={email.created_at} />
      </span>
    </>
  );
}

function Loaded({ email }: { email: Email }): ReactNode {
  const api = useApi();
  const { q } = useSearch({ from: '/$project/$environment/emails' });
  const { tab: chosen } = useSearch({ from: ROUTE });
  const tab = TABS.find(([name]) => name === chosen)?.[0] ?? 'delivery';
  const { open, items, ...dialog } = useEmailActions(email);
  const diagnosis = useQuery({
    ...api.query('diagnoseEmail', { path: { id: email.id } }),
    // The reason to wait changes without an event, for example with the state of a provider.
    refetchInterval: ({ state }) =>
      state.data?.recipients.some(({ held_by: held }) => held !== null) ? WAIT_REFRESH_MS : false,
  });
  const verdict = verdictOf(email, diagnosis.data);
  return (
    <>
      <PageHead
        title={email.subject === '' ? '(no subject)' : email.subject}
        about={<Ways email={email} />}
        crumb={
          <Crumb to="/$project/$environment/emails" params={api.scope} search={q ? { q } : {}}>
            Emails
          </Crumb>
        }
        secondary={verdict.action !== 'resend' && <SendAgain email={email} open={open} />}
        more={items}
      />
      <div className="px-(--page-x) pb-4">
        <EmailVerdict email={email} verdict={verdict} open={open} />
      </div>
      <TabLinks label="Parts of the email" tabs={TABS} />
      {tab === 'delivery' ? (
        <EmailDelivery email={email} diagnosis={diagnosis} open={open} />
      ) : (
        <Suspense fallback={<RowsSkeleton rows={4} />}>
          {tab === 'events' ? (
            <EmailEvents email={email} />
          ) : (
            <EmailContent
              email={email}
              tab={tab}
              authentication={diagnosis.data?.sender.authentication ?? null}
            />
          )}
        </Suspense>
      )}
      <footer className="flex items-center gap-1.5 px-(--page-x) py-4 text-xs text-muted">
        Email id <code className="font-mono break-all">{email.id}</code>
        <CopyButton text={email.id} what="id" />
      </footer>
      <EmailDialog email={email} {...dialog} />
    </>
  );
}
