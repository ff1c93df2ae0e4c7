/** The reason why a recipient waits: the limit, its end, and the mail servers in DNS. */
import { Link } from '@tanstack/react-router';
import { CircleAlert, Hourglass } from 'lucide-react';
import type { ReactNode } from 'react';
import type { Diagnosis } from '../../../../../sdk/src/api.ts';
import { LIMITS } from './limits.ts';
import { useApi } from '../../../api/scope.ts';
import { providerName, withProviderName } from '../../../lib/providers.ts';
import { NextTime, Time } from '../../../ui/time.tsx';

type RecipientDiagnosis = Diagnosis['recipients'][number];
type Delay = NonNullable<RecipientDiagnosis['held_by']>;
type Route = NonNullable<RecipientDiagnosis['route']>;

export function DelayReason(props: {
  delay: Delay;
  provider: string | null;
  expiresAt: string;
}): ReactNode {
  const { delay, provider, expiresAt } = props;
  const { scope } = useApi();
  return (
    <div className="flex gap-2 rounded-md bg-side px-2.5 py-2 text-sm">
      <Hourglass size={14} aria-hidden className="mt-0.75 shrink-0 text-wait" />
      <div className="min-w-0">
        <p>
          <span className="font-medium">{LIMITS[delay.limit]}.</span>{' '}
          {withProviderName(delay.message, provider ?? '')}
        </p>
        <p className="text-muted">
          {delay.until && (
            <>
              Next attempt <NextTime at={delay.until} />.{' '}
            </>
          )}
          Expires <Time at={expiresAt} />.{' '}
          {provider !== null && (
            <Link
              to="/$project/$environment/queue"
              params={scope}
              search={{ provider }}
              className="link"
            >
              Show the queue of {providerName(provider)}
            </Link>
          )}
        </p>
      </div>
    </div>
  );
}

/** The mail servers of the recipient's domain, in the order in which they are tried. */
export function ReceiverDns({ route }: { route: Route }): ReactNode {
  return (
    <section className="text-sm">
      <h3 className="mb-0.5 text-xs text-muted">Mail servers in DNS</h3>
      {route.problem !== null && <Problem text={route.problem} />}
      <ul>
        {route.mx.map(({ host, preference, addresses, tls }) => (
          <li key={`${preference} ${host}`}>
            <span className="font-mono text-xs [overflow-wrap:anywhere]">
              {preference} {host} {addresses.join(', ')}
            </span>
            <span className="text-muted">
              {' '}
              TLS: {tls.mode}
              {tls.policy !== 'none' && `, by ${tls.policy}`}
            </span>
            {tls.problem !== null && <Problem text={tls.problem} />}
          </li>
        ))}
      </ul>
    </section>
  );
}

function Problem({ text }: { text: string }): ReactNode {
  return (
    <p className="flex gap-1.5">
      <CircleAlert size={14} aria-hidden className="mt-0.75 shrink-0 text-bad" />
      <span className="min-w-0 break-words">{text}</span>
    </p>
  );
}
