/** Keyboard shortcuts of a page. The keys of `g e` are pressed one after the other. */
import type { LucideIcon } from 'lucide-react';
import { useEffect, useRef } from 'react';

export type Shortcut = { keys: string; label: string; icon?: LucideIcon; run: () => void };

const SEQUENCE_MS = 1_000;

type Place = 'shell' | 'screen';

/** All shortcuts that the page has now. */
const active: Readonly<Record<Place, Set<{ current: readonly Shortcut[] }>>> = {
  shell: new Set(),
  screen: new Set(),
};

/** One shortcut for each key: that of the screen wins over that of the shell. */
export function activeShortcuts(): Shortcut[] {
  const all = [...active.shell, ...active.screen].flatMap(({ current }) => [...current]);
  return [...new Map(all.map((shortcut) => [shortcut.keys, shortcut])).values()];
}

/** The shortcuts work as long as the component is shown. */
export function useShortcuts(shortcuts: readonly Shortcut[], place: Place = 'screen'): void {
  const latest = useRef(shortcuts);
  latest.current = shortcuts;
  useEffect(() => {
    active[place].add(latest);
    return () => void active[place].delete(latest);
  }, [place]);
}

const SINGLE_KEYS = 'letterhaus-single-keys';

/** Whether letters and signs alone are shortcuts. Voice control types them by accident (WCAG 2.1.4). */
export function areSingleKeysOn(): boolean {
  return localStorage.getItem(SINGLE_KEYS) !== 'off';
}

export function switchSingleKeys(on: boolean): void {
  if (on) localStorage.removeItem(SINGLE_KEYS);
  else localStorage.setItem(SINGLE_KEYS, 'off');
}

let typed = { text: '', at: 0 };

/** Called once, by main. */
export function listenForKeys(): () => void {
  const onKey = (event: KeyboardEvent): void => {
    if (event.altKey || event.defaultPrevented) return;
    const isCommand = event.metaKey || event.ctrlKey;
    if (!isCommand && isTyping(event.target)) return;
    if (!isCommand && event.key.length === 1 && !areSingleKeysOn()) return;
    const name = isCommand ? `mod+${event.key.toLowerCase()}` : event.key;
    const isSequence = !isCommand && event.timeStamp - typed.at < SEQUENCE_MS;
    const candidates = isSequence ? [`${typed.text} ${name}`, name] : [name];
    typed = { text: name, at: event.timeStamp };
    const shortcut = candidates
      .map((keys) => activeShortcuts().find((one) => one.keys === keys))
      .find((found) => found !== undefined);
    if (!shortcut) return;
    event.preventDefault();
    typed = { text: '', at: 0 };
    shortcut.run();
  };
  document.addEventListener('keydown', onKey);
  return () => document.removeEventListener('keydown', onKey);
}

/** The keys as keyboards label them. */
export function keyText(keys: string): string {
  const command = navigator.platform.startsWith('Mac') ? '⌘ ' : 'Ctrl ';
  return keys
    .replace(/mod\+(.)/, (_, key: string) => command + key.toUpperCase())
    .replace('ArrowDown', '↓')
    .replace('ArrowUp', '↑')
    .replace('Enter', '↵')
    .replace('Escape', 'Esc');
}

/** Fields, menus and open dialogs handle keys themselves. */
function isTyping(target: EventTarget | null): boolean {
  const element = target instanceof HTMLElement ? target : null;
  return (
    element?.closest(
      'input, textarea, select, [contenteditable], [role="dialog"], [role="menu"]',
    ) != null
  );
}
