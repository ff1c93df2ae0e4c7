/** All dialogues of an email, rendered only while the browser prints: the page shows one at a time. */
import { type ReactNode, useEffect, useState } from 'react';
import { flushSync } from 'react-dom';
import type { Email, TimelineEvent } from '../../../../../sdk/src/api.ts';
import { absoluteTime } from '../../../lib/time.ts';
import { attemptsOf } from './attempts.ts';
import { Dialogue } from './dialogue-drawer.tsx';

export function PrintedDialogues(props: {
  email: Email;
  events: readonly TimelineEvent[];
}): ReactNode {
  const { email, events } = props;
  if (!usePrinting()) return null;
  return email.recipients.map(({ address }) =>
    attemptsOf(address, email, events).map((attempt) => (
      <section key={`${address} ${attempt.number}`} className="space-y-2 break-inside-avoid">
        <h2 className="font-semibold">
          {address}, attempt {attempt.number}, {absoluteTime(attempt.startedAt)}
        </h2>
        <Dialogue attempt={attempt} />
      </section>
    )),
  );
}

/** Returns true while the browser prints. It takes the page as it is when the event returns. */
function usePrinting(): boolean {
  const [isPrinting, setPrinting] = useState(false);
  useEffect(() => {
    const begin = (): void => flushSync(() => setPrinting(true));
    const end = (): void => setPrinting(false);
    window.addEventListener('beforeprint', begin);
    window.addEventListener('afterprint', end);
    return () => {
      window.removeEventListener('beforeprint', begin);
      window.removeEventListener('afterprint', end);
    };
  }, []);
  return isPrinting;
}
