/** Settings and properties of one thing, each with its name. */
import type { ReactNode } from 'react';

/** Also of facts that are no Facts, so that the values of cards below each other are in line. */
export const WIDE_FACT = 'items-baseline gap-x-4 md:grid-cols-[22rem_minmax(0,1fr)]';

const FACT =
  'gap-x-6 grid-cols-[minmax(8rem,max-content)_minmax(0,1fr)] sm:grid-cols-[minmax(11rem,max-content)_minmax(0,1fr)]';

/** @param props.isWide beside facts with long names */
export function Facts({ isWide, children }: { isWide?: true; children: ReactNode }): ReactNode {
  return (
    <dl
      className={`grid items-baseline gap-y-2 text-sm ${isWide ? `grid-cols-[minmax(8rem,max-content)_minmax(0,1fr)] ${WIDE_FACT}` : FACT}`}
    >
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
