/** The only page of a member without a second factor, while the installation requires one. */
import { useQuery, useQueryClient } from '@tanstack/react-query';
import { useNavigate } from '@tanstack/react-router';
import { type ReactNode, useEffect } from 'react';
import { sessionQuery, signOut } from '../../api/session.ts';
import { Button } from '../../ui/button.tsx';
import { Passkeys } from './passkeys.tsx';
import { SecondFactor } from './second-factor.tsx';

export function Enrolment(): ReactNode {
  const cache = useQueryClient();
  const navigate = useNavigate();
  const { data: session } = useQuery(sessionQuery);
  const mustEnrol = session?.must_enrol;
  useEffect(() => {
    document.title = 'Second factor · Letterhaus';
    if (mustEnrol === false) void navigate({ to: '/' });
  }, [mustEnrol, navigate]);
  const leave = async (): Promise<void> => {
    await signOut();
    cache.clear();
    await navigate({ to: '/sign-in' });
  };
  return (
    <main className="mx-auto max-w-2xl py-10">
      <div className="space-y-2 px-4 pb-4">
        <h1 className="text-xl font-semibold">Set up a second factor</h1>
        <p className="text-muted">
          This installation requires one of every member. Switch on an authenticator app, or add a
          passkey, to continue.
        </p>
      </div>
      <SecondFactor />
      <Passkeys />
      <div className="p-4">
        <Button onClick={() => void leave()}>Sign out</Button>
      </div>
    </main>
  );
}
