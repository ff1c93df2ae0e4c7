/** The frame of every screen: navigation, project and environment, palette, shortcuts. */
import { useQuery } from '@tanstack/react-query';
import { Outlet, useNavigate } from '@tanstack/react-router';
import { Menu as MenuIcon, Search } from 'lucide-react';
import { type ReactNode, useEffect, useState } from 'react';
import { useScope } from '../api/scope.ts';
import { useLiveData } from '../api/stream/live-data.ts';
import { sessionQuery } from '../api/session.ts';
import { IconButton } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { UndoProvider } from '../ui/undo.tsx';
import { listenForKeys, type Shortcut, useShortcuts } from '../lib/keys.ts';
import { ConnectionLine } from './connection-line.tsx';
import { KeyList } from './key-list.tsx';
import { Navigation } from './navigation.tsx';
import { Palette } from './palette.tsx';
import { useRemembering } from './recent.ts';
import { useScreens } from './screens.ts';

export function Shell(): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const screens = useScreens();
  const [open, setOpen] = useState<'palette' | 'keys' | 'navigation' | null>(null);
  const close = (): void => setOpen(null);
  useEffect(listenForKeys, []);
  useLiveData();
  useRemembering();
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
      ...screens.map(({ to, label, icon, letter }): Shortcut => ({
        keys: `g ${letter}`,
        label,
        icon,
        run: () => void navigate({ to, params: scope }),
      })),
      { keys: '/', label: 'Search emails', run: () => void searchEmails() },
    ],
    'shell',
  );
  return (
    <div className="flex h-full flex-col print:block print:h-auto">
      <SkipLink />
      {scope.environment === 'test' && <TestBar />}
      <div className="flex min-h-0 grow print:block">
        <aside className="hidden w-58 shrink-0 border-r border-line bg-side min-[900px]:block print:hidden">
          <Navigation onPalette={() => setOpen('palette')} onKeys={() => setOpen('keys')} />
        </aside>
        <div className="flex min-w-0 grow flex-col print:block">
          <TopBar onNavigation={() => setOpen('navigation')} onPalette={() => setOpen('palette')} />
          <ConnectionLine />
          <main
            id="content"
            tabIndex={-1}
            className="flex min-h-0 grow flex-col overflow-auto outline-none print:block print:overflow-visible"
          >
            <UndoProvider>
              <Outlet />
            </UndoProvider>
          </main>
        </div>
      </div>
      <NavigationSheet
        isOpen={open === 'navigation'}
        onClose={close}
        onPalette={() => setOpen('palette')}
        onKeys={() => setOpen('keys')}
      />
      <Palette isOpen={open === 'palette'} onClose={close} />
      <Dialog isOpen={open === 'keys'} onClose={close} title="Keyboard shortcuts">
        <KeyList />
      </Dialog>
    </div>
  );
}

const SHEET = 'arrive-from-left inset-y-0 left-0 flex w-[min(19rem,86vw)] flex-col bg-side!';

/** The navigation on a narrow screen. */
function NavigationSheet(props: {
  isOpen: boolean;
  onClose: () => void;
  onPalette: () => void;
  onKeys: () => void;
}): ReactNode {
  const { isOpen, onClose, onPalette, onKeys } = props;
  return (
    <Dialog isOpen={isOpen} onClose={onClose} title="Navigation" isTitleHidden place={SHEET}>
      <div className="min-h-0 grow">
        <Navigation onPalette={onPalette} onKeys={onKeys} onLeave={onClose} />
      </div>
    </Dialog>
  );
}

function TestBar(): ReactNode {
  return (
    <section
      aria-label="Environment"
      className="shrink-0 border-t-3 border-test bg-test-tint px-4 py-1 text-sm text-test-text print:hidden"
    >
      <strong className="font-semibold">Test environment:</strong> all emails are simulated.
    </section>
  );
}

/** Stands above the page on a narrow screen, where the navigation is a sheet. */
function TopBar(props: { onNavigation: () => void; onPalette: () => void }): ReactNode {
  const scope = useScope();
  const { data: session } = useQuery(sessionQuery);
  const name = session?.projects.find(({ id }) => id === scope.project)?.name;
  const isTest = scope.environment === 'test';
  return (
    <header className="flex h-13 shrink-0 items-center gap-2 border-b border-line bg-side px-3 min-[900px]:hidden print:hidden">
      <IconButton label="Navigation" onClick={props.onNavigation}>
        <MenuIcon size={18} aria-hidden />
      </IconButton>
      <span className="min-w-0 truncate font-semibold">{name ?? 'Letterhaus'}</span>
      <span
        className={`inline-flex h-5.5 shrink-0 items-center rounded-md px-1.75 text-xs font-medium capitalize ${isTest ? 'bg-test text-on-test' : 'bg-well text-text'}`}
      >
        {scope.environment}
      </span>
      <IconButton label="Search and commands" className="ml-auto" onClick={props.onPalette}>
        <Search size={18} aria-hidden />
      </IconButton>
    </header>
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
      className="sr-only focus:not-sr-only focus:absolute focus:z-50 focus:m-2 focus:rounded-md focus:bg-accent focus:px-3 focus:py-1.5 focus:text-on-accent"
    >
      Skip to the content
    </a>
  );
}
