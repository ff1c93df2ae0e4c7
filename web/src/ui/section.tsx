/** A part of a screen under its own heading. */
import { type ReactNode, useId } from 'react';

export function Section(props: {
  title: string;
  about?: ReactNode;
  /** Content of full width, like a table. */
  wide?: ReactNode;
  children?: ReactNode;
}): ReactNode {
  const id = useId();
  return (
    <section aria-labelledby={id} className="shrink-0 border-b border-line py-4">
      <h2 id={id} className="px-4 font-medium">
        {props.title}
      </h2>
      {props.about && <p className="max-w-2xl px-4 text-sm text-muted">{props.about}</p>}
      {props.wide && <div className="mt-2">{props.wide}</div>}
      {props.children && <div className="mt-3 max-w-2xl space-y-3 px-4">{props.children}</div>}
    </section>
  );
}
