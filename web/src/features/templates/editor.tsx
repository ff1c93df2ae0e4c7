/**
 * The editor of a template beside its preview. Typed text is stored only when it is saved; leaving the page with
 * unsaved changes asks first.
 */
import { useBlocker, useNavigate, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect, useMemo, useState } from 'react';
import type { Template } from '../../../../sdk/src/api.ts';
import type { FieldProblem } from '../../api/client.ts';
import { Allowed, useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { Field } from '../../ui/field.tsx';
import { Segments } from '../../ui/segments.tsx';
import {
  contentOf,
  discarded,
  type Draft,
  type DraftVariable,
  draftOf,
  type Editing,
  followed,
  newVariable,
  samplesOf,
  stateOf,
} from './draft.ts';
import { inferType } from './infer-type.ts';
import { PreviewState, RenderedPreview, usePreview } from './preview.tsx';
import { SaveOrPublish } from './save.tsx';
import { SendTest } from './send-test.tsx';
import { TemplateHead, useTemplateActions } from './head.tsx';
import { SourceField } from './source.tsx';
import { TemplateVariables } from './variables.tsx';

const ROUTE = '/$project/$environment/templates/$id';
const PARTS = [
  ['html', 'HTML'],
  ['text', 'Text'],
  ['variables', 'Variables'],
] as const;
type Part = (typeof PARTS)[number][0];

type Change = (change: Partial<Draft>) => void;

export function TemplateEditor({ template }: { template: Template }): ReactNode {
  const { draft, setDraft, discard, isChanged, isOutdated } = useDraft(template);
  const change: Change = (part) => setDraft({ ...draft, ...part });
  const isReadOnly = !useMay()('updateTemplate');
  const { part: chosen } = useSearch({ from: ROUTE });
  const part = PARTS.find(([name]) => name === chosen)?.[0] ?? 'html';
  const actions = useTemplateActions(template);
  const preview = usePreview(template.id, () => ({
    variables: samplesOf(draft.variables),
    content: contentOf(draft),
  }));
  return (
    <>
      <TemplateHead template={template} more={actions.more}>
        <SendTest rendered={preview.problems.length === 0 ? preview.rendered : null} />
        <Allowed to="updateTemplate">
          <SaveOrPublish
            template={template}
            draft={draft}
            isChanged={isChanged}
            isOutdated={isOutdated}
            discard={discard}
          />
        </Allowed>
      </TemplateHead>
      {isOutdated && (
        <p role="status" className="border-b border-line px-(--page-x) py-2 text-sm text-wait">
          This template was changed elsewhere. Saving shows you both versions first.
        </p>
      )}
      <div className="flex min-h-0 grow flex-col min-[1100px]:flex-row">
        <SourceSection {...{ part, draft, change, isReadOnly }} />
        <section
          aria-label="Preview"
          className="flex min-w-0 flex-col gap-3 px-(--page-x) py-4 max-[1099px]:border-t max-[1099px]:border-line min-[1100px]:w-1/2 min-[1100px]:overflow-auto min-[1100px]:pl-4"
        >
          <Problems
            problems={preview.problems}
            isReadOnly={isReadOnly}
            declare={(names) =>
              change({ variables: [...draft.variables, ...inferred(names, draft)] })
            }
          />
          <PreviewState preview={preview} />
          <RenderedPreview rendered={preview.rendered} part={part === 'text' ? 'text' : 'html'} />
        </section>
      </div>
      {actions.dialogs}
      <LeaveDialog isChanged={isChanged} />
    </>
  );
}

function SourceSection(props: {
  part: Part;
  draft: Draft;
  change: Change;
  isReadOnly: boolean;
}): ReactNode {
  const { part, draft, change, isReadOnly } = props;
  return (
    <section
      aria-label="Source"
      className="flex min-w-0 flex-col gap-3 px-(--page-x) py-4 min-[1100px]:w-1/2 min-[1100px]:overflow-auto min-[1100px]:border-r min-[1100px]:border-line min-[1100px]:pr-4"
    >
      <Field
        label="Subject"
        value={draft.subject}
        readOnly={isReadOnly}
        onChange={({ target }) => change({ subject: target.value })}
        spellCheck={false}
      />
      <PartLinks part={part} variables={draft.variables.length} />
      {part === 'variables' ? (
        <TemplateVariables
          variables={draft.variables}
          isReadOnly={isReadOnly}
          onChange={(variables) => change({ variables })}
        />
      ) : (
        <SourceField
          key={part}
          {...FIELDS[part]}
          language={part}
          text={draft[part]}
          isReadOnly={isReadOnly}
          variables={draft.variables}
          onChange={(text) => change({ [part]: text })}
        />
      )}
    </section>
  );
}

/** The draft begins with the stored template, and follows it as long as nothing was typed. */
function useDraft(template: Template) {
  const [editing, setEditing] = useState<Editing>(() => {
    const draft = draftOf(template);
    return { base: draft, draft };
  });
  const stored = useMemo(() => draftOf(template), [template]);
  useEffect(() => setEditing((now) => followed(now, stored)), [stored, editing]);
  return {
    draft: editing.draft,
    setDraft: (draft: Draft) => setEditing({ ...editing, draft }),
    discard: () => setEditing((now) => discarded(now, stored)),
    ...stateOf(editing, stored),
  };
}

function PartLinks({ part, variables }: { part: Part; variables: number }): ReactNode {
  const navigate = useNavigate();
  return (
    <Segments
      label="Part"
      options={PARTS.map(([name, label]) => [
        name,
        name === 'variables' ? `${label} (${variables})` : label,
      ])}
      chosen={part}
      onChoose={(name) =>
        void navigate({
          to: '.',
          params: true,
          search: (all) => ({ ...all, part: name === 'html' ? undefined : name }),
          replace: true,
        })
      }
    />
  );
}

const FIELDS = {
  html: { label: 'HTML, in Liquid', hint: '' },
  text: { label: 'Text, in Liquid', hint: 'Generated from the HTML while this is empty.' },
} as const;

/** The types are those that the parts suggest. */
function inferred(names: readonly string[], { subject, html, text }: Draft): DraftVariable[] {
  return names.map((name) => newVariable(name, inferType(name, [subject, html, text])));
}

/** The name of the variable, when the problem is that it is not declared. */
function undeclaredIn({ message }: FieldProblem): string | null {
  return /^uses (\w+), which is not declared/.exec(message)?.[1] ?? null;
}

function Problems(props: {
  problems: readonly FieldProblem[];
  isReadOnly: boolean;
  declare: (names: readonly string[]) => void;
}): ReactNode {
  if (props.problems.length === 0) return null;
  const undeclared = [...new Set(props.problems.flatMap((one) => undeclaredIn(one) ?? []))];
  return (
    <ul role="alert" aria-label="Problems" className="space-y-1 rounded-lg bg-side p-3 text-sm">
      {props.problems.map((problem) => {
        const name = undeclaredIn(problem);
        return (
          <li key={problem.field + problem.message} className="flex flex-wrap items-center gap-2">
            <span className="min-w-0 break-words text-bad">
              {problem.field !== '' && <span className="font-mono text-xs">{problem.field}: </span>}
              {problem.message}
            </span>
            {name !== null && !props.isReadOnly && (
              <Button size="small" onClick={() => props.declare([name])}>
                Declare {name}
              </Button>
            )}
          </li>
        );
      })}
      {undeclared.length > 1 && !props.isReadOnly && (
        <li>
          <Button size="small" onClick={() => props.declare(undeclared)}>
            Declare all {undeclared.length}
          </Button>
        </li>
      )}
    </ul>
  );
}

/** Asks before another page discards unsaved changes. */
function LeaveDialog({ isChanged }: { isChanged: boolean }): ReactNode {
  const { status, proceed, reset } = useBlocker({
    shouldBlockFn: ({ current, next }) => isChanged && current.pathname !== next.pathname,
    enableBeforeUnload: isChanged,
    withResolver: true,
  });
  return (
    <Dialog isOpen={status === 'blocked'} onClose={() => reset?.()} title="Leave without saving?">
      <div className="space-y-3 px-5 pt-1 pb-5">
        <p>You have unsaved changes.</p>
        <div className="flex flex-wrap justify-end gap-2">
          <Button look="danger" onClick={() => proceed?.()}>
            Discard changes
          </Button>
          <Button onClick={() => reset?.()}>Stay</Button>
        </div>
      </div>
    </Dialog>
  );
}
