/** Emails sent with test keys, as a mail program shows them: a list, and the open email beside it. */
import { Outlet, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { Inbox, MailOpen, Trash2 } from 'lucide-react';
import type { ReactNode } from 'react';
import { useScope } from '../../../api/scope.ts';
import { serverNowMs } from '../../../lib/clock.ts';
import { ButtonLink } from '../../../ui/button.tsx';
import { Find } from '../../../ui/find.tsx';
import { ListAndDetail } from '../../../ui/list-and-detail.tsx';
import type { MoreItems } from '../../../ui/more-menu.tsx';
import { PageHead } from '../../../ui/page.tsx';
import { Empty } from '../../../ui/states.tsx';
import { useOfferUndo } from '../../../ui/undo.tsx';
import { EmailList } from '../list/email-list.tsx';
import { readSearchText } from '../list/email-search.ts';
import { lastIdAt, withAllRead, withAllRemoved } from './marks.ts';
import { useMarks } from './use-marks.ts';

const ROUTE = '/$project/$environment/test-inbox';

export function TestInboxScreen(): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const { id } = useParams({ strict: false });
  const { q = '' } = useSearch({ from: ROUTE });
  const items = useInboxItems();
  if (scope.environment === 'live') return <OnlyInTest />;
  const isOpen = id !== undefined;
  const find = (text: string): void => {
    const wanted = readSearchText(text);
    const search = q ? { q } : {};
    if (wanted.kind === 'id') {
      void navigate({ to: `${ROUTE}/$id`, params: { ...scope, id: wanted.id }, search });
    } else {
      const searched = { q: wanted.q || undefined };
      void navigate({ to: '.', params: true, search: (all) => ({ ...all, ...searched }) });
    }
  };
  return (
    <ListAndDetail detail={isOpen ? <Outlet /> : null}>
      {!isOpen && (
        <PageHead
          title="Test inbox"
          isFullWidth
          about="Emails sent with test keys arrive here instead of being delivered."
          more={items}
        />
      )}
      <Find label="Search the test inbox" q={q} onFind={find} />
      <EmailList place="test-inbox" q={q} openId={id ?? null} />
    </ListAndDetail>
  );
}

/** Returns the actions on all emails at once. The emails themselves stay under Emails. */
function useInboxItems(): MoreItems {
  const { marks, change } = useMarks();
  const offerUndo = useOfferUndo();
  const newest = (): string => lastIdAt(serverNowMs());
  const clear = (): void => {
    const before = marks;
    change((now) => withAllRemoved(now, newest()));
    offerUndo({
      text: 'The test inbox was cleared in this browser.',
      undo: async () => change(() => before),
    });
  };
  return [
    {
      label: 'Mark all as read',
      icon: MailOpen,
      onChoose: () => change((now) => withAllRead(now, newest())),
    },
    { label: 'Clear the inbox', icon: Trash2, isDestructive: true, onChoose: clear },
  ];
}

function OnlyInTest(): ReactNode {
  const { project } = useScope();
  return (
    <>
      <PageHead title="Test inbox" />
      <Empty
        title="The test inbox is part of the test environment"
        icon={Inbox}
        action={
          <ButtonLink look="primary" to={ROUTE} params={{ project, environment: 'test' }}>
            Open the test inbox
          </ButtonLink>
        }
      >
        <p>
          Emails sent with live keys are delivered; their status is under Emails. Emails sent with
          test keys are not delivered and appear in the test inbox.
        </p>
      </Empty>
    </>
  );
}
