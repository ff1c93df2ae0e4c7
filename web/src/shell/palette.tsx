/**
 * The command palette (⌘K): emails and other objects by any part of their name, screens, actions, projects and themes,
 * in groups. The first choice of a typed text searches emails. Found objects come last, so that no choice moves while
 * the member chooses.
 */
import { Keyboard, Search } from 'lucide-react';
import { type KeyboardEvent, type ReactNode, useEffect, useState } from 'react';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts, type Shortcut } from '../lib/keys.ts';
import { Keys } from '../ui/keys.tsx';
import {
  type Choice,
  type Group,
  GROUPS,
  useActions,
  useObjects,
  useRecentChoices,
  useSearches,
} from './palette-choices.ts';

export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }): ReactNode {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Commands" isBare>
      <Choices onClose={onClose} />
    </Dialog>
  );
}

const TYPING_PAUSE_MS = 150;

const keyOf = ({ group, label, keys, id }: Choice): string =>
  `${group} ${label} ${keys ?? id ?? ''}`;

/** Returns the text as it was when the typing last paused. */
function usePaused(text: string): string {
  const [paused, setPaused] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setPaused(text), TYPING_PAUSE_MS);
    return () => clearTimeout(timer);
  }, [text]);
  return paused;
}

/** All choices for the text, in the order of their groups. */
function useChoices(typed: string): Choice[] {
  const text = typed.trim();
  const words = text.toLowerCase();
  const searches = useSearches(text);
  const recent = useRecentChoices();
  const commands = [...useActions(), ...shortcutChoices()].filter(({ label, words: others = '' }) =>
    `${label} ${others}`.toLowerCase().includes(words),
  );
  const objects = useObjects(usePaused(text));
  const all = [...searches, ...(text === '' ? recent : []), ...commands, ...objects];
  return GROUPS.flatMap((group) => all.filter((choice) => choice.group === group));
}

/** All shortcuts but that of the palette itself. */
function shortcutChoices(): Choice[] {
  return activeShortcuts()
    .filter(({ keys }) => keys !== 'mod+k')
    .map((shortcut) => ({
      ...shortcut,
      group: groupOf(shortcut),
      icon: shortcut.icon ?? (shortcut.keys === '/' ? Search : Keyboard),
    }));
}

function groupOf({ keys }: Shortcut): Group {
  if (keys.startsWith('g ')) return 'Screens';
  if (keys === '/') return 'Actions';
  return keys === '?' ? 'Help' : 'On this screen';
}

function Choices({ onClose }: { onClose: () => void }): ReactNode {
  const [text, setText] = useState('');
  // The choice itself, not its place: what is found later may come before it. Null is the first.
  const [markedKey, setMarkedKey] = useState<string | null>(null);
  const choices = useChoices(text);
  const found = choices.findIndex((choice) => keyOf(choice) === markedKey);
  const marked = Math.max(0, found);
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
          className="h-12 min-w-0 grow bg-transparent pr-3 pl-2.5 text-base outline-none"
        />
      </div>
      <div
        role="listbox"
        id="palette"
        aria-label="Commands"
        className="max-h-[min(32rem,calc(76vh-5.5rem))] overflow-auto px-1.5"
      >
        {[...Map.groupBy(choices.entries(), ([, { group }]) => group)].map(([group, entries]) => (
          <ChoiceGroup key={group} title={group}>
            {entries.map(([index, choice]) => (
              <Option
                key={keyOf(choice)}
                id={`palette-${index}`}
                choice={choice}
                isMarked={index === marked}
                onMark={() => setMarkedKey(keyOf(choice))}
                onChoose={() => choose(choice)}
              />
            ))}
          </ChoiceGroup>
        ))}
        <MoreBelow />
      </div>
      <Hints />
    </div>
  );
}

/** Fades the last row while there are more below. At the end of the list it covers nothing. */
function MoreBelow(): ReactNode {
  return (
    <div
      aria-hidden
      className="pointer-events-none sticky -bottom-px h-7 bg-linear-to-t from-raised to-transparent"
    />
  );
}

function ChoiceGroup({ title, children }: { title: Group; children: ReactNode }): ReactNode {
  return (
    <ul role="group" aria-label={title}>
      <li aria-hidden className="px-2.5 pt-3 pb-1 text-xs font-medium text-muted">
        {title}
      </li>
      {children}
    </ul>
  );
}

const HINTS = [
  ['ArrowUp ArrowDown', 'Move'],
  ['Enter', 'Open'],
  ['Escape', 'Close'],
] as const;

/** The keys of the palette, where there is a keyboard. */
function Hints(): ReactNode {
  return (
    <p
      aria-hidden
      className="flex items-center gap-4 border-t border-line px-4 py-2 text-xs text-muted max-sm:hidden"
    >
      {HINTS.map(([keys, word]) => (
        <span key={word} className="inline-flex items-center gap-1.5">
          <Keys keys={keys} />
          {word}
        </span>
      ))}
    </p>
  );
}

function Option(props: {
  id: string;
  choice: Choice;
  isMarked: boolean;
  onMark: () => void;
  onChoose: () => void;
}): ReactNode {
  const { label, about, type, keys, icon: Icon } = props.choice;
  return (
    <li
      id={props.id}
      role="option"
      aria-selected={props.isMarked}
      onMouseMove={props.onMark}
      onClick={props.onChoose}
      className="group/option flex min-h-9 scroll-mt-9 items-center gap-2.5 rounded-md px-2.5 py-1.5 text-sm aria-selected:bg-accent-tint"
    >
      <Icon
        size={16}
        strokeWidth={1.75}
        aria-hidden
        className="shrink-0 text-muted group-aria-selected/option:text-accent"
      />
      <span className="flex min-w-0 grow flex-col">
        <span dir="auto" className="truncate text-left">
          {label}
        </span>
        {about && <span className="truncate text-xs text-muted">{about}</span>}
      </span>
      {type && <span className="max-w-1/2 shrink-0 truncate text-xs text-muted">{type}</span>}
      {keys && <Keys keys={keys} className="max-sm:hidden" />}
    </li>
  );
}
