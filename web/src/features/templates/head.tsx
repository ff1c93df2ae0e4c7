/** The head of the pages of one template, with renaming and deleting. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { ArrowLeft } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Template, TemplateSummary } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Mark } from '../../ui/mark.tsx';
import { PageHead } from '../../ui/page.tsx';

const ROUTE = '/$project/$environment/templates/$id';

export function useTemplate(id: string) {
  const api = useApi();
  return useQuery(api.query('getTemplate', { path: { id } }));
}

export function BackToTemplates(): ReactNode {
  const { scope } = useApi();
  return (
    <Link
      to="/$project/$environment/templates"
      params={scope}
      className="mx-4 mt-3 inline-flex items-center gap-1 text-sm text-muted hover:text-text"
    >
      <ArrowLeft size={14} aria-hidden /> Templates
    </Link>
  );
}

/** The published version, and whether there is a newer draft. */
export function TemplateMark({ template }: { template: TemplateSummary }): ReactNode {
  const { published_version: published, latest_version: latest } = template;
  if (published === null) return <Mark look="none">draft</Mark>;
  if (published === latest) return <Mark look="good">version {published}</Mark>;
  return <Mark look="wait">{`version ${published} of ${latest}`}</Mark>;
}

/** Name, state and the two pages of a template. @param children its buttons */
export function TemplateHead(props: { template: Template; children?: ReactNode }): ReactNode {
  const { template } = props;
  const { scope } = useApi();
  const params = { ...scope, id: template.id };
  const look =
    '-mb-px border-b-2 border-transparent py-2 text-sm text-muted hover:text-text aria-[current=page]:border-accent aria-[current=page]:text-text';
  return (
    <>
      <PageHead
        title={template.name}
        about={
          <span className="flex flex-wrap gap-x-3">
            <TemplateMark template={template} />
            {template.alias !== null && <code className="font-mono text-xs">{template.alias}</code>}
          </span>
        }
      >
        {props.children}
      </PageHead>
      <nav aria-label="Parts of the template" className="flex gap-4 border-b border-line px-4">
        <Link
          to={ROUTE}
          params={params}
          activeOptions={{ exact: true, includeSearch: false }}
          className={look}
        >
          Edit
        </Link>
        <Link to={`${ROUTE}/versions`} params={params} className={look}>
          Versions
        </Link>
      </nav>
    </>
  );
}

export function TemplateActions({ template }: { template: Template }): ReactNode {
  const [open, setOpen] = useState<'rename' | 'delete' | null>(null);
  const close = (): void => setOpen(null);
  return (
    <>
      <Allowed to="deleteTemplate">
        <Button look="danger" onClick={() => setOpen('delete')}>
          Delete
        </Button>
      </Allowed>
      <Allowed to="updateTemplate">
        <Button onClick={() => setOpen('rename')}>Rename</Button>
      </Allowed>
      <Dialog isOpen={open === 'rename'} onClose={close} title="Rename">
        <RenameForm template={template} onDone={close} />
      </Dialog>
      <Dialog isOpen={open === 'delete'} onClose={close} title={`Delete ${template.name}?`}>
        <DeleteForm template={template} />
      </Dialog>
    </>
  );
}

function RenameForm(props: { template: Template; onDone: () => void }): ReactNode {
  const { template, onDone } = props;
  const api = useApi();
  const reload = useReload();
  const rename = async (form: FormData): Promise<void> => {
    await api.call('updateTemplate', { path: { id: template.id }, body: namesIn(form) });
    await reload('listTemplates');
    onDone();
  };
  return (
    <ActionForm action="Save" send={rename}>
      <TemplateNames template={template} />
      {template.alias !== null && <p>Requests with the old alias will fail.</p>}
    </ActionForm>
  );
}

function DeleteForm({ template }: { template: Template }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const remove = async (): Promise<void> => {
    const { id, etag } = template;
    await api.call('deleteTemplate', { path: { id }, headers: { 'if-match': etag } });
    // Unsaved changes are discarded with it.
    const to = { to: '/$project/$environment/templates', params: api.scope } as const;
    await navigate({ ...to, ignoreBlocker: true });
    await reload('listTemplates');
  };
  return (
    <ActionForm action="Delete template" look="danger" send={remove}>
      <p>
        All versions are deleted. New emails that name this template are refused. Emails already
        accepted are kept. This cannot be undone.
      </p>
    </ActionForm>
  );
}

/** Reads the fields of TemplateNames. */
export function namesIn(form: FormData): { name: string; alias: string | null } {
  return { name: textOf(form, 'name'), alias: textOf(form, 'alias') || null };
}

export function TemplateNames({ template }: { template?: TemplateSummary }): ReactNode {
  return (
    <>
      <Field
        label="Name"
        name="name"
        defaultValue={template?.name}
        autoComplete="off"
        maxLength={100}
        required
      />
      <Field
        label="Alias"
        name="alias"
        defaultValue={template?.alias ?? ''}
        placeholder="receipt"
        hint="Optional. A name to use in requests instead of the ID."
        autoComplete="off"
      />
    </>
  );
}
