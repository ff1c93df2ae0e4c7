/**
 * One recipient that this worker holds, on its way through delivery/.
 */
import type { ClaimedRecipient } from '../store/queue-claims.ts';
import type { StoredMessage } from '../store/emails.ts';

export type Delivery = Pick<
  ClaimedRecipient,
  'position' | 'claim' | 'attempts' | 'destination' | 'address'
> & {
  message: StoredMessage;
  /** Whose turn and trouble it shares; changes when the destination's provider becomes known. */
  provider: string;
  /** The lease under which it is held; another one's outcome would be fenced off. */
  holder: string;
  /** On the monotonic clock: when it came into memory, and when it must have been delivered. */
  heldSinceMs: number;
  expiresAtMs: number;
  /** Its age in its provider, on the database's clock. */
  dueAtMs: number;
  /** Its part of the memory that its message takes. */
  weightBytes: number;
  suppressed: boolean;
  domainDeleted: boolean;
  domainUnverified: boolean;
};

/** Memory that a message takes while it is here, roughly. */
export function sizeOf(message: StoredMessage): number {
  const attachments = message.attachments.reduce((sum, one) => sum + one.content.length, 0);
  const raw = message.written?.raw.length ?? 0;
  return 1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachments + raw;
}

type CutOff = 'unsent' | 'in_doubt';

/**
 * How a stop reaches the attempts that are under way. First those are given up that have not
 * written their final dot: the receiver does not have the message, the next start sends it. Those
 * that have are waited for, and the last of them end in doubt.
 */
export class Cutoff {
  readonly #listeners = new Set<(all: boolean) => void>();
  #stage: 'none' | 'unsent' | 'all' = 'none';

  /** From here on no final dot is written. */
  get isClosed(): boolean {
    return this.#stage !== 'none';
  }

  /** Gives up what has not written its dot. */
  cutUnsent(): void {
    this.#stage = 'unsent';
    for (const listener of this.#listeners) listener(false);
  }

  cutAll(): void {
    this.#stage = 'all';
    for (const listener of this.#listeners) listener(true);
  }

  /** What comes of the attempt, or that it was cut off. */
  async unlessCut<Result>(
    attempt: Promise<Result>,
    hasWrittenDot: () => boolean,
  ): Promise<Result | CutOff> {
    const cut = Promise.withResolvers<CutOff>();
    const listener = (all: boolean): void => {
      if (!hasWrittenDot()) cut.resolve('unsent');
      else if (all) cut.resolve('in_doubt');
    };
    this.#listeners.add(listener);
    if (this.isClosed) listener(this.#stage === 'all');
    try {
      return await Promise.race([attempt, cut.promise]);
    } finally {
      this.#listeners.delete(listener);
    }
  }
}
