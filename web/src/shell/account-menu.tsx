/** The member who is signed in: theme, account, signing out. */
import { Menu } from '@base-ui/react/menu';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import {
  Check,
  ChevronsUpDown,
  CircleUserRound,
  LogOut,
  type LucideIcon,
  Monitor,
  Moon,
  Sun,
} from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { useScope } from '../api/scope.ts';
import { sessionQuery, signOut } from '../api/session.ts';
import { MENU_ITEM, MENU_POPUP } from '../ui/more-menu.tsx';
import { chooseTheme, chosenTheme, type Theme, THEME_WORDS, THEMES } from './theme.ts';

const THEME_ICONS: Readonly<Record<Theme, LucideIcon>> = {
  system: Monitor,
  light: Sun,
  dark: Moon,
};
const INITIALS = 2;

export function AccountMenu({ onLeave }: { onLeave: (() => void) | undefined }): ReactNode {
  const scope = useScope();
  const { data: session } = useQuery(sessionQuery);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const leave = async (): Promise<void> => {
    await signOut();
    cache.clear();
    await navigate({ to: '/sign-in' });
  };
  const name = session?.member.name ?? 'Account';
  return (
    <Menu.Root>
      <Menu.Trigger className="flex shrink-0 items-center gap-2.5 rounded-md px-2 py-1.5 text-left hover:bg-hover">
        <span
          aria-hidden
          className="grid size-6.5 shrink-0 place-items-center rounded-full bg-accent-tint text-[0.6875rem] font-semibold text-accent"
        >
          {initialsOf(name)}
        </span>
        <span className="min-w-0 grow">
          <span className="block truncate leading-tight font-medium">{name}</span>
          <span className="block text-xs text-muted first-letter:uppercase">
            {session?.member.role}
          </span>
        </span>
        <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-muted" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="start" side="top" sideOffset={8}>
          <Menu.Popup className={`${MENU_POPUP} w-(--anchor-width)`}>
            <ThemeItems />
            <Menu.Separator className="my-1 border-t border-line" />
            <Menu.Item
              onClick={() => {
                onLeave?.();
                void navigate({ to: '/$project/$environment/settings', params: scope });
              }}
              className={MENU_ITEM}
            >
              <CircleUserRound size={15} aria-hidden className="text-muted" />
              Your account
            </Menu.Item>
            <Menu.Item onClick={() => void leave()} className={MENU_ITEM}>
              <LogOut size={15} aria-hidden className="text-muted" />
              Sign out
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function ThemeItems(): ReactNode {
  const [theme, setTheme] = useState(chosenTheme);
  return (
    <Menu.RadioGroup
      value={theme}
      onValueChange={(chosen: Theme) => {
        chooseTheme(chosen);
        setTheme(chosen);
      }}
    >
      <Menu.GroupLabel className="px-2 py-1.5 text-xs text-muted">Theme</Menu.GroupLabel>
      {THEMES.map((name) => {
        const Icon = THEME_ICONS[name];
        return (
          <Menu.RadioItem key={name} value={name} className={MENU_ITEM}>
            <Icon size={15} aria-hidden className="text-muted" />
            <span className="grow">{THEME_WORDS[name]}</span>
            <Menu.RadioItemIndicator>
              <Check size={14} aria-hidden className="text-accent" />
            </Menu.RadioItemIndicator>
          </Menu.RadioItem>
        );
      })}
    </Menu.RadioGroup>
  );
}

/** The first letters of the first and the last word. */
function initialsOf(name: string): string {
  const words = name.split(/\s+/).filter((word) => word !== '');
  const ends = words.length > INITIALS ? [words[0]!, words.at(-1)!] : words;
  return ends.map((word) => [...word][0]?.toUpperCase()).join('');
}
