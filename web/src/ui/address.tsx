import { Fragment, type ReactNode } from 'react';

/** An address that breaks before its domain or after a dot, and elsewhere only where it must. */
export function Address({ address }: { address: string }): ReactNode {
  return (
    <span className="[overflow-wrap:anywhere]">
      {address.split(/(?=@)|(?<=\.)/).map((part, index) => (
        <Fragment key={index}>
          {index > 0 && <wbr />}
          {part}
        </Fragment>
      ))}
    </span>
  );
}
