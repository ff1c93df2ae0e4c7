/** The preview of a draft while it is typed. The service renders it and stores nothing. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useEffect, useState } from 'react';
import { inScheme } from '../../../../src/mail/html/colour-scheme.ts';
import type { RenderedTemplate } from '../../../../sdk/src/api.ts';
import { ApiError, call, type FieldProblem } from '../../api/client.ts';
import { useApi } from '../../api/scope.ts';
import {
  lookOf,
  PreviewControls,
  type PreviewView,
  schemeOf,
  widthOf,
} from '../../ui/preview-view.tsx';
import { HtmlFrame } from '../../ui/html-frame.tsx';
import { RowsSkeleton, sentenceOf } from '../../ui/states.tsx';
import type { Content } from './draft.ts';

const TYPING_MS = 250;

export type PreviewRequest = {
  variables: Record<string, unknown>;
  version?: number;
  content?: Content;
};

export type Preview = {
  /** The last rendering without problems. */
  rendered: RenderedTemplate | null;
  problems: readonly FieldProblem[];
  /** The draft has changed since `rendered`. */
  isStale: boolean;
  /** The service could not be reached, and is asked again. */
  isWaiting: boolean;
};

type Result = Omit<Preview, 'isStale' | 'isWaiting'> & {
  /** The request that `rendered` answers. */
  renderedOf: string | null;
};

/**
 * When an outage fails the request for a preview, the page requests it again once it reaches the service.
 * @param request that makes the body, or throws an Error about what was typed
 */
export function usePreview(id: string, request: () => PreviewRequest): Preview {
  const { key, scope } = useApi();
  const [preview, setPreview] = useState<Result>({
    rendered: null,
    problems: [],
    renderedOf: null,
  });
  const typed = bodyOf(request);
  const [asked, failure] = useSettled(typed);
  const { data, error, failureReason } = useQuery({
    queryKey: [...key, `preview of ${id}`, asked],
    queryFn: ({ signal }) => {
      const options = { scope, body: JSON.parse(asked ?? '') as PreviewRequest, signal };
      return call('previewTemplate', { path: { id }, ...options });
    },
    enabled: asked !== null,
    staleTime: Infinity,
    // Each typed text has a preview of its own.
    gcTime: 0,
  });
  useEffect(() => {
    if (data) setPreview({ rendered: data, problems: [], renderedOf: asked });
    else if (error) setPreview((last) => ({ ...last, problems: problemsOf(error) }));
    else if (failure !== '') {
      setPreview((last) => ({ ...last, problems: [{ field: '', message: failure }] }));
    }
  }, [data, error, asked, failure]);
  const isStale = preview.rendered !== null && preview.renderedOf !== typed[0];
  return { ...preview, isStale, isWaiting: failureReason !== null && error === null };
}

type Typed = [body: string | null, failure: string];

/** Returns what was typed, once the typing pauses. */
function useSettled([body, failure]: Typed): Typed {
  const [settled, setSettled] = useState<Typed>([null, '']);
  useEffect(() => {
    const timer = setTimeout(() => setSettled([body, failure]), TYPING_MS);
    return () => clearTimeout(timer);
  }, [body, failure]);
  return settled;
}

/** Says when the preview is not of the present text. */
export function PreviewState({ preview }: { preview: Preview }): ReactNode {
  const { isStale, isWaiting, problems } = preview;
  const hasProblems = problems.length > 0;
  const text = hasProblems
    ? 'The preview shows an earlier text, because the current one has problems.'
    : 'Updating the preview …';
  return (
    <p role="status" className={hasProblems || isWaiting ? 'text-sm text-wait' : 'sr-only'}>
      {isWaiting ? 'The preview comes when the service can be reached again.' : isStale && text}
    </p>
  );
}

function bodyOf(request: () => PreviewRequest): Typed {
  try {
    return [JSON.stringify(request()), ''];
  } catch (error) {
    return [null, sentenceOf(error)];
  }
}

function problemsOf(error: unknown): readonly FieldProblem[] {
  const details = error instanceof ApiError ? error.details : [];
  return details.length > 0 ? details : [{ field: '', message: sentenceOf(error) }];
}

export function RenderedPreview({
  rendered,
  part,
}: {
  rendered: RenderedTemplate | null;
  part: 'html' | 'text';
}): ReactNode {
  const [view, setView] = useState<PreviewView>({ width: '600', isDark: false });
  const [hasRemote, setRemote] = useState(false);
  if (rendered === null) return <RowsSkeleton rows={4} />;
  const { subject, html, text } = rendered;
  const shown = html === null ? 'text' : part;
  return (
    <div className="flex min-h-0 grow flex-col gap-3">
      <p className="text-sm break-words">
        <span className="text-muted">Subject: </span>
        <span className="font-medium">{subject}</span>
      </p>
      {shown === 'text' ? (
        <pre className="rounded-lg border border-line p-3 font-mono text-xs whitespace-pre-wrap">
          {text ?? 'The text is generated from the HTML when an email is sent.'}
        </pre>
      ) : (
        <>
          <PreviewControls
            {...{ html, view, hasRemote }}
            onView={setView}
            onRemote={() => setRemote(true)}
          />
          <div className="flex min-h-100 grow overflow-x-auto">
            <HtmlFrame
              html={inScheme(html ?? '', schemeOf(html, view))}
              title="Preview of the template"
              hasRemote={hasRemote}
              width={widthOf(view)}
              className={lookOf(html, view)}
            />
          </div>
        </>
      )}
    </div>
  );
}
