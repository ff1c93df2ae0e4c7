/** The name of a domain in its own script; where that differs, with the name in DNS. */
import type { ReactNode } from 'react';
import { inOwnScript } from '../lib/domain-name.ts';

export function DomainName({ name }: { name: string }): ReactNode {
  const shown = inOwnScript(name);
  if (shown === name) return name;
  return (
    <>
      <bdi>{shown}</bdi> <span className="font-mono text-xs font-normal text-muted">{name}</span>
    </>
  );
}
