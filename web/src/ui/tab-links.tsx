import { Link, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect, useRef } from 'react';

/** Tabs that are kept in the address of the page; the first needs no name there. */
export function TabLinks(props: {
  label: string;
  tabs: readonly (readonly [name: string, label: string])[];
}): ReactNode {
  const { label: about, tabs } = props;
  const { tab: chosen } = useSearch({ strict: false });
  const bar = useRef<HTMLElement>(null);
  // On a phone the chosen tab may be beyond the edge.
  useEffect(() => {
    const tab = bar.current?.querySelector<HTMLElement>('[aria-current="page"]');
    if (tab) bar.current?.scrollTo({ left: tab.offsetLeft - bar.current.clientWidth / 2 });
  }, [chosen]);
  return (
    <nav
      ref={bar}
      aria-label={about}
      className="relative flex shrink-0 gap-4 overflow-x-auto border-b border-line px-(--page-x) text-sm font-medium print:hidden"
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
