/**
 * The field of a part of a template. It begins as a plain text field and becomes an editor with highlighting and
 * completion as soon as that is loaded; if it cannot be loaded, the plain field works as well.
 */
import { type ReactNode, useEffect, useRef, useState } from 'react';
import { INPUT } from '../../ui/field.tsx';
import type { CodeEditor } from './code-editor.ts';
import type { DraftVariable } from './draft.ts';

type Props = {
  label: string;
  language: 'html' | 'text';
  hint: string;
  text: string;
  isReadOnly: boolean;
  variables: readonly DraftVariable[];
  onChange: (text: string) => void;
};

const KEYS = 'Ctrl+Space offers variables, filters and tags. Tab leaves the editor.';

export function SourceField(props: Props): ReactNode {
  const { label, hint, text, isReadOnly, onChange } = props;
  const host = useRef<HTMLDivElement>(null);
  const isLoaded = useCodeEditor(host, props);
  return (
    <div className="flex min-h-100 grow flex-col gap-1">
      {!isLoaded && (
        <textarea
          aria-label={label}
          value={text}
          readOnly={isReadOnly}
          onChange={({ target }) => onChange(target.value)}
          placeholder={hint}
          spellCheck={false}
          autoCapitalize="off"
          wrap="off"
          className={`${INPUT} min-h-100 grow resize-y py-2 font-mono text-xs leading-relaxed`}
        />
      )}
      <div
        ref={host}
        hidden={!isLoaded}
        className="flex min-h-100 grow flex-col overflow-hidden rounded-md border border-control"
      />
      <p className="text-xs text-muted max-sm:hidden">{isLoaded && !isReadOnly && KEYS}</p>
    </div>
  );
}

/** @returns whether the editor has replaced the plain field */
function useCodeEditor(host: { current: HTMLDivElement | null }, props: Props): boolean {
  const { label, language, hint, text, isReadOnly } = props;
  const [editor, setEditor] = useState<CodeEditor | null>(null);
  const latest = useRef(props);
  latest.current = props;
  /** Texts that the editor has reported, from the one in the props on. Typing is faster than rendering. */
  const reported = useRef<string[]>([]);
  /** The member had begun to type. */
  const hadFocus = useRef(false);
  useEffect(() => {
    let isEnded = false;
    let created: CodeEditor | null = null;
    void import('./code-editor.ts').then(
      ({ createCodeEditor }) => {
        if (isEnded || host.current === null) return;
        created = createCodeEditor({
          host: host.current,
          label,
          language,
          hint,
          description: KEYS,
          text: latest.current.text,
          isReadOnly: latest.current.isReadOnly,
          onChange: (changed) => {
            reported.current.push(changed);
            latest.current.onChange(changed);
          },
          variables: () => latest.current.variables,
        });
        hadFocus.current = host.current.previousElementSibling === document.activeElement;
        setEditor(created);
      },
      // Without the network the plain field stays.
      () => {},
    );
    return () => {
      isEnded = true;
      created?.destroy();
      setEditor(null);
    };
  }, [host, label, language, hint]);
  useEffect(() => {
    if (hadFocus.current) editor?.focus();
  }, [editor]);
  useEffect(() => {
    // An own text that arrives late would undo what was typed since.
    const own = reported.current.lastIndexOf(text);
    if (own !== -1) reported.current.splice(0, own);
    else {
      reported.current = [];
      editor?.setText(text);
    }
  }, [editor, text]);
  useEffect(() => editor?.setReadOnly(isReadOnly), [editor, isReadOnly]);
  return editor !== null;
}
