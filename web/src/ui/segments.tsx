/** A choice of a few views of the same thing, beside each other. In the address of a page it is Choices. */
import type { ReactNode } from 'react';
import { useFadedEdges } from './faded-edges.ts';

export function Segments<Key extends string>(props: {
  label: string;
  options: readonly (readonly [key: Key, label: string])[];
  chosen: Key;
  onChoose: (key: Key) => void;
}): ReactNode {
  const row = useFadedEdges<HTMLDivElement>();
  return (
    <div
      ref={row}
      role="group"
      aria-label={props.label}
      className="inline-flex w-fit max-w-full shrink-0 gap-0.5 overflow-x-auto [scrollbar-width:none] rounded-lg bg-well p-0.5 text-sm font-medium"
    >
      {props.options.map(([key, label]) => (
        <button
          key={key}
          type="button"
          aria-pressed={key === props.chosen}
          onClick={() => props.onChoose(key)}
          className="flex h-7 items-center rounded-md px-2.5 whitespace-nowrap text-muted hover:text-text aria-pressed:bg-knob aria-pressed:text-text aria-pressed:shadow-low"
        >
          {label}
        </button>
      ))}
    </div>
  );
}
