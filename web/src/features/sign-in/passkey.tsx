/** The button that signs in with a passkey. */
import { useQuery } from '@tanstack/react-query';
import { type ReactNode, useState } from 'react';
import { call } from '../../api/client.ts';
import { setupQuery } from '../../api/session.ts';
import { hasPasskeys, usePasskey } from '../../lib/passkey.ts';
import { Button } from '../../ui/button.tsx';
import { sentenceOf } from '../../ui/states.tsx';

/** Shows nothing where the browser has no passkeys for this address. */
export function PasskeyButton({ onSignedIn }: { onSignedIn: () => Promise<void> }): ReactNode {
  const { data: setup } = useQuery(setupQuery);
  const [failure, setFailure] = useState<string | null>(null);
  if (setup?.passkeys !== true || !hasPasskeys()) return null;
  const signIn = async (): Promise<void> => {
    setFailure(null);
    try {
      const request = await call('startPasskeySignIn');
      await call('signInWithPasskey', { body: await usePasskey(request) });
      await onSignedIn();
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  return (
    <div className="mt-4 space-y-4 border-t border-line pt-4">
      <Button className="w-full" onClick={() => void signIn()}>
        Sign in with a passkey
      </Button>
      {failure !== null && (
        <p role="alert" className="text-sm text-bad">
          {failure}
        </p>
      )}
    </div>
  );
}
