/**
 * Copies a template to the other environment, for example from test to live. A template there with the same alias gets
 * a draft with this content, after the member has seen what changes; without one, a template is created.
 */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import { type ReactNode, useState } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import { ApiError, type Scope } from '../../api/client.ts';
import { type Api, apiOf, useApi } from '../../api/scope.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { Problem, RowsSkeleton } from '../../ui/states.tsx';
import { ContentChanges, hasChanges } from './changes.tsx';

export function CopyForm({ template }: { template: Template }): ReactNode {
  const { scope } = useApi();
  const environment = scope.environment === 'live' ? 'test' : 'live';
  const there = apiOf({ ...scope, environment });
  const { alias } = template;
  const [copied, setCopied] = useState<Template | null>(null);
  const existing = useQuery({
    queryKey: [...there.key, 'copy of', alias],
    queryFn: () => findByAlias(there, alias),
  });
  if (existing.isPending) return <RowsSkeleton rows={3} />;
  if (existing.isError)
    return <Problem error={existing.error} retry={() => void existing.refetch()} />;
  const old = existing.data;
  const copy = async (form: FormData): Promise<void> => {
    const { name, subject, html, text, variables } = template;
    const content = { subject, html, text, variables };
    const stored =
      old === null
        ? await there.call('createTemplate', { body: { name, alias, ...content } })
        : await there.call('updateTemplate', {
            path: { id: old.id },
            body: content,
            headers: { 'if-match': old.etag },
          });
    const path = { id: stored.id };
    const publishes = form.get('publish') !== null;
    setCopied(publishes ? await there.call('publishTemplate', { path, body: {} }) : stored);
  };
  if (copied !== null) return <Copied copied={copied} scope={there.scope} />;
  return (
    <ActionForm action={`Copy to ${environment}`} send={copy}>
      <p>
        {old === null
          ? `Creates this template in the environment ${environment}.`
          : `The template “${old.name}” in ${environment} has the same alias. It gets this content as a draft.`}{' '}
        Unsaved changes are not copied.
      </p>
      {old !== null && hasChanges(old, template) && (
        <div className="max-h-80 space-y-2 overflow-auto">
          <ContentChanges before={old} after={template} />
        </div>
      )}
      <label className="flex items-center gap-2 text-sm">
        <input type="checkbox" name="publish" className="size-4 accent-accent" />
        Publish it there, so that new emails use it
      </label>
    </ActionForm>
  );
}

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
