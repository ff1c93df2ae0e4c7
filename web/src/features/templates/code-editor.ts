/**
 * The editor of the source of a template: Liquid in HTML or text, with highlighting and completion of variables,
 * filters and tags. It is loaded apart, when a template is opened (source.tsx).
 *
 * Its styles are constructed sheets in a shadow root, because the policy of the pages allows no inline style. Tab
 * leaves the editor, as it does everywhere; Enter or Tab takes a completion while one is offered.
 */
import {
  acceptCompletion,
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  type Completion,
  type CompletionContext,
  completionKeymap,
  type CompletionResult,
} from '@codemirror/autocomplete';
import { defaultKeymap, history, historyKeymap } from '@codemirror/commands';
import { html } from '@codemirror/lang-html';
import { closePercentBrace, liquid, liquidLanguage } from '@codemirror/lang-liquid';
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { Compartment, EditorState, type Extension } from '@codemirror/state';
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  highlightSpecialChars,
  keymap,
  lineNumbers,
  placeholder,
} from '@codemirror/view';
import { tags } from '@lezer/highlight';
import type { DraftVariable } from './draft.ts';
import { completingAt, definedNames, FILTERS, TAGS } from './liquid-words.ts';

export type CodeEditor = {
  /** Replaces the text when it differs, for example after a change by somebody else. */
  setText: (text: string) => void;
  setReadOnly: (isReadOnly: boolean) => void;
  insert: (text: string) => void;
  focus: () => void;
  destroy: () => void;
};

export type CodeEditorOptions = {
  /** An element without a shadow root. */
  host: HTMLElement;
  label: string;
  /** Describes the keys to those who do not see the editor. */
  description: string;
  text: string;
  language: 'html' | 'text';
  hint: string;
  isReadOnly: boolean;
  onChange: (text: string) => void;
  /** Read at each completion. */
  variables: () => readonly DraftVariable[];
};

