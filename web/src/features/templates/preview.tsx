/** The preview of a draft while it is typed. The service renders it and stores nothing. */
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
};

type Result = Omit<Preview, 'isStale'> & {
  /** The request that `rendered` answers. */
  renderedOf: string | null;
};

/** @param request that makes the body, or throws an Error about what was typed */
export function usePreview(id: string, request: () => PreviewRequest): Preview {
  const { scope } = useApi();
  const [preview, setPreview] = useState<Result>({
    rendered: null,
    problems: [],
    renderedOf: null,
  });
  const [body, failure] = bodyOf(request);
  useEffect(() => {
    const ended = new AbortController();
    const render = async (): Promise<void> => {
      try {
        if (body === null) throw new Error(failure);
        const options = { scope, body: JSON.parse(body) as PreviewRequest, signal: ended.signal };
        const rendered = await call('previewTemplate', { path: { id }, ...options });
        setPreview({ rendered, problems: [], renderedOf: body });
      } catch (error) {
        if (ended.signal.aborted) return;
        setPreview((last) => ({ ...last, problems: problemsOf(error) }));
      }
    };
    const timer = setTimeout(() => void render(), TYPING_MS);
    return () => {
      clearTimeout(timer);
      ended.abort();
    };
  }, [scope, id, body, failure]);
  return { ...preview, isStale: preview.rendered !== null && preview.renderedOf !== body };
}

/** Says when the preview is not of the present text. */
export function PreviewState({ preview }: { preview: Preview }): ReactNode {
  const { isStale, problems } = preview;
  const text =
    problems.length > 0
      ? 'The preview shows an earlier text, because the current one has problems.'
      : 'Updating the preview …';
  return (
    <p role="status" className={problems.length > 0 ? 'text-sm text-wait' : 'sr-only'}>
      {isStale && text}
    </p>
  );
}

function bodyOf(request: () => PreviewRequest): [body: string | null, failure: string] {
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
