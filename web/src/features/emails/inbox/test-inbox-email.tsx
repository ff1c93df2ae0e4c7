/** One email of the test inbox, as its reader would see it, and its parts. */
import { useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Forward, Mail, Trash2 } from 'lucide-react';
import { type ReactNode, useEffect } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import { useEmail } from '../page/use-email.ts';
import { useApi } from '../../../api/scope.ts';
import { useMay } from '../../../ui/allowed.tsx';
import { ButtonLink } from '../../../ui/button.tsx';
import { Crumb, PageHead } from '../../../ui/page.tsx';
import { Problem, RowsSkeleton } from '../../../ui/states.tsx';
import { TabLinks } from '../../../ui/tab-links.tsx';
import { absoluteTime } from '../../../lib/time.ts';
import { useOfferUndo } from '../../../ui/undo.tsx';
import { EmailDialog, useEmailActions } from '../page/email-actions.tsx';
import { type ContentTab, EmailContent } from '../page/email-content.tsx';
import { withRead, withRemoved, withUnread } from './marks.ts';
import { useMarks } from './use-marks.ts';

const ROUTE = '/$project/$environment/test-inbox/$id';
const TABS: readonly (readonly [ContentTab, string])[] = [
  ['preview', 'Preview'],
  ['checks', 'Checks'],
  ['headers', 'Headers'],
  ['text', 'Text'],
  ['html', 'HTML'],
  ['source', 'Source'],
];

export function TestInboxEmailScreen(): ReactNode {
  const { id } = useParams({ from: ROUTE });
  const { scope } = useApi();
  const email = useEmail(id);
  return (
    <article aria-label={email.data?.subject ?? 'Email'} className="min-w-0">
      {email.isPending && <RowsSkeleton rows={5} />}
      {email.isError && (
        <>
          <div className="px-(--page-x) pt-4 min-[900px]:pt-6">
            <Crumb to="/$project/$environment/test-inbox" params={scope}>
              Test inbox
            </Crumb>
          </div>
          <Problem error={email.error} retry={() => void email.refetch()} />
        </>
      )}
      {email.isSuccess && <Loaded key={id} email={email.data} />}
    </article>
  );
}

/** An email that is shown is read, unless it is marked as unread afterwards. */
function useReading({ id, subject }: Email): { markUnread: () => void; remove: () => void } {
  const { scope } = useApi();
  const navigate = useNavigate();
  const offerUndo = useOfferUndo();
  const { change } = useMarks();
  useEffect(() => {
    change((now) => withRead(now, id));
    // Once for an email that appears: it may be marked as unread afterwards.
  }, [id]);
  const close = (): void =>
    void navigate({ to: '/$project/$environment/test-inbox', params: scope, search: (all) => all });
  const remove = (): void => {
    change((now) => withRemoved(now, id));
    close();
    offerUndo({
      text: `“${subject}” was deleted from the inbox in this browser.`,
      undo: async () =>
        change((now) => ({ ...now, removed: now.removed.filter((one) => one !== id) })),
    });
  };
  const markUnread = (): void => {
    change((now) => withUnread(now, id));
    close();
  };
  return { markUnread, remove };
}

function Loaded({ email }: { email: Email }): ReactNode {
  const { scope } = useApi();
  const { q } = useSearch({ from: '/$project/$environment/test-inbox' });
  const { open, items, ...dialog } = useEmailActions(email);
  const mayForward = useMay()('sendEmail') && (email.html !== null || email.text !== null);
  const { markUnread, remove } = useReading(email);
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
      <PageHead
        title={email.subject === '' ? '(no subject)' : email.subject}
        crumb={
          <Crumb to="/$project/$environment/test-inbox" params={scope} search={q ? { q } : {}}>
            Test inbox
          </Crumb>
        }
        secondary={
          <ButtonLink to="/$project/$environment/emails/$id" params={{ ...scope, id: email.id }}>
            Delivery status
          </ButtonLink>
        }
        more={[
          { label: 'Mark as unread', icon: Mail, onChoose: markUnread },
          mayForward && { label: 'Forward', icon: Forward, onChoose: () => open('resend') },
          ...items,
          { label: 'Delete from the inbox', icon: Trash2, isDestructive: true, onChoose: remove },
        ]}
      />
      <div className="px-(--page-x) pb-4">
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
      </div>
      <TabLinks label="Parts of the email" tabs={TABS} />
      <EmailContent email={email} tab={tab} authentication={null} />
      <EmailDialog email={email} {...dialog} />
    </>
  );
}
