/** Changes project and environment. The screen stays; a page of one item becomes the list of such items. */
import { Menu } from '@base-ui/react/menu';
import { useQuery } from '@tanstack/react-query';
import { Link, useMatches, useNavigate } from '@tanstack/react-router';
import { Check, ChevronsUpDown, FolderOpen } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Scope } from '../api/client.ts';
import { useScope } from '../api/scope.ts';
import { ENVIRONMENTS, sessionQuery } from '../api/session.ts';
import { MENU_ITEM, MENU_POPUP } from '../ui/more-menu.tsx';
import { Logo } from '../ui/logo.tsx';
import { useScreens } from './screens.ts';

const WORDS = { live: 'Live', test: 'Test' } as const;

/** Returns what leads to the present screen in another scope. */
function useScreenIn(): (scope: Scope) => {
  to: ReturnType<typeof useScreens>[number]['to'];
  params: Scope;
  search: object;
} {
  const screens = useScreens();
  const match = useMatches().at(-1);
  const shown = match?.fullPath ?? '';
  const screen = screens.find(({ to }) => shown === to || shown.startsWith(`${to}/`));
  return (params) => ({
    to: screen?.to ?? '/$project/$environment/emails',
    params,
    search: shown === screen?.to ? { ...match?.search } : {},
  });
}

export function ProjectMenu({ className }: { className: string }): ReactNode {
  const scope = useScope();
  const navigate = useNavigate();
  const screenIn = useScreenIn();
  const { data: session } = useQuery(sessionQuery);
  const { projects = [] } = session ?? {};
  const name = projects.find(({ id }) => id === scope.project)?.name ?? 'Project';
  const organization = session?.organization.name;
  return (
    <Menu.Root>
      <Menu.Trigger
        className={`flex shrink-0 items-center gap-2.5 rounded-md px-2 py-1.5 text-left hover:bg-hover ${className}`}
      >
        <Logo />
        <span className="min-w-0 grow">
          <span className="sr-only">Project </span>
          <span className="block truncate text-base leading-tight font-semibold">{name}</span>
          <span aria-hidden={organization === name} className="block truncate text-xs text-muted">
            {organization === name ? 'Project' : organization}
          </span>
        </span>
        <ChevronsUpDown size={14} aria-hidden className="shrink-0 text-muted" />
      </Menu.Trigger>
      <Menu.Portal>
        <Menu.Positioner className="z-60" align="start" sideOffset={4}>
          <Menu.Popup className={`${MENU_POPUP} max-h-[70vh] max-w-80 overflow-auto`}>
            {projects.map(({ id, name: one }) => (
              <Menu.Item
                key={id}
                onClick={() => void navigate(screenIn({ ...scope, project: id }))}
                className={MENU_ITEM}
              >
                <span className="grow truncate">{one}</span>
                {id === scope.project && <Check size={14} aria-label="current" />}
              </Menu.Item>
            ))}
            <Menu.Separator className="my-1 border-t border-line" />
            <Menu.Item
              onClick={() =>
                void navigate({ to: '/$project/$environment/projects', params: scope })
              }
              className={MENU_ITEM}
            >
              <FolderOpen size={15} aria-hidden className="text-muted" />
              Projects and limits
            </Menu.Item>
          </Menu.Popup>
        </Menu.Positioner>
      </Menu.Portal>
    </Menu.Root>
  );
}

export function EnvironmentSwitch(): ReactNode {
  const scope = useScope();
  const screenIn = useScreenIn();
  return (
    <div
      role="group"
      aria-label="Environment"
      className="my-2 grid shrink-0 grid-cols-2 gap-0.5 rounded-lg bg-well p-0.5 font-medium"
    >
      {ENVIRONMENTS.map((environment) => (
        <EnvironmentLink
          key={environment}
          environment={environment}
          isChosen={environment === scope.environment}
          link={screenIn({ ...scope, environment })}
        />
      ))}
    </div>
  );
}

function EnvironmentLink(props: {
  environment: Scope['environment'];
  isChosen: boolean;
  link: ReturnType<ReturnType<typeof useScreenIn>>;
}): ReactNode {
  const { environment, isChosen, link } = props;
  const chosenLook =
    environment === 'test' ? 'bg-test text-on-test' : 'bg-knob text-text shadow-low';
  return (
    <Link
      {...link}
      aria-current={isChosen}
      className={`flex h-6.5 items-center justify-center gap-1.5 rounded-md ${isChosen ? chosenLook : 'text-muted hover:text-text'}`}
    >
      {isChosen && environment === 'live' && (
        <span aria-hidden className="size-1.75 rounded-full bg-good" />
      )}
      {WORDS[environment]}
    </Link>
  );
}
