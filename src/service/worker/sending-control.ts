/**
 * Starts and stops sending in a worker: mail, webhooks, and the mail of the service itself. Nothing is sent while the
 * installation is on hold, and while the database is moved (move/move-watch.ts).
 */
import type { WorkerPart } from './worker-messages.ts';

export type SendingControl = {
  readonly isOnHold: boolean;
  /** Sends mail and webhooks, unless the installation is on hold. */
  startUnlessOnHold(): void;
  /** Sends, because the hold has ended. */
  endHold(): void;
  pause(isPaused: boolean): void;
};

export type MailLoop = { start(): void; stop(): Promise<void> };

type PausableLoop = { start(): void; pause(): Promise<void> };

type Senders = {
  dispatcher: PausableLoop;
  webhooks: PausableLoop;
  /** Loops that send mail of the service itself, for example notices. */
  mailing: readonly MailLoop[];
};

export function createSendingControl(
  { parts, isOnHold }: { parts: readonly WorkerPart[]; isOnHold: boolean },
  { dispatcher, webhooks, mailing }: Senders,
): SendingControl {
  let isHolding = isOnHold;
  let isPaused = false;
  let isBegun = false;
  /** Runs one change after the other, because a pause takes seconds. */
  let changing: Promise<void> = Promise.resolve();
  const start = (): void => {
    isBegun = true;
    if (isPaused) return;
    if (parts.includes('delivery')) {
      dispatcher.start();
      for (const one of mailing) one.start();
    }
    if (parts.includes('webhooks')) webhooks.start();
  };
  const pause = async (): Promise<void> => {
    if (!isBegun) return;
    await stopMailing(mailing);
    await Promise.all([dispatcher.pause(), webhooks.pause()]);
  };
  const resume = (): void => {
    if (isBegun) start();
  };
  return {
    get isOnHold() {
      return isHolding;
    },
    startUnlessOnHold: () => {
      if (!isHolding) start();
    },
    endHold: () => {
      if (isHolding) start();
      isHolding = false;
    },
    pause: (wanted) => {
      if (wanted === isPaused) return;
      isPaused = wanted;
      changing = changing.then(wanted ? pause : resume);
    },
  };
}

export async function stopMailing(mailing: readonly MailLoop[]): Promise<void> {
  await Promise.all(mailing.map((one) => one.stop()));
}
