import { ArrowUpRight } from 'lucide-react';
import type { ReactNode } from 'react';
import { buttonLook } from './button.tsx';

/** Leads to a page of the handbook, in a tab of its own, because a form may be open. */
export function HandbookLink({ page, children }: { page: string; children: ReactNode }): ReactNode {
  return (
    <a
      href={`/docs/${page}`}
      target="_blank"
      rel="noreferrer"
      className={buttonLook({ look: 'quiet' })}
    >
      {children}
      <ArrowUpRight size={15} aria-hidden />
    </a>
  );
}
