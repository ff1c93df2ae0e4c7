import { Menu } from '@base-ui/react/menu';
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { Link, useMatches, useNavigate } from '@tanstack/react-router';
import { BookOpen, Check, ChevronsUpDown, Command, Keyboard } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import type { Scope } from '../api/client.ts';
import { useScope } from '../api/scope.ts';
import { ENVIRONMENTS, sessionQuery, signOut } from '../api/session.ts';
import { useScreens } from './screens.ts';
import { chooseTheme, chosenTheme, THEMES } from './theme.ts';

const ITEM =
  'flex w-full items-center gap-2 rounded-md px-2 py-1.5 text-left text-sm outline-none data-highlighted:bg-hover';
const POPUP = 'min-w-48 rounded-lg border border-line bg-raised p-1 shadow-lg';

type Props = { onPalette: () => void; onKeys: () => void; onLeave?: () => void };

export function Navigation({ onPalette, onKeys, onLeave }: Props): ReactNode {
  const scope = useScope();
  const screens = useScreens();
  return (
    <div className="flex h-full flex-col gap-1 p-2">
      <ScopeMenu />
      {scope.environment === 'test' && (
        <p className="mx-2 mb-1 text-xs text-wait">Test environment: no email is delivered.</p>
      )}
      <nav aria-label="Screens" className="grow space-y-px overflow-auto">
        {screens.map(({ to, label, icon: Icon }) => (
          <Link
            key={to}
            to={to}
            params={scope}
            onClick={onLeave}
            className="flex h-8 items-center gap-2.5 rounded-md px-2 text-sm text-muted hover:bg-hover hover:text-text"
            activeProps={{ className: 'bg-chosen text-text! font-medium' }}
          >
            <Icon size={15} aria-hidden />
            {label}
          </Link>
        ))}
      </nav>
      <NavigationButton
        onClick={onPalette}
        icon={<Command size={15} aria-hidden />}
        label="Commands"
      />
      <NavigationButton
        onClick={onKeys}
        icon={<Keyboard size={15} aria-hidden />}
        label="Keyboard shortcuts"
      />
      <HandbookLink />
      <AccountMenu onLeave={onLeave} />
    </div>
  );
}

function NavigationButton(props: {
  onClick: () => void;
  icon: ReactNode;
  label: string;
}): ReactNode {
  return (
    <button
      type="button"
      onClick={props.onClick}
      className="flex h-8 items-center gap-2.5 rounded-md px-2 text-sm text-muted hover:bg-hover hover:text-text"
    >
      {props.icon}
      {props.label}
    </button>
  );
}

/** Leads to the page of the handbook about the present screen, in a tab of its own, because a form may be open. */
function HandbookLink(): ReactNode {
  const shown = useMatches().at(-1)?.fullPath ?? '';
  const screen = useScreens().find(({ to }) => shown === to || shown.startsWith(`${to}/`));
  return (
    <a
      href={`/docs/${screen?.handbook ?? ''}`}
      target="_blank"
      rel="noreferrer"
      className="flex h-8 items-center gap-2.5 rounded-md px-2 text-sm text-muted hover:bg-hover hover:text-text"
    >
      <BookOpen size={15} aria-hidden />
      Handbook
    </a>
  );
}

/** Changes project and environment. The screen stays; a page of one item becomes the list of such items. */
function ScopeMenu(): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const screens = useScreens();
  const shown = useMatches().at(-1)?.fullPath ?? '';
  const { data: session } = useQuery(sessionQuery);
  const { projects = [] } = session ?? {};
  const scopes = projects.flatMap(({ id, name }) =>
    ENVIRONMENTS.map((environment) => ({ project: id, name, environment })),
  );
  const name = projects.find(({ id }) => id === scope.project)?.name ?? 'Project';
  const open = ({ project, environment }: Scope): void => {
    const screen = screens.find(({ to }) => shown === to || shown.startsWith(`${to}/`));
    void navigate({
      to: screen?.to ?? '/$project/$environment/emails',
      params: { project, environment },
      search: shown === screen?.to ? (present: object) => present : {},
    });
  };
  return (
    <Menu.Root>
      <Menu.Trigger className="flex h-10 items-center gap-2 rounded-md px-2 text-left hover:bg-hover">
        <span className="min-w-0 grow truncate font-semibold">{name}</span>
        <EnvironmentWord environment={scope.environment} />
        <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-muted" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="start" sideOffset={4}>
          <Menu.Popup className={POPUP}>
            {scopes.map((one) => (
              <Menu.Item
                key={`${one.project} ${one.environment}`}
                onClick={() => open(one)}
                className={ITEM}
              >
                <span className="grow truncate">{one.name}</span>
                <EnvironmentWord environment={one.environment} />
                <span className="w-4">
                  {one.project === scope.project && one.environment === scope.environment && (
                    <Check size={14} aria-label="current" />
                  )}
                </span>
              </Menu.Item>
            ))}
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

function EnvironmentWord({ environment }: Pick<Scope, 'environment'>): ReactNode {
  const look = environment === 'test' ? 'border-wait text-wait' : 'border-good text-good';
  return <span className={`rounded border px-1.5 text-xs font-medium ${look}`}>{environment}</span>;
}

function AccountMenu({ onLeave }: Pick<Props, 'onLeave'>): ReactNode {
  const scope = useScope();
  const { data: session } = useQuery(sessionQuery);
  const cache = useQueryClient();
  const navigate = useNavigate();
  const [theme, setTheme] = useState(chosenTheme);
  const leave = async (): Promise<void> => {
    await signOut();
    cache.clear();
    await navigate({ to: '/sign-in' });
  };
  return (
    <Menu.Root>
      <Menu.Trigger className="flex h-9 items-center gap-2 rounded-md border-t border-line px-2 text-left text-sm hover:bg-hover">
        <span className="min-w-0 grow truncate">{session?.member.name ?? 'Account'}</span>
        <span className="text-xs text-muted">{session?.member.role}</span>
        <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-muted" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="start" sideOffset={4}>
          <Menu.Popup className={POPUP}>
            <Menu.RadioGroup
              value={theme}
              onValueChange={(chosen: (typeof THEMES)[number]) => {
                chooseTheme(chosen);
                setTheme(chosen);
              }}
            >
              {THEMES.map((name) => (
                <Menu.RadioItem key={name} value={name} className={ITEM}>
                  <span className="grow">
                    {name === 'system' ? 'System' : name === 'light' ? 'Light' : 'Dark'}
                  </span>
                  <Menu.RadioItemIndicator>
                    <Check size={14} aria-hidden />
                  </Menu.RadioItemIndicator>
                </Menu.RadioItem>
              ))}
            </Menu.RadioGroup>
            <Menu.Separator className="my-1 border-t border-line" />
            <Menu.Item
              onClick={() => {
                onLeave?.();
                void navigate({ to: '/$project/$environment/settings', params: scope });
              }}
              className={ITEM}
            >
              Settings
            </Menu.Item>
            <Menu.Item onClick={() => void leave()} className={ITEM}>
              Sign out
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}
