/** The navigation: project and environment, search, the screens by group, the account. */
import { Link, useMatches } from '@tanstack/react-router';
import { Search } from 'lucide-react';
import type { ReactNode } from 'react';
import { useScope } from '../api/scope.ts';
import { keyText } from '../lib/keys.ts';
import { count as countText } from '../lib/numbers.ts';
import { AccountMenu } from './account-menu.tsx';
import { type Count, type CountName, useCounts } from './counts.ts';
import { EnvironmentSwitch, ProjectMenu } from './scope-switch.tsx';
import { GROUPS, type ScreenLink, useScreens } from './screens.ts';

type Props = { onPalette: () => void; onKeys: () => void; onLeave?: () => void };

const COUNTED: Readonly<Record<CountName, string>> = { waiting: 'waiting', failing: 'failing' };

export function Navigation({ onPalette, onKeys, onLeave }: Props): ReactNode {
  const screens = useScreens();
  const counts = useCounts();
  const linkOf = (screen: ScreenLink): ReactNode => (
    <ScreenItem
      key={screen.to}
      screen={screen}
      count={screen.count && counts[screen.count]}
      onLeave={onLeave}
    />
  );
  return (
    <div className="flex h-full flex-col p-3 text-sm">
      {/* A sheet has the button that closes it in this row. */}
      <ProjectMenu className={onLeave ? 'mr-9' : ''} />
      <EnvironmentSwitch />
      <button
        type="button"
        onClick={onPalette}
        className="flex h-control shrink-0 items-center gap-2 rounded-md border border-control bg-surface px-2 text-left text-muted hover:bg-hover"
      >
        <Search size={15} aria-hidden className="shrink-0" />
        <span className="grow truncate">Search or run…</span>
        <kbd className="font-sans text-xs max-[900px]:hidden">{keyText('mod+k')}</kbd>
      </button>
      <nav aria-label="Screens" className="-mx-1 mt-2 min-h-0 grow overflow-auto px-1">
        <ul>{screens.filter(({ group }) => group === undefined).map(linkOf)}</ul>
        {GROUPS.map((group) => (
          <div key={group}>
            <p id={`group-${group}`} className="px-2 pt-3.5 pb-0.5 text-xs font-medium text-muted">
              {group}
            </p>
            <ul aria-labelledby={`group-${group}`}>
              {screens.filter((screen) => screen.group === group).map(linkOf)}
            </ul>
          </div>
        ))}
      </nav>
      {/* The open menu leaves this gap to its button. */}
      <div className="grid pt-2">
        <AccountMenu onLeave={onLeave} />
      </div>
      <Foot onKeys={onKeys} />
    </div>
  );
}

function ScreenItem(props: {
  screen: ScreenLink;
  count: Count | undefined;
  onLeave: (() => void) | undefined;
}): ReactNode {
  const { screen, count, onLeave } = props;
  const { to, label, icon: Icon } = screen;
  const scope = useScope();
  return (
    <li>
      <Link
        to={to}
        params={scope}
        onClick={onLeave}
        className="group flex h-9 items-center min-[900px]:h-7.5 gap-2.5 rounded-md px-2 hover:bg-hover aria-[current=page]:bg-chosen aria-[current=page]:font-medium"
      >
        <Icon
          size={16}
          strokeWidth={1.75}
          aria-hidden
          className="shrink-0 text-muted group-aria-[current=page]:text-accent"
        />
        <span className="grow truncate">{label}</span>
        {count && screen.count && (
          <span data-tone={count.tone} className="text-xs text-(--tone) tabular-nums">
            {countText(count.value, count.isEstimate)}
            <span className="sr-only"> {COUNTED[screen.count]}</span>
          </span>
        )}
      </Link>
    </li>
  );
}

const FOOT_LINK = 'hover:text-text hover:underline underline-offset-3';

/** The version, the page of the handbook about the present screen, and the shortcuts. */
function Foot({ onKeys }: Pick<Props, 'onKeys'>): ReactNode {
  const shown = useMatches().at(-1)?.fullPath ?? '';
  const screen = useScreens().find(({ to }) => shown === to || shown.startsWith(`${to}/`));
  return (
    <p className="flex shrink-0 items-center gap-1.5 px-2 pt-1.5 text-xs text-muted">
      <span data-version>{import.meta.env.VERSION}</span>
      <span aria-hidden>·</span>
      {/* In a tab of its own, because a form may be open. */}
      <a
        href={`/docs/${screen?.handbook ?? ''}`}
        target="_blank"
        rel="noreferrer"
        className={FOOT_LINK}
      >
        Handbook
      </a>
      <span aria-hidden>·</span>
      <button type="button" onClick={onKeys} className={FOOT_LINK}>
        Shortcuts
      </button>
      <kbd
        aria-hidden
        className="rounded border border-edge bg-surface px-1.25 font-sans max-[900px]:hidden"
      >
        ?
      </kbd>
    </p>
  );
}
