/** One recipient that this worker holds, and how a stop ends the attempts that are under way. */
import type { ClaimedRecipient } from '../store/queue.ts';
import type { StoredMessage } from '../store/emails.ts';

export type Delivery = Pick<
  ClaimedRecipient,
  'position' | 'claim' | 'attempts' | 'destination' | 'address'
> & {
  message: StoredMessage;
  /** Its provider (fair-queue.ts); changes when the destination's mail servers become known. */
  provider: string;
  /** The lease under which it is held; an outcome under another lease is fenced off. */
  holder: string;
  /** On the monotonic clock: when it came into memory, and when it must have been delivered. */
  heldSinceMs: number;
  expiresAtMs: number;
  /** Determines its place in its tenant queue, on the database's clock. */
  dueAtMs: number;
  /** Its part of the memory that its message uses; a whole number. */
  weightBytes: number;
  suppressed: boolean;
  domainDeleted: boolean;
  domainUnverified: boolean;
};

/** Approximate memory that a message uses. */
export function sizeOf(message: StoredMessage): number {
  const attachments = message.attachments.reduce((sum, one) => sum + one.content.length, 0);
  const raw = message.written?.raw.length ?? 0;
  return 1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachments + raw;
}

type CutOff = 'unsent' | 'in_doubt';

/**
 * How a stop ends the attempts under way. First it ends those that have not written the final dot: the
 * receiver does not have the message, and the next start sends it. Then it waits for the replies to
 * the others; those without a reply end in doubt.
 */
export class Cutoff {
  readonly #listeners = new Set<(all: boolean) => void>();
  #stage: 'none' | 'unsent' | 'all' = 'none';

  /** No final dot is written any more. */
  get isClosed(): boolean {
    return this.#stage !== 'none';
  }

  /** Ends the attempts that have not written the final dot. */
  cutUnsent(): void {
    this.#stage = 'unsent';
    for (const listener of this.#listeners) listener(false);
  }

  cutAll(): void {
    this.#stage = 'all';
    for (const listener of this.#listeners) listener(true);
  }

  /** The result of the attempt, or how it was cut off. */
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
