/** The first live email: from the verified domain to the member, in one click. */
import { useQuery } from '@tanstack/react-query';
import { Link } from '@tanstack/react-router';
import type { ReactNode } from 'react';
import { useApi } from '../../api/scope.ts';
import { sessionQuery } from '../../api/session.ts';
import { Allowed } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Outcome } from './first-email-step.tsx';
import { type Facts, leadingDomain } from './steps.ts';
import { useAction, useApiIn, useReloadIn } from './use-action.tsx';

export function LiveEmailStep({ facts }: { facts: Facts }): ReactNode {
  const { scope } = useApi();
  const domain = leadingDomain(facts.domains);
  const to = useQuery(sessionQuery).data?.member.email ?? '';
  if (domain?.status !== 'verified') {
    return (
      <p className="text-sm text-muted">
        It goes from your domain to your own address, as soon as the domain is verified.
      </p>
    );
  }
  return (
    <>
      <p className="max-w-prose text-sm">
        Sends one email from postmaster@{domain.name} to {to}, and shows its way. For applications
        create a{' '}
        <Link
          to="/$project/$environment/api-keys"
          params={{ ...scope, environment: 'live' }}
          className="link"
        >
          live key
        </Link>
        ; nothing else changes in them.
      </p>
      <SendLive from={`postmaster@${domain.name}`} to={to} />
      {facts.liveEmail && <Outcome email={facts.liveEmail} environment="live" />}
    </>
  );
}

function SendLive({ from, to }: { from: string; to: string }): ReactNode {
  const api = useApiIn('live');
  const reload = useReloadIn('live');
  const { run, isRunning, failure } = useAction(async () => {
    const text = `Letterhaus sent this email from ${from.split('@')[1]}.`;
    await api.call('sendEmail', { body: { from, to, subject: 'Hello from Letterhaus', text } });
    await reload();
  });
  return (
    <>
      <Allowed to="sendEmail">
        <Button look="primary" disabled={isRunning} onClick={run}>
          Send to {to}
        </Button>
      </Allowed>
      {failure}
    </>
  );
}
