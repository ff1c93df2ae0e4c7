/** The audit log, newest first. */
import { ScrollText } from 'lucide-react';
import type { ReactNode } from 'react';
import { useList } from '../../api/list.ts';
import { AllowedScreen } from '../../ui/allowed.tsx';
import { Card } from '../../ui/card.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

export function AuditLogScreen(): ReactNode {
  return (
    <AllowedScreen to="listAuditEvents" title="Audit log">
      <Entries />
    </AllowedScreen>
  );
}

function Entries(): ReactNode {
  const list = useList('listAuditEvents');
  return (
    <>
      <PageHead
        title="Audit log"
        about="Changes by members, API keys and the command line, in all projects."
      />
      <PageBody>
        <Card
          wide={
            <ListTable
              label="Audit log"
              list={list}
              keyOf={({ id }) => id}
              columns={[
                { title: 'Action', cell: ({ action }) => wordsOf(action) },
                {
                  title: 'Target',
                  isWide: true,
                  cell: ({ target_id: id }) => (
                    <span className="font-mono text-xs break-all">{id}</span>
                  ),
                },
                {
                  title: 'By',
                  cell: ({ actor }) => (
                    <span className="break-words">{actor.name ?? 'the command line'}</span>
                  ),
                },
                {
                  title: 'From',
                  isWide: true,
                  cell: ({ network }) => <span className="font-mono text-xs">{network}</span>,
                },
                { title: 'When', isNumber: true, cell: ({ created_at: at }) => <Time at={at} /> },
              ]}
              empty={<Empty title="No changes yet" icon={ScrollText} />}
            />
          }
        />
      </PageBody>
    </>
  );
}

/** `createApiKey` as "create api key": the names of operations are words already. */
function wordsOf(action: string): string {
  return action.replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
