/** DKIM, SPF and DMARC of a message, as receivers compute them from the DNS of its domain. */
import { ShieldAlert, ShieldCheck } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Diagnosis } from '../../../../../sdk/src/api.ts';

type Judgement = NonNullable<Diagnosis['sender']['authentication']>;

export function Authentication({ authentication }: { authentication: Judgement }): ReactNode {
  const { dkim, spf, dmarc } = authentication;
  const lines = [
    ...dkim.map((one) => ({
      name: `DKIM ${one.algorithm}`,
      about: `${one.selector}._domainkey.${one.domain}`,
      ...one,
    })),
    { ...spf, name: 'SPF', about: spf.domain },
    { ...dmarc, name: 'DMARC', about: dmarc.policy ?? 'no policy', aligned: null },
  ];
  return (
    <ul className="space-y-1 text-sm">
      {lines.map(({ name, about, verdict, aligned, problem }) => (
        <li key={`${name} ${about}`} className="flex gap-2">
          {verdict === 'pass' ? (
            <ShieldCheck size={14} aria-hidden className="mt-0.75 shrink-0 text-good" />
          ) : (
            <ShieldAlert size={14} aria-hidden className="mt-0.75 shrink-0 text-wait" />
          )}
          <span className="flex min-w-0 flex-wrap items-baseline gap-x-2">
            <span>
              {name}: {verdict}
              {aligned !== null && (aligned ? ', aligned with From' : ', not aligned with From')}
            </span>
            <span className="font-mono text-xs break-all text-muted">{about}</span>
            {problem && <span className="text-muted">{problem}</span>}
          </span>
        </li>
      ))}
    </ul>
  );
}
