/** The sending domains, and the form that adds one. */
import { Link, useNavigate } from '@tanstack/react-router';
import { Globe, Plus } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Domain } from '../../../../sdk/src/api.ts';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { useCreating } from '../../ui/creating.ts';
import { Dialog } from '../../ui/dialog.tsx';
import { DomainName } from '../../ui/domain-name.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { Mark } from '../../ui/mark.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty } from '../../ui/states.tsx';
import { Dash, ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

const LOOKS = {
  not_started: ['none', 'not checked yet'],
  pending: ['wait', 'pending'],
  verified: ['good', 'verified'],
  degraded: ['wait', 'degraded'],
  failed: ['bad', 'failed'],
} as const;

export function DomainMark({ status }: Pick<Domain, 'status'>): ReactNode {
  const [look, word] = LOOKS[status];
  return <Mark look={look}>{word}</Mark>;
}

/** How many of the required records were found by the last check. */
function RecordsFound({ domain }: { domain: Domain }): ReactNode {
  if (domain.status === 'not_started') return <Dash />;
  const required = domain.records.filter((record) => record.required);
  const found = required.filter(({ status }) => status === 'verified');
  return (
    <Mark look={found.length === required.length ? 'good' : 'wait'}>
      {found.length} of {required.length} required
    </Mark>
  );
}

export function DomainsScreen(): ReactNode {
  const [isAdding, setAdding] = useCreating();
  const list = useList('listDomains');
  const add = (
    <Allowed to="createDomain">
      <Button look="primary" onClick={() => setAdding(true)}>
        <Plus size={15} aria-hidden />
        Add a domain
      </Button>
    </Allowed>
  );
  return (
    <>
      <PageHead
        title="Domains"
        about="You can only send from verified domains."
        primary={list.rows.length > 0 && add}
      />
      <PageBody>
        <Card wide={<DomainTable list={list} add={add} />} />
      </PageBody>
      <Dialog isOpen={isAdding} onClose={() => setAdding(false)} title="Add a domain">
        <AddForm />
      </Dialog>
    </>
  );
}

function DomainTable({
  list,
  add,
}: {
  list: ReturnType<typeof useList<'listDomains'>>;
  add: ReactNode;
}): ReactNode {
  const { scope } = useApi();
  return (
    <ListTable
      label="Domains"
      list={list}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Domain',
          cell: ({ id, name }) => (
            <Link
              to="/$project/$environment/domains/$id"
              params={{ ...scope, id }}
              className="cell-link font-medium [overflow-wrap:anywhere]"
            >
              <DomainName name={name} />
            </Link>
          ),
        },
        { title: 'Status', isState: true, cell: (domain) => <DomainMark {...domain} /> },
        {
          title: 'Records',
          cell: (domain) => <RecordsFound domain={domain} />,
        },
        {
          title: 'Checked',
          isNumber: true,
          cell: ({ checked_at: at }) => (at === null ? <Dash /> : <Time at={at} />),
        },
      ]}
      empty={
        <Empty
          title="No domains yet"
          icon={Globe}
          action={
            <>
              {add}
              <HandbookLink page="domains">How domains are verified</HandbookLink>
            </>
          }
        >
          <p>Add the domain of your sender addresses. You then get the DNS records to publish.</p>
        </Empty>
      }
    />
  );
}

function AddForm(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const add = async (form: FormData): Promise<void> => {
    const { id } = await api.call('createDomain', { body: { name: textOf(form, 'name') } });
    await reload('listDomains');
    await navigate({ to: '/$project/$environment/domains/$id', params: { ...api.scope, id } });
  };
  return (
    <ActionForm action="Add" send={add}>
      <Field label="Domain" name="name" placeholder="acme.com" autoComplete="off" required />
    </ActionForm>
  );
}
