/** A state as a coloured word. The status of an email has StatusBadge. */
import type { ReactNode } from 'react';

const COLOURS = {
  good: 'text-good',
  open: 'text-open',
  wait: 'text-wait',
  bad: 'text-bad',
  none: 'text-muted',
} as const;

export function Mark({
  look,
  children,
}: {
  look: keyof typeof COLOURS;
  children: ReactNode;
}): ReactNode {
  return (
    <span className={`inline-flex items-center gap-1.5 whitespace-nowrap ${COLOURS[look]}`}>
      <span aria-hidden className="size-2 rounded-full bg-current" />
      {children}
    </span>
  );
}
