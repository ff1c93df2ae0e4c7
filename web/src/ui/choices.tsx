import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useFadedEdges } from './faded-edges.ts';

/** A choice that is kept in the query of the address. */
export function Choices(props: {
  label: string;
  name: string;
  chosen: string;
  options: readonly (readonly [key: string, label: string])[];
}): ReactNode {
  const row = useFadedEdges<HTMLElement>();
  return (
    <nav
      ref={row}
      aria-label={props.label}
      className="inline-flex max-w-full gap-0.5 overflow-x-auto [scrollbar-width:none] rounded-lg bg-well p-0.5 text-sm font-medium"
    >
      {props.options.map(([key, label]) => (
        <Link
          key={key}
          to="."
          params={true}
          search={(all) => ({ ...all, [props.name]: key })}
          replace
          data-chosen={key === props.chosen || undefined}
          className="flex h-6.5 items-center rounded-md px-2.5 whitespace-nowrap text-muted hover:text-text data-chosen:bg-knob data-chosen:text-text data-chosen:shadow-low"
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
