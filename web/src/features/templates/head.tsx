/** The head of the pages of one template, with renaming and deleting. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate } from '@tanstack/react-router';
import { CircleDot } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Template, TemplateSummary } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { Chip } from '../../ui/chip.tsx';
import type { MoreItems } from '../../ui/more-menu.tsx';
import { Crumb, PageHead } from '../../ui/page.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { TemplateChanges } from './changes.tsx';
import { CopyForm } from './copy-environment.tsx';

const ROUTE = '/$project/$environment/templates/$id';

export function useTemplate(id: string) {
  const api = useApi();
  return useQuery(api.query('getTemplate', { path: { id } }));
}

/** The version that emails use, and whether there are changes that they do not use yet. */
export function TemplateMark({ template }: { template: TemplateSummary }): ReactNode {
  const { published_version: published, latest_version: latest } = template;
  if (published === null) return <DraftChip>not published</DraftChip>;
  if (published === latest) return <Chip tone="good">version {published} published</Chip>;
  return <DraftChip>{`version ${published}, unpublished changes`}</DraftChip>;
}

/** A content that no email uses yet. */
export function DraftChip({ children }: { children: ReactNode }): ReactNode {
  return (
    <Chip tone="quiet" icon={CircleDot}>
      {children}
    </Chip>
  );
}

function ToTemplates(): ReactNode {
  const { scope } = useApi();
  return (
    <Crumb to="/$project/$environment/templates" params={scope}>
      Templates
    </Crumb>
  );
}

/** The page while the template is read, or when it cannot be. */
export function TemplateFrame({ children }: { children: ReactNode }): ReactNode {
  return (
    <>
      <PageHead title="Template" crumb={<ToTemplates />} />
      {children}
    </>
  );
}

/** Name, state and the two pages of a template. @param props.children buttons */
export function TemplateHead(props: {
  template: Template;
  more?: MoreItems;
  children?: ReactNode;
}): ReactNode {
  const { template, more } = props;
  const { scope } = useApi();
  const params = { ...scope, id: template.id };
  const look =
    '-mb-px border-b-2 border-transparent py-2 text-sm font-medium text-muted hover:text-text aria-[current=page]:border-accent aria-[current=page]:text-text';
  return (
    <>
      <PageHead
        title={template.name}
        crumb={<ToTemplates />}
        about={
          <span className="flex flex-wrap items-center gap-x-3">
            <TemplateMark template={template} />
            {template.alias !== null && <code className="font-mono text-xs">{template.alias}</code>}
          </span>
        }
        {...(more && { more })}
      >
        {props.children}
      </PageHead>
      <nav
        aria-label="Parts of the template"
        className="-mt-2 flex shrink-0 gap-4 border-b border-line px-(--page-x)"
      >
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

/** The actions of a template that are used less, and their dialogs. */
export function useTemplateActions(template: Template): { more: MoreItems; dialogs: ReactNode } {
  const [open, setOpen] = useState<'rename' | 'copy' | 'delete' | null>(null);
  const may = useMay();
  const { scope } = useApi();
  const close = (): void => setOpen(null);
  const other = scope.environment === 'live' ? 'test' : 'live';
  return {
    more: [
      may('updateTemplate') && { label: 'Rename', onChoose: () => setOpen('rename') },
      may('createTemplate') && { label: `Copy to ${other}`, onChoose: () => setOpen('copy') },
      may('deleteTemplate') && {
        label: 'Delete',
        isDestructive: true,
        onChoose: () => setOpen('delete'),
      },
    ],
    dialogs: (
      <>
        <Dialog isOpen={open === 'rename'} onClose={close} title="Rename">
          <RenameForm template={template} onDone={close} />
        </Dialog>
        <Dialog isOpen={open === 'copy'} onClose={close} title={`Copy to ${other}`}>
          <CopyForm template={template} />
        </Dialog>
        <Dialog isOpen={open === 'delete'} onClose={close} title={`Delete ${template.name}?`}>
          <DeleteForm template={template} />
        </Dialog>
      </>
    ),
  };
}

function RenameForm(props: { template: Template; onDone: () => void }): ReactNode {
  const { template, onDone } = props;
  const api = useApi();
  const reload = useReload();
  const path = { id: template.id };
  return (
    <SharedForm
      action="Save"
      object={template}
      of={{ target_id: template.id }}
      fields={{ name: 'Name', alias: 'Alias' }}
      bodyOf={namesIn}
      change={(body, headers) => api.call('updateTemplate', { path, body, headers })}
      read={() => api.call('getTemplate', { path })}
      onDone={async () => {
        await reload('listTemplates');
        onDone();
      }}
    >
      {(object) => (
        <>
          <TemplateNames template={object} />
          {object.alias !== null && <p>Requests with the old alias will fail.</p>}
        </>
      )}
    </SharedForm>
  );
}

function DeleteForm({ template }: { template: Template }): ReactNode {
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const path = { id: template.id };
  const done = async (): Promise<void> => {
    // Unsaved changes are discarded with it.
    const to = { to: '/$project/$environment/templates', params: api.scope } as const;
    await navigate({ ...to, ignoreBlocker: true });
    await reload('listTemplates');
  };
  return (
    <SharedAction
      action="Delete template"
      look="danger"
      objects={[template]}
      of={({ id }) => ({ target_id: id })}
      changes={(before, after) => <TemplateChanges before={before} after={after} />}
      act={(_, headers) => api.call('deleteTemplate', { path, headers })}
      read={() => api.call('getTemplate', { path })}
      onDone={done}
    >
      <p>
        All versions are deleted. New emails that name this template are refused. Emails already
        accepted are kept. This cannot be undone.
      </p>
    </SharedAction>
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
