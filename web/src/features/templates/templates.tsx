/** The list of templates, and the form that creates one from a starter. */
import { Link, useNavigate, useSearch } from '@tanstack/react-router';
import { FileText, Plus, SearchX } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useList, useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { textOf } from '../../ui/field.tsx';
import { STARTERS } from './starters.ts';
import { namesIn, TemplateMark, TemplateNames } from './head.tsx';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Find } from '../../ui/find.tsx';
import { HandbookLink } from '../../ui/handbook-link.tsx';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { Empty } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { Time } from '../../ui/time.tsx';

export function TemplatesScreen(): ReactNode {
  const [isCreating, setCreating] = useState(false);
  const { q } = useSearch({ from: '/$project/$environment/templates' });
  const list = useList('listTemplates', { query: { q } });
  const isEmpty = list.isSuccess && list.rows.length === 0 && !q;
  const create = (
    <Allowed to="createTemplate">
      <Button look="primary" onClick={() => setCreating(true)}>
        <Plus size={15} aria-hidden />
        Create a template
      </Button>
    </Allowed>
  );
  return (
    <>
      <PageHead
        title="Templates"
        about="Reusable email content. An email names a template and sets its variables."
        primary={!isEmpty && create}
      />
      <PageBody>
        <Card
          wide={
            <>
              {!isEmpty && <Find label="Search templates" q={q} />}
              <TemplateTable list={list} q={q} create={create} />
            </>
          }
        />
      </PageBody>
      <Dialog isOpen={isCreating} onClose={() => setCreating(false)} title="Create a template">
        <CreateForm />
      </Dialog>
    </>
  );
}

function TemplateTable(props: {
  list: ReturnType<typeof useList<'listTemplates'>>;
  q: string | undefined;
  create: ReactNode;
}): ReactNode {
  const { list, q, create } = props;
  const { scope } = useApi();
  return (
    <ListTable
      label="Templates"
      list={list}
      keyOf={({ id }) => id}
      columns={[
        {
          title: 'Name',
          cell: ({ id, name }) => (
            <Link
              to="/$project/$environment/templates/$id"
              params={{ ...scope, id }}
              className="cell-link font-medium break-words"
            >
              {name}
            </Link>
          ),
        },
        {
          title: 'Alias',
          cell: ({ alias }) =>
            alias === null ? '–' : <code className="font-mono text-xs">{alias}</code>,
        },
        {
          title: 'State',
          isState: true,
          cell: (template) => <TemplateMark template={template} />,
        },
        {
          title: 'Updated',
          isNumber: true,
          cell: ({ updated_at: at }) => <Time at={at} />,
        },
      ]}
      empty={
        <Empty
          title={q ? 'No matching templates' : 'No templates yet'}
          icon={q ? SearchX : FileText}
          action={
            q ? (
              <ClearSearch />
            ) : (
              <>
                {create}
                <HandbookLink page="templates">How templates work</HandbookLink>
              </>
            )
          }
        >
          <p>
            {q
              ? 'No name or alias contains this text.'
              : 'Write the content once. Your application then sends only the values of its variables.'}
          </p>
        </Empty>
      }
    />
  );
}

function ClearSearch(): ReactNode {
  const navigate = useNavigate();
  const clear = () =>
    navigate({ to: '.', params: true, search: (all) => ({ ...all, q: undefined }) });
  return <Button onClick={() => void clear()}>Clear the search</Button>;
}

function CreateForm(): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const create = async (form: FormData): Promise<void> => {
    const starter = STARTERS.find(({ key }) => key === textOf(form, 'starter')) ?? STARTERS[0]!;
    const body = { ...starter.content, ...namesIn(form) };
    const { id } = await api.call('createTemplate', { body });
    await reload('listTemplates');
    await navigate({ to: '/$project/$environment/templates/$id', params: { ...api.scope, id } });
  };
  return (
    <ActionForm action="Create" send={create}>
      <TemplateNames />
      <fieldset>
        <legend className="mb-1 text-sm font-medium">Begin with</legend>
        <div className="grid gap-1 sm:grid-cols-2">
          {STARTERS.map(({ key, title, about }, index) => (
            <label
              key={key}
              className="flex gap-2 rounded-md border border-line p-2 text-sm hover:bg-hover has-checked:border-accent has-checked:bg-accent-tint"
            >
              <input
                type="radio"
                name="starter"
                value={key}
                defaultChecked={index === 0}
                className="mt-0.5 size-4 shrink-0 accent-accent"
              />
              <span>
                <span className="block font-medium">{title}</span>
                <span className="block text-muted">{about}</span>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
    </ActionForm>
  );
}
