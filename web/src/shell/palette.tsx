/**
 * The command palette (⌘K): emails and other objects by any part of their name, screens, actions, projects and themes.
 * The first choice searches emails; what is found follows it, so that no choice moves under the hand.
 */
import { type KeyboardEvent, type ReactNode, useEffect, useState } from 'react';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts, keyText } from '../lib/keys.ts';
import { type Choice, useActions, useObjects, useSearches } from './palette-choices.ts';

export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }): ReactNode {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Commands" isBare>
      <Choices onClose={onClose} />
    </Dialog>
  );
}

const TYPING_PAUSE_MS = 150;

const keyOf = ({ kind, label, keys, id }: Choice): string =>
  `${kind ?? ''} ${label} ${keys ?? id ?? ''}`;

/** Returns the text as it was when the typing last paused. */
function usePaused(text: string): string {
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

function useChoices(typed: string): Choice[] {
  const text = typed.trim();
  const words = text.toLowerCase();
  const isNamed = ({ label }: { label: string }): boolean => label.toLowerCase().includes(words);
  const searches = useSearches(text);
  const commands = activeShortcuts().filter(isNamed);
  const actions = useActions().filter(isNamed);
  const objects = useObjects(usePaused(text));
  return [...searches, ...commands, ...actions, ...objects];
}

function Choices({ onClose }: { onClose: () => void }): ReactNode {
  const [text, setText] = useState('');
  // The choice itself, not its place: what is found later may come before it. Null is the first.
  const [markedKey, setMarkedKey] = useState<string | null>(null);
  const choices = useChoices(text);
  const marked = Math.max(
    0,
    choices.findIndex((choice) => keyOf(choice) === markedKey),
  );
  const choose = (choice: Choice | undefined): void => {
    if (!choice) return;
    onClose();
    choice.run();
  };
  const mark = (index: number): void => {
    setMarkedKey(choices[index] ? keyOf(choices[index]) : null);
    document.getElementById(`palette-${index}`)?.scrollIntoView({ block: 'nearest' });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter') choose(choices[marked]);
    if (step === undefined || choices.length === 0) return;
    event.preventDefault();
    mark((marked + step + choices.length) % choices.length);
  };
  return (
    <div>
      <input
        autoFocus
        role="combobox"
        aria-label="Command, address or id"
        aria-expanded
        aria-controls="palette"
        aria-activedescendant={choices[marked] && `palette-${marked}`}
        placeholder="Command, address, name or id"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setMarkedKey(null);
        }}
        onKeyDown={onKeyDown}
        className="h-12 w-full border-b border-line bg-transparent px-4 text-base outline-none"
      />
      <ul
        role="listbox"
        id="palette"
        aria-label="Commands"
        className="max-h-[min(26rem,55vh)] overflow-auto p-1.5"
      >
        {choices.map((choice, index) => (
          <Option
            key={keyOf(choice)}
            id={`palette-${index}`}
            choice={choice}
            isMarked={index === marked}
            onMark={() => setMarkedKey(keyOf(choice))}
            onChoose={() => choose(choice)}
          />
        ))}
      </ul>
    </div>
  );
}

function Option(props: {
  id: string;
  choice: Choice;
  isMarked: boolean;
  onMark: () => void;
  onChoose: () => void;
}): ReactNode {
  const { label, about, kind, keys } = props.choice;
  return (
    <li
      id={props.id}
      role="option"
      aria-selected={props.isMarked}
      onMouseMove={props.onMark}
      onClick={props.onChoose}
      className="flex items-center justify-between gap-3 rounded-md px-3 py-2 text-sm aria-selected:bg-hover"
    >
      <span className="flex min-w-0 flex-col">
        <span className="truncate">{label}</span>
        {about && <span className="truncate text-xs text-muted">{about}</span>}
      </span>
      {keys && <kbd className="shrink-0 font-mono text-xs text-muted">{keyText(keys)}</kbd>}
      {kind && <span className="shrink-0 text-xs text-muted">{kind}</span>}
    </li>
  );
}
