/** The projects of the organization, and the limits of the current one. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { FolderOpen, Plus } from 'lucide-react';
import { type ComponentProps, type ReactNode, useState } from 'react';
import type { Project } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { sessionQuery } from '../../api/session.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { CopyButton } from '../../ui/copy.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field, textOf } from '../../ui/field.tsx';
import { FieldRefusal } from '../../ui/form-problems.ts';
import { PageBody, PageHead } from '../../ui/page.tsx';
import { SharedForm } from '../../ui/shared-form.tsx';
import { Empty } from '../../ui/states.tsx';
import { ListTable } from '../../ui/table.tsx';
import { LimitsCard } from './limits.tsx';
import { ReputationCard } from './reputation-card.tsx';
import { Time } from '../../ui/time.tsx';

export function ProjectsScreen(): ReactNode {
  const api = useApi();
  const [open, setOpen] = useState<'create' | Project | null>(null);
  const close = (): void => setOpen(null);
  const projects = useQuery(api.query('listProjects'));
  const rows = projects.data?.data ?? [];
  const name = rows.find(({ id }) => id === api.scope.project)?.name ?? 'this project';
  return (
    <>
      <PageHead
        title="Projects"
        about="Each project has its own domains, keys, emails and limits, for live and test."
        primary={
          <Allowed to="createProject">
            <Button look="primary" onClick={() => setOpen('create')}>
              <Plus size={15} aria-hidden />
              Create a project
            </Button>
          </Allowed>
        }
      />
      <PageBody>
        <ProjectTable list={{ ...projects, rows }} onRename={setOpen} />
        <div className="mt-4">
          <h2 className="text-lg font-semibold break-words">{name}</h2>
          {rows.length > 1 && (
            <p className="text-muted">
              The open project. Choose another one above to see its limits and alert.
            </p>
          )}
        </div>
        <LimitsCard />
        <ReputationCard />
      </PageBody>
      <Dialog isOpen={open === 'create'} onClose={close} title="Create a project">
        <CreateForm onDone={close} />
      </Dialog>
      <Dialog isOpen={open !== null && open !== 'create'} onClose={close} title="Rename">
        {open !== null && open !== 'create' && <RenameForm project={open} onDone={close} />}
      </Dialog>
    </>
  );
}

function ProjectTable(props: {
  list: ComponentProps<typeof ListTable<Project>>['list'];
  onRename: (project: Project) => void;
}): ReactNode {
  const { list, onRename } = props;
  const may = useMay();
  return (
    <Card
      title="All projects"
      wide={
        <ListTable
          label="Projects"
          list={list}
          keyOf={({ id }) => id}
          columns={[
            { title: 'Name', cell: (project) => <NameOf project={project} /> },
            {
              title: 'Created',
              isNumber: true,
              isWide: true,
              cell: ({ created_at: at }) => <Time at={at} />,
            },
            {
              title: '',
              isNumber: true,
              isHidden: !may('updateProject'),
              cell: (project) => (
                <Button
                  size="small"
                  aria-label={`Rename ${project.name}`}
                  onClick={() => onRename(project)}
                >
                  Rename
                </Button>
              ),
            },
          ]}
          empty={<Empty title="No projects" icon={FolderOpen} />}
        />
      }
    />
  );
}

function NameOf({ project: { id, name } }: { project: Project }): ReactNode {
  const { scope } = useApi();
  return (
    <>
      <Link
        to="/$project/$environment/projects"
        params={{ project: id, environment: scope.environment }}
        className="cell-link font-medium break-words"
      >
        {name}
      </Link>
      {id === scope.project && <span className="ml-2 text-xs text-muted">Current</span>}
      <span className="-my-1 flex items-center gap-1 text-xs text-muted">
        <span className="min-w-0 truncate font-mono">{id}</span>
        <CopyButton text={id} what={`id of ${name}`} />
      </span>
    </>
  );
}

/** Reads a name, which the menu of projects needs to tell them apart. */
function useNameIn(): (form: FormData, own?: string) => { name: string } {
  const cache = useQueryClient();
  return (form, own) => {
    const typed = textOf(form, 'name').trim();
    const projects = cache.getQueryData(sessionQuery.queryKey)?.projects ?? [];
    if (projects.some(({ id, name }) => name === typed && id !== own)) {
      throw new FieldRefusal('name', `There is already a project “${typed}”. Choose another name.`);
    }
    return { name: typed };
  };
}

function useProjectsChanged(): () => Promise<void> {
  const cache = useQueryClient();
  const reload = useReload();
  return async () => {
    // The menu of projects has their names.
    await cache.invalidateQueries({ queryKey: sessionQuery.queryKey, exact: true });
    await reload('listProjects');
  };
}

function CreateForm({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const nameIn = useNameIn();
  const changed = useProjectsChanged();
  const create = async (form: FormData): Promise<void> => {
    await api.call('createProject', { body: nameIn(form) });
    await changed();
    onDone();
  };
  return (
    <ActionForm action="Create" send={create}>
      <NameField />
    </ActionForm>
  );
}

function RenameForm({ project, onDone }: { project: Project; onDone: () => void }): ReactNode {
  const api = useApi();
  const nameIn = useNameIn();
  const changed = useProjectsChanged();
  const { id } = project;
  return (
    <SharedForm
      action="Rename"
      object={project}
      of={{ target_id: id }}
      fields={{ name: 'Name' }}
      bodyOf={(form) => nameIn(form, id)}
      change={(body, headers) => api.call('updateProject', { path: { id }, body, headers })}
      read={async () => (await api.call('listProjects')).data.find((one) => one.id === id)}
      onDone={async () => {
        await changed();
        onDone();
      }}
    >
      {({ name }) => <NameField name={name} />}
    </SharedForm>
  );
}

function NameField({ name }: { name?: string }): ReactNode {
  return (
    <Field
      label="Name"
      name="name"
      defaultValue={name}
      maxLength={100}
      autoComplete="off"
      required
    />
  );
}
