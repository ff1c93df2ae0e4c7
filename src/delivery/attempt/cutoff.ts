/**
 * Ends the running attempts at a stop. First it ends those that have not sent the final dot: the server does not have
 * the message, and the next start sends it. Then it waits for the replies to the others. Those without a reply end in
 * doubt.
 */
import { LiveSet } from '../../lib/live-set.ts';

/** An attempt that was cut before it had a result. `given_up`: `Slots` ended it, because its budget was full. */
export type CutAttempt = 'unsent' | 'in_doubt' | 'given_up';

type RunningAttempt = {
  /** `includingSent`: ends the attempt even after its final dot. */
  cut: (options: { includingSent: boolean }) => void;
};

export class Cutoff {
  readonly #attempts = new LiveSet<RunningAttempt>();
  #stage: 'none' | 'unsent' | 'all' = 'none';

  get hasBegun(): boolean {
    return this.#stage !== 'none';
  }

  cutUnsent(): void {
    this.#stage = 'unsent';
    for (const attempt of this.#attempts) attempt.cut({ includingSent: false });
  }

  cutAll(): void {
    this.#stage = 'all';
    for (const attempt of this.#attempts) attempt.cut({ includingSent: true });
  }

  /** Returns the result of the attempt, or in which state the stop or `signal` cut it. */
  async untilCut<Result>(
    attempt: Promise<Result>,
    hasSentDot: () => boolean,
    signal?: AbortSignal,
  ): Promise<Result | CutAttempt> {
    const cut = Promise.withResolvers<CutAttempt>();
    const running: RunningAttempt = {
      cut: ({ includingSent }) => {
        if (!hasSentDot()) cut.resolve('unsent');
        else if (includingSent) cut.resolve('in_doubt');
      },
    };
    this.#attempts.add(running);
    if (this.hasBegun) running.cut({ includingSent: this.#stage === 'all' });
    const giveUp = (): void => {
      if (!hasSentDot()) cut.resolve('given_up');
    };
    signal?.addEventListener('abort', giveUp);
    if (signal?.aborted === true) giveUp();
    try {
      return await Promise.race([attempt, cut.promise]);
    } finally {
      this.#attempts.delete(running);
      signal?.removeEventListener('abort', giveUp);
    }
  }
}
