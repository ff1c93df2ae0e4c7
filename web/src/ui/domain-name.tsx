/** The name of a domain in its own script; where that differs, with the name in DNS. A line ends after a dot of it. */
import { Fragment, type ReactNode } from 'react';
import { inOwnScript } from '../lib/domain-name.ts';

export function DomainName({ name }: { name: string }): ReactNode {
  const shown = inOwnScript(name);
  if (shown === name) return <AtDots text={name} />;
  return (
    <>
      <bdi>
        <AtDots text={shown} />
      </bdi>{' '}
      <span className="font-mono text-xs font-normal text-muted">
        <AtDots text={name} />
      </span>
    </>
  );
}

/** A text that is too long for its line continues after a dot, where there is one. */
export function AtDots({ text }: { text: string }): ReactNode {
  return text.split(/(?<=\.)/).map((label, index) => (
    // Equal labels differ only by their place.
    <Fragment key={index}>
      {index > 0 && <wbr />}
      {label}
    </Fragment>
  ));
}
