/**
 * The buttons that save or publish a template. A change by somebody else is never overwritten unseen: the service
 * refuses a change of a template that differs from the one that was read, and both versions are shown.
 */
import { useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import { ApiError } from '../../api/client.ts';
import { useReload } from '../../api/list.ts';
import { useApi } from '../../api/scope.ts';
import { keyText, useShortcuts } from '../../lib/keys.ts';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { sentenceOf } from '../../ui/states.tsx';
import { ContentChanges } from './changes.tsx';
import { contentOf, type Draft } from './draft.ts';

const UNSEEN = 'This template was changed meanwhile. Look at it before you publish it.';

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
  const isPublished = template.published_version === template.latest_version;
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
        <Button look="primary" disabled={isPublished || isSending} onClick={() => void publish()}>
          {isPublished ? 'Published' : `Publish version ${template.latest_version}`}
        </Button>
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

/** Changes of the stored template, on condition that it is the one that was read. */
function useSaving(template: Template, draft: Draft) {
  const api = useApi();
  const cache = useQueryClient();
  const reload = useReload();
  const [state, setState] = useState({ isSending: false, failure: '' });
  const path = { id: template.id };
  const run = async (
    change: () => Promise<Template>,
  ): Promise<'saved' | 'changed elsewhere' | null> => {
    setState({ isSending: true, failure: '' });
    try {
      cache.setQueryData(api.query('getTemplate', { path }).queryKey, await change());
      setState({ isSending: false, failure: '' });
      void reload('listTemplates');
      return 'saved';
    } catch (error) {
      const isElsewhere = error instanceof ApiError && error.code === 'precondition_failed';
      if (isElsewhere) await reload('getTemplate', path);
      setState({ isSending: false, failure: isElsewhere ? '' : sentenceOf(error) });
      return isElsewhere ? 'changed elsewhere' : null;
    }
  };
  const headers = { 'if-match': template.etag };
  return {
    ...state,
    save: () =>
      run(async () => api.call('updateTemplate', { path, headers, body: contentOf(draft) })),
    publish: async () => {
      const result = await run(() => api.call('publishTemplate', { path, headers, body: {} }));
      if (result === 'changed elsewhere') setState({ isSending: false, failure: UNSEEN });
    },
  };
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
      <p>
        This template was changed while you edited it. Lines with − are only in the stored version,
        lines with + only in yours.
      </p>
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
