/**
 * The buttons that save or publish a template. A change by somebody else is never overwritten unseen: the service
 * refuses a change of a template that differs from the one that was read, and both versions are shown.
 */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import { findLastChange } from '../../api/last-change.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { keyText, useShortcuts } from '../../lib/keys.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { changeIfSame, type IfMatch, MeanwhileBy } from '../../ui/shared-change.tsx';
import { sentenceOf } from '../../ui/states.tsx';
import { ContentChanges, TemplateChanges } from './changes.tsx';
import { contentOf, type Draft } from './draft.ts';

type Props = {
  /** As it is stored. */
  template: Template;
  draft: Draft;
  isChanged: boolean;
  /** The stored template is not the one from which the draft began. */
  isOutdated: boolean;
  discard: () => void;
};

export function SaveOrPublish({ template, draft, isChanged, isOutdated, discard }: Props) {
  const { isSending, failure, save, publish } = useSaving(template, draft);
  const [isComparing, setComparing] = useState(false);
  const start = async (): Promise<void> => {
    if (isOutdated || (await save()) === 'changed elsewhere') setComparing(true);
  };
  // Also without changes: else the browser would save the page.
  useShortcuts([
    { keys: 'mod+s', label: 'Save the template', run: () => isChanged && void start() },
  ]);
  return (
    <>
      {isChanged ? (
        <>
          <Button onClick={discard}>Discard changes</Button>
          <Button
            look="primary"
            title={keyText('mod+S')}
            disabled={isSending}
            onClick={() => void start()}
          >
            Save
          </Button>
        </>
      ) : (
        <PublishButton {...{ template, isSending, publish }} />
      )}
      {failure !== '' && (
        <p role="alert" className="w-full text-sm text-bad">
          {failure}
        </p>
      )}
      <Dialog
        isOpen={isComparing && isOutdated}
        onClose={() => setComparing(false)}
        title="Changed elsewhere"
      >
        <BothVersions
          stored={template}
          draft={draft}
          isSending={isSending}
          saveMine={() => void save().then((result) => result === 'saved' && setComparing(false))}
          takeTheirs={() => {
            setComparing(false);
            discard();
          }}
        />
      </Dialog>
    </>
  );
}

/** Publishes the version that the member sees; when somebody else has changed it, only after showing what. */
function PublishButton(props: {
  template: Template;
  isSending: boolean;
  publish: () => Promise<Saving>;
}): ReactNode {
  const { template, isSending, publish } = props;
  const [seen, setSeen] = useState<Template | null>(null);
  const isPublished = template.published_version === template.latest_version;
  const start = async (): Promise<void> => {
    const before = seen ?? template;
    setSeen((await publish()) === 'changed elsewhere' ? before : null);
  };
  return (
    <>
      <Button look="primary" disabled={isPublished || isSending} onClick={() => void start()}>
        {isPublished ? 'Published' : `Publish version ${template.latest_version}`}
      </Button>
      <Dialog
        isOpen={seen !== null && !isPublished}
        onClose={() => setSeen(null)}
        title="Changed elsewhere"
      >
        {seen && (
          <div className="space-y-3 px-5 pt-1 pb-5">
            <By template={template}>
              Lines with − were in the version that you saw, lines with + are stored now.
            </By>
            <TemplateChanges before={seen} after={template} />
            <div className="flex flex-wrap justify-end gap-2">
              <Button look="primary" disabled={isSending} onClick={() => void start()}>
                Publish version {template.latest_version} anyway
              </Button>
            </div>
          </div>
        )}
      </Dialog>
    </>
  );
}

/** Null: it failed. */
type Saving = 'saved' | 'changed elsewhere' | null;

/** Changes of the stored template, on condition that it is the one that was read. */
function useSaving(template: Template, draft: Draft) {
  const api = useApi();
  const cache = useQueryClient();
  const reload = useReload();
  const [state, setState] = useState({ isSending: false, failure: '' });
  const path = { id: template.id };
  const run = async (change: (headers: IfMatch) => Promise<Template>): Promise<Saving> => {
    setState({ isSending: true, failure: '' });
    try {
      const saved = await changeIfSame(template.etag, change);
      if (saved === null) await reload('getTemplate', path);
      else cache.setQueryData(api.query('getTemplate', { path }).queryKey, saved.done);
      setState({ isSending: false, failure: '' });
      void reload('listTemplates');
      return saved === null ? 'changed elsewhere' : 'saved';
    } catch (error) {
      setState({ isSending: false, failure: sentenceOf(error) });
      return null;
    }
  };
  return {
    ...state,
    save: () =>
      run(async (headers) => api.call('updateTemplate', { path, headers, body: contentOf(draft) })),
    publish: () => run((headers) => api.call('publishTemplate', { path, headers, body: {} })),
  };
}

/** Who changed the template while it was open here. @param props.children what the signs of the lines mean */
function By({ template, children }: { template: Template; children: string }): ReactNode {
  const api = useApi();
  const { data: last = null } = useQuery({
    queryKey: [...api.key, '/v1/audit_log', 'last', template.id],
    queryFn: () => findLastChange(api, { target_id: template.id }),
  });
  return <MeanwhileBy last={last}>{children}</MeanwhileBy>;
}

function BothVersions(props: {
  stored: Template;
  draft: Draft;
  isSending: boolean;
  saveMine: () => void;
  takeTheirs: () => void;
}): ReactNode {
  return (
    <div className="space-y-3 p-4">
      <By template={props.stored}>
        Lines with − are only in the stored version, lines with + only in yours.
      </By>
      <ContentChanges before={props.stored} after={contentOf(props.draft)} />
      <div className="flex flex-wrap gap-2">
        <Button look="primary" disabled={props.isSending} onClick={props.saveMine}>
          Save mine
        </Button>
        <Button onClick={props.takeTheirs}>Discard mine</Button>
      </div>
    </div>
  );
}
