/** The versions of a template: their changes and previews, restoring and publishing. */
import { useQuery } from '@tanstack/react-query';
import { Link, useNavigate, useParams, useSearch } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Template, TemplateVersion } from '../../../../sdk/src/api.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Chip } from '../../ui/chip.tsx';
import { Segments } from '../../ui/segments.tsx';
import { InlineSelect } from '../../ui/select.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { Time } from '../../ui/time.tsx';
import { ContentChanges, hasChanges, TemplateChanges } from './changes.tsx';
import { firstSamples } from './draft.ts';
import { RenderedPreview, usePreview } from './preview.tsx';
import { DraftChip, TemplateFrame, TemplateHead, useTemplate } from './head.tsx';

const ROUTE = '/$project/$environment/templates/$id/versions';

export function TemplateVersionsScreen(): ReactNode {
  const { id } = useParams({ from: ROUTE });
  const template = useTemplate(id);
  const api = useApi();
  const versions = useQuery(api.query('listTemplateVersions', { path: { id } }));
  const failed = [template, versions].find(({ isError }) => isError);
  return (
    <>
      {!(template.isSuccess && versions.isSuccess) && (
        <TemplateFrame>
          {failed ? (
            <Problem error={failed.error} retry={() => void failed.refetch()} />
          ) : (
            <RowsSkeleton />
          )}
        </TemplateFrame>
      )}
      {template.isSuccess && versions.isSuccess && (
        <Loaded template={template.data} versions={versions.data.data} />
      )}
    </>
  );
}

function Loaded(props: { template: Template; versions: readonly TemplateVersion[] }): ReactNode {
  const { template, versions } = props;
  const { version: chosen, with: other } = useSearch({ from: ROUTE });
  const open = versions.find(({ version }) => String(version) === chosen) ?? versions[0];
  return (
    <>
      <TemplateHead template={template} />
      <div className="flex min-h-0 grow flex-col min-[1100px]:flex-row">
        <ol
          aria-label="Versions"
          className="shrink-0 border-line max-[1099px]:max-h-60 max-[1099px]:overflow-auto max-[1099px]:border-b min-[1100px]:w-80 min-[1100px]:overflow-auto min-[1100px]:border-r"
        >
          {versions.map((version) => (
            <li key={version.version}>
              <Row {...{ template, version }} isOpen={version === open} />
            </li>
          ))}
        </ol>
        {open && (
          <Version
            key={open.version}
            template={template}
            version={open.version}
            others={versions.map(({ version }) => version).filter((one) => one !== open.version)}
            before={
              versions.find(({ version }) => String(version) === other && version !== open.version)
                ?.version ??
              versions.find(({ version }) => version < open.version)?.version ??
              null
            }
          />
        )}
      </div>
    </>
  );
}

function Row(props: { template: Template; version: TemplateVersion; isOpen: boolean }): ReactNode {
  const { template, isOpen } = props;
  const { version, subject, published_at: publishedAt, saved_by: by } = props.version;
  const at = props.version.saved_at ?? props.version.created_at;
  const { scope } = useApi();
  return (
    <Link
      to={ROUTE}
      params={{ ...scope, id: template.id }}
      search={(all) => ({ ...all, version: String(version) })}
      aria-current={isOpen}
      className={`block border-b border-line py-2.5 pr-4 pl-(--page-x) text-sm hover:bg-hover ${isOpen ? 'bg-chosen' : ''}`}
    >
      <span className="flex items-center gap-3">
        <span className="font-medium">Version {version}</span>
        {version === template.published_version && <Chip tone="good">published</Chip>}
        {publishedAt === null && <DraftChip>draft</DraftChip>}
        <span className="ml-auto text-muted">
          <Time at={at} />
        </span>
      </span>
      <span className="block truncate text-muted">{subject}</span>
      {by !== null && <span className="block truncate text-xs text-muted">Saved by {by}</span>}
    </Link>
  );
}

type Props = {
  template: Template;
  version: number;
  /** Versions that it can be compared with. */
  others: readonly number[];
  before: number | null;
};

function useVersion(template: Template, version: number | null) {
  const api = useApi();
  return useQuery({
    ...api.query('getTemplateVersion', { path: { id: template.id, version: version ?? '' } }),
    enabled: version !== null,
  });
}

