/**
 * Copies a template to the other environment, for example from test to live. A template there with the same alias gets
 * a draft with this content, after the member has seen what changes; without one, a template is created.
 */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import { ApiError, type Scope } from '../../api/client.ts';
import { type Api, apiOf, useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { SharedAction } from '../../ui/shared-action.tsx';
import { changeIfSame, type IfMatch } from '../../ui/shared-change.tsx';
import { ContentChanges, hasChanges, TemplateChanges } from './changes.tsx';

export function CopyForm({ template }: { template: Template }): ReactNode {
  const { scope } = useApi();
  const environment = scope.environment === 'live' ? 'test' : 'live';
  const there = apiOf({ ...scope, environment });
  const { alias } = template;
  const cache = useQueryClient();
  const [copied, setCopied] = useState<Template | null>(null);
  const existing = useQuery({
    queryKey: [...there.key, 'copy of', alias],
    queryFn: () => findByAlias(there, alias),
  });
  if (existing.isPending) return <RowsSkeleton rows={3} />;
  if (existing.isError)
    return <Problem error={existing.error} retry={() => void existing.refetch()} />;
  if (copied !== null) return <Copied copied={copied} scope={there.scope} />;
  const old = existing.data;
  const onCopied = (stored: Template): void => {
    setCopied(stored);
    // The next copy replaces this one.
    void cache.invalidateQueries({ queryKey: there.key });
  };
  const props = { there, template, onCopied };
  if (old === null) return <CreateForm {...props} onTaken={() => existing.refetch()} />;
  return <ReplaceForm {...props} old={old} />;
}

type Props = { there: Api; template: Template; onCopied: (copied: Template) => void };

/** @param props.onTaken when somebody else has made a template with this alias meanwhile */
function CreateForm(props: Props & { onTaken: () => Promise<unknown> }): ReactNode {
  const { there, template, onCopied, onTaken } = props;
  const { environment } = there.scope;
  const copy = async (form: FormData): Promise<void> => {
    const { name, alias } = template;
    try {
      const body = { name, alias, ...contentIn(template) };
      onCopied(await publishIf(form, there, await there.call('createTemplate', { body })));
    } catch (error) {
      if (error instanceof ApiError && error.code === 'conflict') await onTaken();
      throw error;
    }
  };
  return (
    <ActionForm action={`Copy to ${environment}`} send={copy}>
      <p>Creates this template in the environment {environment}. Unsaved changes are not copied.</p>
      <PublishToo />
    </ActionForm>
  );
}

function ReplaceForm({ there, template, onCopied, old }: Props & { old: Template }): ReactNode {
  const { environment } = there.scope;
  const path = { id: old.id };
  const copy = async (headers: IfMatch, form: FormData): Promise<void> => {
    const body = contentIn(template);
    const stored = await there.call('updateTemplate', { path, body, headers });
    onCopied(await publishIf(form, there, stored));
  };
  return (
    <SharedAction
      action={`Copy to ${environment}`}
      objects={[old]}
      of={({ id }) => ({ target_id: id })}
      changes={(before, after) => <TemplateChanges before={before} after={after} />}
      act={(_, headers, form) => copy(headers, form)}
      read={() => there.call('getTemplate', { path })}
      onDone={() => {}}
    >
      {([now = old]) => (
        <>
          <p>
            The template “{now.name}” in {environment} has the same alias. It gets this content as a
            draft. Unsaved changes are not copied.
          </p>
          {hasChanges(now, template) && (
            <div className="max-h-80 space-y-2 overflow-auto">
              <ContentChanges before={now} after={template} />
            </div>
          )}
          <PublishToo />
        </>
      )}
    </SharedAction>
  );
}

function PublishToo(): ReactNode {
  return (
    <label className="flex items-center gap-2 text-sm">
      <input type="checkbox" name="publish" className="size-4" />
      Publish it there, so that new emails use it
    </label>
  );
}

/** Publishes what was copied, if that is wanted. It stays a draft when somebody has changed it since. */
async function publishIf(form: FormData, there: Api, stored: Template): Promise<Template> {
  if (form.get('publish') === null) return stored;
  const path = { id: stored.id };
  const published = await changeIfSame(stored.etag, (headers) =>
    there.call('publishTemplate', { path, body: {}, headers }),
  );
  return published?.done ?? stored;
}

const contentIn = ({ subject, html, text, variables }: Template) => ({
  subject,
  html,
  text,
  variables,
});

async function findByAlias(there: Api, alias: string | null): Promise<Template | null> {
  if (alias === null) return null;
  try {
    return await there.call('getTemplate', { path: { id: alias } });
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return null;
    throw error;
  }
}

function Copied({ copied, scope }: { copied: Template; scope: Scope }): ReactNode {
  const isPublished = copied.published_version === copied.latest_version;
  return (
    <p role="status" className="px-5 pt-1 pb-5">
      Version {copied.latest_version} is {isPublished ? 'published' : 'a draft'} in{' '}
      {scope.environment}.{' '}
      <Link
        to="/$project/$environment/templates/$id"
        params={{ ...scope, id: copied.id }}
        className="text-accent underline"
      >
        Show it
      </Link>
    </p>
  );
}
