/**
 * How a stop reaches the attempts that are under way. First those are given up that have not
 * written their final dot: the receiver does not have the message, the next start sends it. Those
 * that have are waited for, and the last of them end in doubt.
 */

export type CutOff = 'unsent' | 'in_doubt';

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
