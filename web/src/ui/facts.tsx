/** Settings and properties of one thing, each with its name. */
import type { ReactNode } from 'react';

export function Facts({ children }: { children: ReactNode }): ReactNode {
  return (
    <dl className="grid grid-cols-[minmax(8rem,max-content)_minmax(0,1fr)] sm:grid-cols-[minmax(11rem,max-content)_minmax(0,1fr)] gap-x-6 gap-y-2 text-sm">
      {children}
    </dl>
  );
}

/** @param props.isCode a name of a machine, or another text that programs read */
export function Fact(props: { name: string; isCode?: boolean; children: ReactNode }): ReactNode {
  const { name, isCode = false, children } = props;
  return (
    <>
      <dt className="text-muted">{name}</dt>
      <dd
        className={
          isCode
            ? 'font-mono text-xs leading-5 [overflow-wrap:anywhere]'
            : 'min-w-0 first-letter:uppercase'
        }
      >
        {children}
      </dd>
    </>
  );
}
