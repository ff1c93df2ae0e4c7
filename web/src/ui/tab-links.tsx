import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** Tabs that are kept in the address of the page; the first needs no name there. */
export function TabLinks(props: {
  label: string;
  tabs: readonly (readonly [name: string, label: string])[];
}): ReactNode {
  const { label: about, tabs } = props;
  return (
    <nav
      aria-label={about}
      className="flex shrink-0 gap-4 overflow-x-auto border-b border-line px-(--page-x) text-sm font-medium print:hidden"
    >
      {tabs.map(([name, label], index) => (
        <Link
          key={name}
          to="."
          params={true}
          search={(all) => ({ ...all, tab: index === 0 ? undefined : name })}
          replace
          activeOptions={{ includeSearch: true, explicitUndefined: true }}
          className="border-b-2 border-transparent py-2 whitespace-nowrap text-muted hover:text-text aria-[current=page]:border-accent aria-[current=page]:text-text"
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