export function createCodeEditor(options: CodeEditorOptions): CodeEditor {
  const root = options.host.shadowRoot ?? options.host.attachShadow({ mode: 'open' });
  root.replaceChildren();
  const writing = new Compartment();
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        writing.of(whether(options.isReadOnly)),
        behaviour(options),
        look(options),
        EditorView.updateListener.of((update) => {
          const isOurs = update.transactions.some((one) => one.isUserEvent(FROM_OUTSIDE));
          if (update.docChanged && !isOurs) options.onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setText: (text) => {
      const { doc } = view.state;
      if (doc.toString() === text) return;
      view.dispatch({
        changes: { from: 0, to: doc.length, insert: text },
        userEvent: FROM_OUTSIDE,
      });
    },
    setReadOnly: (isReadOnly) =>
      view.dispatch({ effects: writing.reconfigure(whether(isReadOnly)) }),
    insert: (text) => {
      view.dispatch(view.state.replaceSelection(text));
      view.focus();
    },
    focus: () => view.focus(),
    destroy: () => view.destroy(),
  };
}

/** A change that the page makes, not the member. */
const FROM_OUTSIDE = 'letterhaus.set';

function whether(isReadOnly: boolean): Extension {
  return [EditorState.readOnly.of(isReadOnly), EditorView.editable.of(!isReadOnly)];
}

function behaviour({ language, variables }: CodeEditorOptions): Extension {
  const inHtml = html({ selfClosingTags: true });
  // Only the language: its own completion offers tags and filters that the service refuses.
  const source = language === 'html' ? liquid({ base: inHtml }).language : liquidLanguage;
  const complete = (context: CompletionContext) => completeLiquid(context, variables());
  return [
    history(),
    source,
    source.data.of({ autocomplete: complete }),
    language === 'html' ? inHtml.support : [],
    // Text between the tags of HTML may contain Liquid.
    language === 'html' ? inHtml.language.data.of({ autocomplete: complete }) : [],
    // Enter takes a choice as soon as it is shown.
    autocompletion({ icons: false, interactionDelay: 0 }),
    bracketMatching(),
    closeBrackets(),
    closePercentBrace,
    keymap.of([
      { key: 'Tab', run: acceptCompletion },
      ...closeBracketsKeymap,
      ...completionKeymap,
      ...historyKeymap,
      ...defaultKeymap,
    ]),
  ];
}

const SOURCE_BEFORE = 1_000;

function completeLiquid(
  { pos, state }: CompletionContext,
  variables: readonly DraftVariable[],
): CompletionResult | null {
  const completing = completingAt(state.sliceDoc(Math.max(0, pos - SOURCE_BEFORE), pos));
  if (completing === null) return null;
  const { kind, typed } = completing;
  const options = {
    filter: () => FILTERS.map((label): Completion => ({ label, type: 'function' })),
    tag: () => TAGS.map((label): Completion => ({ label, type: 'keyword' })),
    value: () => [
      ...variables
        .filter(({ name }) => name !== '')
        .map(({ name, type }): Completion => ({ label: name, detail: type, type: 'variable' })),
      ...definedNames(state.doc.toString()).map((label): Completion => ({ label, detail: 'here' })),
    ],
  }[kind]();
  return { from: pos - typed.length, options, validFor: /^\w*$/ };
}

function look({ label, description, hint }: CodeEditorOptions): Extension {
  return [
    lineNumbers(),
    highlightSpecialChars(),
    highlightActiveLine(),
    drawSelection(),
    EditorView.lineWrapping,
    placeholder(hint),
    syntaxHighlighting(COLOURS),
    THEME,
    EditorView.contentAttributes.of({
      'aria-label': label,
      'aria-description': description,
      // Checkers of accessibility do not count editable content as focusable.
      tabindex: '0',
      spellcheck: 'false',
      autocapitalize: 'off',
    }),
  ];
}

const COLOURS = HighlightStyle.define([
  { tag: [tags.tagName, tags.angleBracket], color: 'var(--color-open)' },
  { tag: tags.attributeName, color: 'var(--color-muted)' },
  { tag: [tags.attributeValue, tags.string], color: 'var(--color-good)' },
  { tag: [tags.brace, tags.processingInstruction, tags.keyword], color: 'var(--color-spam)' },
  { tag: [tags.variableName, tags.propertyName], color: 'var(--color-accent)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--color-wait)' },
  { tag: tags.comment, color: 'var(--color-muted)', fontStyle: 'italic' },
]);

const THEME = EditorView.theme({
  '&': {
    flexGrow: '1',
    minHeight: '25rem',
    fontSize: 'var(--text-xs)',
    color: 'var(--color-text)',
    backgroundColor: 'var(--color-surface)',
  },
  '&.cm-focused': { outline: '2px solid var(--color-accent)', outlineOffset: '-1px' },
  '.cm-scroller': { fontFamily: 'var(--font-mono)', lineHeight: '1.65' },
  '.cm-content': { caretColor: 'var(--color-text)', paddingBlock: '8px' },
  '.cm-cursor': { borderLeftColor: 'var(--color-text)' },
  '.cm-gutters': {
    backgroundColor: 'var(--color-sunken)',
    color: 'var(--color-muted)',
    borderRight: '1px solid var(--color-line)',
  },
  '.cm-activeLine': { backgroundColor: 'color-mix(in oklab, var(--color-hover) 50%, transparent)' },
  '.cm-placeholder': { color: 'var(--color-muted)' },
  '&.cm-focused > .cm-scroller > .cm-selectionLayer .cm-selectionBackground, .cm-selectionBackground':
    { backgroundColor: 'var(--color-accent-tint)' },
  '.cm-tooltip': {
    backgroundColor: 'var(--color-raised)',
    color: 'var(--color-text)',
    border: '1px solid var(--color-line)',
    borderRadius: '6px',
    overflow: 'hidden',
  },
  '.cm-tooltip.cm-tooltip-autocomplete > ul': { fontFamily: 'var(--font-mono)' },
  '.cm-tooltip-autocomplete ul li[aria-selected]': {
    backgroundColor: 'var(--color-accent)',
    color: 'var(--color-on-accent)',
  },
  '.cm-completionDetail': { opacity: '1', fontStyle: 'normal' },
});
