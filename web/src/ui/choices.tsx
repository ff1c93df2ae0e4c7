import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';

/** A choice that is kept in the query of the address. */
export function Choices(props: {
  label: string;
  name: string;
  chosen: string;
  options: readonly (readonly [key: string, label: string])[];
}): ReactNode {
  return (
    <nav aria-label={props.label} className="flex rounded-md border border-line">
      {props.options.map(([key, label]) => (
        <Link
          key={key}
          to="."
          params={true}
          search={(all) => ({ ...all, [props.name]: key })}
          replace
          data-chosen={key === props.chosen || undefined}
          className="px-2.5 py-1 text-sm text-muted hover:text-text data-chosen:bg-chosen data-chosen:text-text"
        >
          {label}
        </Link>
      ))}
    </nav>
  );
}
