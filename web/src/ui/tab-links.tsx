import { Link, useSearch } from '@tanstack/react-router';
import { type ReactNode, useEffect } from 'react';
import { useFadedEdges } from './faded-edges.ts';

/** Tabs that are kept in the address of the page; the first needs no name there. */
export function TabLinks(props: {
  label: string;
  tabs: readonly (readonly [name: string, label: string])[];
}): ReactNode {
  const { label: about, tabs } = props;
  const { tab: chosen } = useSearch({ strict: false });
  const bar = useFadedEdges<HTMLElement>();
  // On a phone the chosen tab may be beyond the edge.
  useEffect(() => {
    const tab = bar.current?.querySelector<HTMLElement>('[aria-current="page"]');
    if (tab) bar.current?.scrollTo({ left: tab.offsetLeft - bar.current.clientWidth / 2 });
  }, [chosen]);
  return (
    <div className="shrink-0 border-b border-line print:hidden">
      <nav
        ref={bar}
        aria-label={about}
        className="relative -mb-px flex gap-4 overflow-x-auto px-(--page-x) text-sm font-medium [scrollbar-width:none]"
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
    </div>
  );
}
