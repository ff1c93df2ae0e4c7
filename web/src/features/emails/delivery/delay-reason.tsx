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

/** The mail servers of the recipient's domain, in the order in which they are tried. The simulator has none. */
export function ReceiverDns({ route }: { route: Route }): ReactNode {
  if (route.provider === 'simulator') return null;
  if (route.mx.length === 0 && route.problem === null) return null;
  return (
    <section className="border-t border-line pt-3 text-sm" aria-label="Mail servers in DNS">
      {route.mx.length > 0 && (
        <table className="w-full">
          <thead className="text-left text-xs text-muted">
            <tr>
              <th className="pr-4 pb-1 font-medium">Mail servers in DNS</th>
              <th className="pr-4 pb-1 text-right font-medium">Priority</th>
              <th className="pb-1 text-right font-medium">TLS</th>
            </tr>
          </thead>
          <tbody className="align-top">
            {route.mx.map((server) => (
              <ServerRow key={`${server.preference} ${server.host}`} server={server} />
            ))}
          </tbody>
        </table>
      )}
      {route.problem !== null && <Problem text={route.problem} />}
    </section>
  );
}

function ServerRow({ server }: { server: Route['mx'][number] }): ReactNode {
  const { host, preference, addresses, tls } = server;
  return (
    <tr>
      <td className="py-0.5 pr-4">
        <span className="font-mono text-xs [overflow-wrap:anywhere]">{host}</span>{' '}
        <span className="font-mono text-xs text-muted">{addresses.join(', ')}</span>
        {tls.problem !== null && <Problem text={tls.problem} />}
      </td>
      <td className="py-0.5 pr-4 text-right tabular-nums">{preference}</td>
      <td className="py-0.5 text-right">
        <span className="inline-block first-letter:uppercase">{tlsInWords(tls)}</span>
      </td>
    </tr>
  );
}

function tlsInWords({ mode, policy }: Route['mx'][number]['tls']): string {
  return policy === 'none' ? mode : `${mode}, by ${policy}`;
}

function Problem({ text }: { text: string }): ReactNode {
  return (
    <p className="flex gap-1.5">
      <CircleAlert size={14} aria-hidden className="mt-0.75 shrink-0 text-bad" />
      <span className="min-w-0 break-words">{text}</span>
    </p>
  );
}
