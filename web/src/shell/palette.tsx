/** The command palette (⌘K): screens and actions by name, emails by address, subject or id. */
import { useNavigate } from '@tanstack/react-router';
import { type KeyboardEvent, type ReactNode, useState } from 'react';
import { useScope } from '../api/scope.ts';
import { Dialog } from '../ui/dialog.tsx';
import { activeShortcuts, keyText } from '../lib/keys.ts';

const ID = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i;

type Choice = { label: string; keys?: string; run: () => void };

export function Palette({ isOpen, onClose }: { isOpen: boolean; onClose: () => void }): ReactNode {
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Commands" isBare>
      <Choices onClose={onClose} />
    </Dialog>
  );
}

function Choices({ onClose }: { onClose: () => void }): ReactNode {
  const [text, setText] = useState('');
  const [marked, setMarked] = useState(0);
  const searches = useSearches(text.trim());
  const commands = activeShortcuts().filter(({ label }) =>
    label.toLowerCase().includes(text.trim().toLowerCase()),
  );
  const choices: Choice[] = [...searches, ...commands];
  const choose = (choice: Choice | undefined): void => {
    if (!choice) return;
    onClose();
    choice.run();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (event.key === 'Enter') choose(choices[marked]);
    if (step === undefined || choices.length === 0) return;
    event.preventDefault();
    setMarked((marked + step + choices.length) % choices.length);
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
        placeholder="Command, address or id"
        value={text}
        onChange={(event) => {
          setText(event.target.value);
          setMarked(0);
        }}
        onKeyDown={onKeyDown}
        className="h-12 w-full border-b border-line bg-transparent px-4 text-base outline-none"
      />
      <ul
        role="listbox"
        id="palette"
        aria-label="Commands"
        className="max-h-80 overflow-auto p-1.5"
      >
        {choices.map((choice, index) => (
          <li
            key={`${choice.label} ${choice.keys ?? ''}`}
            id={`palette-${index}`}
            role="option"
            aria-selected={index === marked}
            onMouseMove={() => setMarked(index)}
            onClick={() => choose(choice)}
            className="flex items-center justify-between rounded-md px-3 py-2 aria-selected:bg-hover"
          >
            {choice.label}
            {choice.keys && (
              <kbd className="font-mono text-xs text-muted">{keyText(choice.keys)}</kbd>
            )}
          </li>
        ))}
      </ul>
    </div>
  );
}

/** Searches of emails for the typed text. */
function useSearches(text: string): Choice[] {
  const scope = useScope();
  const navigate = useNavigate();
  if (text === '') return [];
  if (ID.test(text)) {
    const params = { ...scope, id: text.toLowerCase() };
    const run = (): void => void navigate({ to: '/$project/$environment/emails/$id', params });
    return [{ label: `Open the email ${text}`, run }];
  }
  const search = (q: string) => () =>
    void navigate({ to: '/$project/$environment/emails', params: scope, search: { q } });
  const bySubject = {
    label: `Emails with “${text}” in the subject`,
    run: search(`"${text.replaceAll('"', '')}"`),
  };
  if (!text.includes('@')) return [bySubject];
  return [{ label: `Emails to ${text}`, run: search(`to:${text}`) }, bySubject];
}
