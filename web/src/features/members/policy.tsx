/** Whether every member needs a second factor. For owners of the installation. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { SignInPolicy } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';
import { absoluteTime } from '../../lib/time.ts';
import { SharedAction } from '../../ui/shared-action.tsx';

const KEY = ['operator', 'sign-in-policy'] as const;

/** Shows nothing to owners of other organizations, who do not run the installation. */
export function PolicySection(): ReactNode {
  const mayChange = useMay()('updateSignInPolicy');
  const policy = useQuery({
    queryKey: KEY,
    queryFn: ({ signal }) => call('getSignInPolicy', { signal }),
    enabled: mayChange,
    retry: false,
  });
  return policy.data ? <State policy={policy.data} /> : null;
}

function State({ policy }: { policy: SignInPolicy }): ReactNode {
  // The policy is read again while the dialog asks about this one.
  const [asked, setAsked] = useState<SignInPolicy | null>(null);
  const close = (): void => setAsked(null);
  const { second_factor_required: isRequired, members_without_second_factor: without } = policy;
  return (
    <>
      <Card
        title="Second factor"
        about={
          <>
            {isRequired
              ? 'Every member needs an authenticator app or a passkey.'
              : 'An authenticator app or a passkey is optional.'}{' '}
            {without > 0 && (
              <span className="whitespace-nowrap text-text">
                {without === 1 ? '1 member has none.' : `${without} members have none.`}
              </span>
            )}
          </>
        }
        actions={
          <Button size="small" onClick={() => setAsked(policy)}>
            {isRequired ? 'Make the second factor optional' : 'Require a second factor'}
          </Button>
        }
      />
      <Dialog
        isOpen={asked !== null}
        onClose={close}
        title={
          asked?.second_factor_required
            ? 'Make the second factor optional?'
            : 'Require a second factor?'
        }
      >
        {asked !== null && <ChangeForm policy={asked} onDone={close} />}
      </Dialog>
    </>
  );
}

function ChangeForm({ policy, onDone }: { policy: SignInPolicy; onDone: () => void }): ReactNode {
  const cache = useQueryClient();
  const isRequired = policy.second_factor_required;
  const body = { second_factor_required: !isRequired };
  return (
    <SharedAction
      action={isRequired ? 'Make optional' : 'Require'}
      look={isRequired ? 'danger' : 'primary'}
      objects={[policy]}
      of={() => ({ action: 'updateSignInPolicy' })}
      changes={{
        second_factor_required: ['Second factor', (is) => (is ? 'required' : 'optional')],
        second_factor_required_at: [
          'Required since',
          (at) => (at === null ? 'never' : absoluteTime(at)),
        ],
      }}
      act={(_, headers) => call('updateSignInPolicy', { body, headers })}
      read={() => call('getSignInPolicy')}
      isDone={(stored) => stored.second_factor_required !== isRequired}
      onDone={async () => {
        await cache.invalidateQueries({ queryKey: KEY });
        onDone();
      }}
    >
      <p>
        {isRequired
          ? 'Members may then switch theirs off.'
          : 'Members without one are signed out, and set it up at their next sign-in.'}
      </p>
    </SharedAction>
  );
}
