/** Keys that work on a whole page. A shortcut of two letters is typed one after the other, like `g e`. */
import { useEffect, useRef } from 'react';

export type Shortcut = { keys: string; label: string; run: () => void };

const SEQUENCE_MS = 1_000;

/** All shortcuts of the page at present, those of the screen after those of the shell. */
const active = new Set<{ current: readonly Shortcut[] }>();

export function activeShortcuts(): Shortcut[] {
  return [...active].flatMap(({ current }) => [...current]);
}

/** The shortcuts work as long as the component is shown. */
export function useShortcuts(shortcuts: readonly Shortcut[]): void {
  const held = useRef(shortcuts);
  held.current = shortcuts;
  useEffect(() => {
    active.add(held);
    return () => void active.delete(held);
  }, []);
}

let typed = { text: '', at: 0 };

/** Called once, by main. */
export function listenForKeys(): () => void {
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.defaultPrevented) return;
    const isCommand = event.metaKey || event.ctrlKey;
    if (!isCommand && isTyping(event.target)) return;
    const name = isCommand ? `mod+${event.key.toLowerCase()}` : event.key;
    const isSequence = !isCommand && event.timeStamp - typed.at < SEQUENCE_MS;
    const candidates = isSequence ? [`${typed.text} ${name}`, name] : [name];
    typed = { text: name, at: event.timeStamp };
    const shortcut = candidates
      .map((keys) => activeShortcuts().findLast((one) => one.keys === keys))
      .find((found) => found !== undefined);
    if (!shortcut) return;
    event.preventDefault();
    typed = { text: '', at: 0 };
    shortcut.run();
  };
  document.addEventListener('keydown', onKey);
  return () => document.removeEventListener('keydown', onKey);
}

/** Keys belong to a field, and to an open dialog. */
function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  return (
    element?.closest(
      'input, textarea, select, [contenteditable], [role="dialog"], [role="menu"]',
    ) != null
  );
}
