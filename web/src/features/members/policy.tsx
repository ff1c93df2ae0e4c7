/** Whether every member needs a second factor. For owners of the installation. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import type { SignInPolicy } from '../../../../sdk/src/api.ts';
import { call } from '../../api/client.ts';
import { ActionForm } from '../../ui/action-form.tsx';
import { useMay } from '../../ui/allowed.tsx';
import { Button } from '../../ui/button.tsx';
import { Card } from '../../ui/card.tsx';
import { Dialog } from '../../ui/dialog.tsx';

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
  const cache = useQueryClient();
  const [isOpen, setOpen] = useState(false);
  const { second_factor_required: isRequired, members_without_second_factor: without } = policy;
  const change = async (): Promise<void> => {
    const body = { second_factor_required: !isRequired };
    try {
      await call('updateSignInPolicy', { body, headers: { 'if-match': policy.etag } });
    } finally {
      await cache.invalidateQueries({ queryKey: KEY });
    }
    setOpen(false);
  };
  const [title, action] = isRequired
    ? ['Make the second factor optional?', 'Make optional']
    : ['Require a second factor?', 'Require'];
  return (
    <>
      <Card
        title="Second factor"
        about={
          isRequired
            ? 'Every member needs an authenticator app or a passkey.'
            : 'Each member decides whether to have an authenticator app or a passkey.'
        }
        actions={
          <Button size="small" onClick={() => setOpen(true)}>
            {isRequired ? 'Make the second factor optional' : 'Require a second factor'}
          </Button>
        }
      >
        {without > 0 && (
          <p className="text-sm">
            {without === 1 ? '1 member has none.' : `${without} members have none.`}
          </p>
        )}
      </Card>
      <Dialog isOpen={isOpen} onClose={() => setOpen(false)} title={title}>
        <ActionForm action={action} look={isRequired ? 'danger' : 'primary'} send={change}>
          <p>
            {isRequired
              ? 'Members may then switch theirs off.'
              : 'Members without one are signed out, and set it up at their next sign-in.'}
          </p>
        </ActionForm>
      </Dialog>
    </>
  );
}
