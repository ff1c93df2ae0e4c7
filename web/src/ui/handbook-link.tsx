import { ArrowUpRight } from 'lucide-react';
import type { ReactNode } from 'react';
import { buttonLook } from './button.tsx';

/**
 * Leads to a page of the handbook, in a tab of its own, because a form may be open.
 * @param props.isInText stands in a line of text, not in a row of buttons
 */
export function HandbookLink(props: {
  page: string;
  isInText?: boolean;
  children: ReactNode;
}): ReactNode {
  const { page, isInText = false, children } = props;
  return (
    <a
      href={`/docs/${page}`}
      target="_blank"
      rel="noreferrer"
      className={isInText ? 'link inline-flex items-center gap-1' : buttonLook({ look: 'quiet' })}
    >
      {children}
      <ArrowUpRight size={isInText ? 13 : 15} aria-hidden className="shrink-0" />
    </a>
  );
}