function Version({ template, version, others, before }: Props): ReactNode {
  const [open, setOpen] = useState<'restore' | 'publish' | null>(null);
  const close = (): void => setOpen(null);
  const content = useVersion(template, version);
  const previous = useVersion(template, before);
  const { view } = useSearch({ from: ROUTE });
  const isPublished = version === template.published_version;
  if (content.isError)
    return <Problem error={content.error} retry={() => void content.refetch()} />;
  if (content.isPending || previous.isLoading) return <RowsSkeleton />;
  return (
    <section
      aria-label={`Version ${version}`}
      className="min-w-0 grow space-y-4 overflow-auto px-(--page-x) py-4 min-[1100px]:pl-4"
    >
      <div className="flex flex-wrap items-center gap-2">
        <ViewLinks view={view} />
        {view !== 'preview' && before !== null && <ComparedWith {...{ others, before }} />}
        {version !== template.latest_version && (
          <Allowed to="updateTemplate">
            <Button onClick={() => setOpen('restore')}>Restore</Button>
          </Allowed>
        )}
        {!isPublished && (
          <Allowed to="publishTemplate">
            <Button look="primary" onClick={() => setOpen('publish')}>
              Publish
            </Button>
          </Allowed>
        )}
      </div>
      {view === 'preview' ? (
        <VersionPreview version={content.data} />
      ) : (
        <Changes before={previous.data ?? null} after={content.data} />
      )}
      <Dialog isOpen={open === 'restore'} onClose={close} title={`Restore version ${version}?`}>
        <RestoreForm template={template} version={content.data} />
      </Dialog>
      <Dialog isOpen={open === 'publish'} onClose={close} title={`Publish version ${version}?`}>
        <PublishForm template={template} version={version} onDone={close} />
      </Dialog>
    </section>
  );
}

const VIEWS = [
  ['changes', 'Changes'],
  ['preview', 'Preview'],
] as const;

function ViewLinks({ view }: { view: string | undefined }): ReactNode {
  const navigate = useNavigate();
  return (
    <span className="mr-auto">
      <Segments
        label="View"
        options={VIEWS}
        chosen={view === 'preview' ? view : 'changes'}
        onChoose={(name) =>
          void navigate({
            to: '.',
            params: true,
            search: (all) => ({ ...all, view: name === 'changes' ? undefined : name }),
            replace: true,
          })
        }
      />
    </span>
  );
}

function ComparedWith(props: { others: readonly number[]; before: number }): ReactNode {
  const navigate = useNavigate();
  return (
    <InlineSelect
      label="Compare with"
      options={props.others.map((one) => [String(one), `Compared with version ${one}`] as const)}
      value={String(props.before)}
      onChange={(value) =>
        void navigate({
          to: '.',
          params: true,
          search: (all) => ({ ...all, with: value }),
          replace: true,
        })
      }
    />
  );
}

function VersionPreview({ version }: { version: Template }): ReactNode {
  const preview = usePreview(version.id, () => ({
    variables: firstSamples(version.variables),
    version: version.version,
  }));
  const [problem] = preview.problems;
  if (problem) return <p className="text-sm text-bad">{problem.message}</p>;
  return <RenderedPreview rendered={preview.rendered} part="html" />;
}

function Changes({ before, after }: { before: Template | null; after: Template }): ReactNode {
  const isSame = before !== null && !hasChanges(before, after);
  return (
    <>
      <p className="text-sm text-muted">
        {before === null
          ? 'There is no earlier version to compare with.'
          : `${isSame ? 'No changes' : 'Changes'} ${before.version < after.version ? 'since' : 'from'} version ${before.version}.`}
      </p>
      <ContentChanges before={before} after={after} />
    </>
  );
}

function RestoreForm(props: { template: Template; version: Template }): ReactNode {
  const { template, version } = props;
  const api = useApi();
  const reload = useReload();
  const navigate = useNavigate();
  const { subject, html, text, variables } = version;
  const path = { id: template.id };
  const body = { subject, html, text, variables };
  const done = async (): Promise<void> => {
    await reload('getTemplate', path);
    const params = { ...api.scope, id: template.id };
    await navigate({ to: '/$project/$environment/templates/$id', params });
  };
  return (
    <SharedAction
      action="Restore"
      objects={[template]}
      of={({ id }) => ({ target_id: id })}
      changes={(before, after) => <TemplateChanges before={before} after={after} />}
      // It may replace a draft, which has to be the one that the member saw.
      act={(_, headers) => api.call('updateTemplate', { path, body, headers })}
      read={() => api.call('getTemplate', { path })}
      onDone={done}
    >
      {([now = template]) => (
        <p>
          {now.latest_version === now.published_version
            ? 'Creates a draft with this content. Emails use it once you publish it.'
            : `Replaces the content of the draft, version ${now.latest_version}.`}
        </p>
      )}
    </SharedAction>
  );
}

function PublishForm(props: {
  template: Template;
  version: number;
  onDone: () => void;
}): ReactNode {
  const { template, version, onDone } = props;
  const api = useApi();
  const reload = useReload();
  const path = { id: template.id };
  return (
    <SharedAction
      action="Publish"
      objects={[template]}
      of={({ id }) => ({ target_id: id })}
      changes={(before, after) => <TemplateChanges before={before} after={after} />}
      act={(_, headers) => api.call('publishTemplate', { path, body: { version }, headers })}
      read={() => api.call('getTemplate', { path })}
      isDone={(stored) => stored.published_version === version}
      onDone={async () => {
        await reload('listTemplates');
        onDone();
      }}
    >
      <p>New emails use this version.</p>
    </SharedAction>
  );
}
