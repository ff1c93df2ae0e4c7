/** The verdict at the head of an email's page: state, reason, advice, and the one action that helps. */
import type { ReactNode } from 'react';
import type { Email } from '../../../../../sdk/src/api.ts';
import type { Scope } from '../../../api/client.ts';
import { useScope } from '../../../api/scope.ts';
import { providerName } from '../../../lib/providers.ts';
import { absoluteTime } from '../../../lib/time.ts';
import { Allowed, type Operation } from '../../../ui/allowed.tsx';
import { Button, ButtonLink } from '../../../ui/button.tsx';
import { STATUS_LOOKS } from '../../../ui/status.tsx';
import { NextTime } from '../../../ui/time.tsx';
import { Verdict } from '../../../ui/verdict.tsx';
import { type OpenAction, SendAgain } from './email-actions.tsx';
import type { EmailVerdict as Judged } from './verdict.ts';

export function EmailVerdict(props: {
  email: Email;
  verdict: Judged;
  open: OpenAction;
}): ReactNode {
  const { email, verdict, open } = props;
  const scope = useScope();
  const [tone, icon] = STATUS_LOOKS[verdict.status];
  const { provider, sentences } = verdict;
  return (
    <Verdict
      tone={tone}
      icon={icon}
      title={verdict.title}
      action={
        (verdict.action !== null || provider !== null) && (
          <>
            <Action verdict={verdict} email={email} open={open} />
            {provider !== null && (
              <ButtonLink to="/$project/$environment/queue" params={scope} search={{ provider }}>
                Show the queue of {providerName(provider)}
              </ButtonLink>
            )}
          </>
        )
      }
    >
      {sentences.length > 0 && <p>{sentences.join(' ')}</p>}
      <Waiting verdict={verdict} />
    </Verdict>
  );
}

/** The time of the next attempt, and of the last one. */
function Waiting({ verdict }: { verdict: Judged }): ReactNode {
  const { status, nextAttemptAt, expiresAt } = verdict;
  if (nextAttemptAt === null) return null;
  if (status === 'scheduled') {
    return (
      <p>
        Delivery begins{' '}
        <strong className="font-semibold">
          <NextTime at={nextAttemptAt} />
        </strong>
        , at {absoluteTime(nextAttemptAt)}.
      </p>
    );
  }
  return (
    <p>
      Next attempt{' '}
      <strong className="font-semibold">
        <NextTime at={nextAttemptAt} />
      </strong>
      {expiresAt !== null && <>, given up at {absoluteTime(expiresAt)}</>}.
    </p>
  );
}

type ActionProps = { verdict: Judged; email: Email; open: OpenAction };

/** Primary where nothing happens without it. */
const DIALOGS = {
  retry: { to: 'retryQueue', label: 'Try now', look: 'plain' },
  release: { to: 'releaseQueue', label: 'Release', look: 'primary' },
  reschedule: { to: 'rescheduleEmail', label: 'Reschedule', look: 'plain' },
} as const satisfies Record<string, { to: Operation; label: string; look: 'plain' | 'primary' }>;

function Action({ verdict, email, open }: ActionProps): ReactNode {
  const scope = useScope();
  const { action, address } = verdict;
  switch (action) {
    case 'resend':
      return <SendAgain email={email} open={open} look="primary" />;
    case 'retry':
    case 'release':
    case 'reschedule':
      return (
        <Allowed to={DIALOGS[action].to}>
          <Button look={DIALOGS[action].look} onClick={() => open(action)}>
            {DIALOGS[action].label}
          </Button>
        </Allowed>
      );
    case 'suppression':
      return <SuppressionLink scope={scope} address={address ?? ''} />;
    case 'recipient':
      return <RecipientButton scope={scope} address={address ?? ''} />;
    case 'domain':
      return (
        <ButtonLink look="primary" to="/$project/$environment/domains" params={scope}>
          Show the sending domain
        </ButtonLink>
      );
    case null:
      return null;
  }
}

/** Not primary, because it only leads to what is known about the address. */
function RecipientButton({ scope, address }: { scope: Scope; address: string }): ReactNode {
  return (
    <ButtonLink
      to="/$project/$environment/recipients/$address"
      params={{ ...scope, address }}
      preload={false}
    >
      Show the recipient
    </ButtonLink>
  );
}

function SuppressionLink({ scope, address }: { scope: Scope; address: string }): ReactNode {
  return (
    <ButtonLink
      look="primary"
      to="/$project/$environment/suppressions"
      params={scope}
      search={{ address }}
    >
      Show the suppression
    </ButtonLink>
  );
}
