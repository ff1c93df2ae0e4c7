/**
 * The command palette (⌘K): emails and other objects by any part of their name, screens, actions, projects and themes.
 * The first choice searches emails. Found objects follow it, so that no choice moves while the member chooses.
 */
import {
  ArrowLeftRight,
  FileText,
  Globe,
  Keyboard,
  KeyRound,
  type LucideIcon,
  Mail,
  Search,
  SquareTerminal,
  UserRound,
  Users,
  Webhook,
} from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useEffect, useState } from 'react';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts } from '../lib/keys.ts';
import { Keys } from '../ui/keys.tsx';
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
  // Not the shortcut of the palette itself.
  const commands = activeShortcuts().filter((one) => one.keys !== 'mod+k' && isNamed(one));
  const actions = useActions().filter(isNamed);
  const objects = useObjects(usePaused(text));
  // Before anything is typed, screens come first.
  const isLast = ({ keys }: Choice): boolean => text === '' && keys === '?';
  const [last, first] = [commands.filter(isLast), commands.filter((one) => !isLast(one))];
  return [...searches, ...first, ...actions, ...objects, ...last];
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
      <div className="flex items-center border-b border-line">
        <Search size={16} aria-hidden className="ml-4 shrink-0 text-muted" />
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
          className="h-12 min-w-0 grow bg-transparent px-3 text-base outline-none"
        />
      </div>
      <ul
        role="listbox"
        id="palette"
        aria-label="Commands"
        className="max-h-[min(39.5rem,75vh)] overflow-auto p-1.5"
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

const ICONS: Readonly<Record<string, LucideIcon>> = {
  email: Mail,
  recipient: UserRound,
  domain: Globe,
  template: FileText,
  webhook: Webhook,
  'API key': KeyRound,
  member: Users,
  'API log': ArrowLeftRight,
  action: SquareTerminal,
};

/** A choice without a kind is a search, or a shortcut of the present screen. */
function iconOf({ kind, keys }: Choice): LucideIcon {
  if (kind !== undefined) return ICONS[kind] ?? Search;
  return keys === undefined || keys === '/' ? Search : Keyboard;
}

function Option(props: {
  id: string;
  choice: Choice;
  isMarked: boolean;
  onMark: () => void;
  onChoose: () => void;
}): ReactNode {
  const { label, about, kind, keys, icon } = props.choice;
  const Icon = icon ?? iconOf(props.choice);
  return (
    <li
      id={props.id}
      role="option"
      aria-selected={props.isMarked}
      onMouseMove={props.onMark}
      onClick={props.onChoose}
      className="flex min-h-9 items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm aria-selected:bg-hover"
    >
      <Icon size={16} strokeWidth={1.75} aria-hidden className="shrink-0 text-muted" />
      <span className="flex min-w-0 grow flex-col">
        <span dir="auto" className="truncate text-left">
          {label}
        </span>
        {about && <span className="truncate text-xs text-muted">{about}</span>}
      </span>
      {keys && <Keys keys={keys} className="max-sm:hidden" />}
      {kind && (
        <span className="inline-block shrink-0 text-xs text-muted first-letter:uppercase">
          {kind}
        </span>
      )}
    </li>
  );
}
