/** The frame of every screen: navigation, project and environment, palette, shortcuts. */
import { Outlet, useNavigate } from '@tanstack/react-router';
import { Menu as MenuIcon } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { useScope } from '../api/scope.ts';
import { IconButton } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { UndoProvider } from '../ui/undo.tsx';
import {
  activeShortcuts,
  areSingleKeysOn,
  keyText,
  listenForKeys,
  type Shortcut,
  switchSingleKeys,
  useShortcuts,
} from '../lib/keys.ts';
import { Navigation } from './navigation.tsx';
import { Palette } from './palette.tsx';
import { useScreens } from './screens.ts';

export function Shell(): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const screens = useScreens();
  const [open, setOpen] = useState<'palette' | 'keys' | 'navigation' | null>(null);
  const close = (): void => setOpen(null);
  useEffect(listenForKeys, []);
  const searchEmails = () =>
    navigate({
      to: '/$project/$environment/emails',
      params: scope,
      state: { isSearching: true },
    });
  useShortcuts(
    [
      { keys: 'mod+k', label: 'Commands', run: () => setOpen('palette') },
      { keys: '?', label: 'Keyboard shortcuts', run: () => setOpen('keys') },
      ...screens.map(({ to, label, letter }): Shortcut => ({
        keys: `g ${letter}`,
        label,
        run: () => void navigate({ to, params: scope }),
      })),
      { keys: '/', label: 'Search emails', run: () => void searchEmails() },
    ],
    'shell',
  );
  const isTest = scope.environment === 'test';
  return (
    <div className="flex h-full flex-col">
      <SkipLink />
      {isTest && <div className="stripes h-1 shrink-0" aria-hidden />}
      <div className="flex min-h-0 grow">
        <aside className="hidden w-55 shrink-0 border-r border-line bg-side md:block">
          <Navigation onPalette={() => setOpen('palette')} onKeys={() => setOpen('keys')} />
        </aside>
        <div className="flex min-w-0 grow flex-col">
          <div className="flex h-11 items-center gap-2 border-b border-line px-2 md:hidden">
            <IconButton label="Navigation" onClick={() => setOpen('navigation')}>
              <MenuIcon size={18} aria-hidden />
            </IconButton>
            <span className="font-semibold">Letterhaus</span>
            {isTest && <span className="ml-auto text-sm font-medium text-wait">Test</span>}
          </div>
          <main id="content" tabIndex={-1} className="flex min-h-0 grow flex-col overflow-auto">
            <UndoProvider>
              <Outlet />
            </UndoProvider>
          </main>
        </div>
      </div>
      <Dialog isOpen={open === 'navigation'} onClose={close} title="Navigation">
        <Navigation
          onPalette={() => setOpen('palette')}
          onKeys={() => setOpen('keys')}
          onLeave={close}
        />
      </Dialog>
      <Palette isOpen={open === 'palette'} onClose={close} />
      <Dialog isOpen={open === 'keys'} onClose={close} title="Keyboard shortcuts">
        <KeyList />
      </Dialog>
    </div>
  );
}

/** The first stop of the keyboard, which jumps over the navigation. */
function SkipLink(): ReactNode {
  return (
    <a
      href="#content"
      onClick={(event) => {
        event.preventDefault();
        document.getElementById('content')?.focus();
      }}
      className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-raised focus:px-3 focus:py-1.5"
    >
      Skip to the content
    </a>
  );
}

function KeyList(): ReactNode {
  const [isOn, setOn] = useState(areSingleKeysOn);
  return (
    <>
      <label className="flex items-center gap-2 px-4 pt-4">
        <input
          type="checkbox"
          checked={isOn}
          onChange={({ target }) => {
            switchSingleKeys(target.checked);
            setOn(target.checked);
          }}
        />
        Shortcuts of a single key
      </label>
      <dl className="p-4">
        {activeShortcuts().map(({ keys, label }) => (
          <div key={keys} className="flex justify-between py-1">
            <dt>{label}</dt>
            <dd>
              <kbd className="rounded border border-line px-1.5 py-0.5 font-mono text-xs text-muted">
                {keyText(keys)}
              </kbd>
            </dd>
          </div>
        ))}
      </dl>
    </>
  );
}
