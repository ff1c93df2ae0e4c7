/** A part of a page on its own surface, under its own heading. No card holds another one. */
import { type ReactNode, useId } from 'react';
import type { Tone } from './tone.ts';

/**
 * @param props.tone colours the edge, for a part that needs attention
 * @param props.wide content without a margin of its own, like a table, before `children`
 */
export function Card(props: {
  title?: ReactNode;
  about?: ReactNode;
  actions?: ReactNode;
  tone?: Tone | undefined;
  wide?: ReactNode;
  footer?: ReactNode;
  className?: string;
  children?: ReactNode;
}): ReactNode {
  const { title, about, actions, tone, wide, footer, children, className = '' } = props;
  const id = useId();
  // A table in it has the name already.
  const isNamed = title !== undefined && !wide;
  const edge = tone
    ? 'border-[color-mix(in_oklab,var(--tone)_35%,var(--color-line))]'
    : 'border-line';
  return (
    <section
      aria-labelledby={isNamed ? id : undefined}
      data-tone={tone}
      className={`min-w-0 shrink-0 overflow-hidden rounded-card border bg-surface [--page-x:1rem] ${edge} ${className}`}
    >
      {title !== undefined && <CardHead id={id} title={title} about={about} actions={actions} />}
      {wide && <div className={title === undefined ? '' : 'border-t border-line'}>{wide}</div>}
      {children && (
        <div
          className={`space-y-3 p-4 ${title === undefined && !wide ? '' : 'border-t border-line'}`}
        >
          {children}
        </div>
      )}
      {footer && <div className="border-t border-line px-4 py-3 text-sm text-muted">{footer}</div>}
    </section>
  );
}

function CardHead(props: {
  id: string;
  title: ReactNode;
  about: ReactNode;
  actions: ReactNode;
}): ReactNode {
  return (
    <header className="flex min-h-12 flex-wrap items-center gap-x-3 gap-y-1.5 px-4 py-2.5 text-sm">
      <div className="flex min-w-0 grow basis-44 flex-wrap items-baseline gap-x-3">
        <h2 id={props.id} className="text-base font-semibold break-words">
          {props.title}
        </h2>
        {props.about && <p className="min-w-0 max-w-prose text-muted">{props.about}</p>}
      </div>
      {props.actions && (
        <div className="flex max-w-full min-w-0 flex-wrap items-center gap-2">{props.actions}</div>
      )}
    </header>
  );
}
