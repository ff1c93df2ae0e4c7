/**
 * Whether what is handed to the database gets through: asked before something is done that must be
 * written down afterwards. While it does not, the less is begun, the less a crash makes us repeat.
 * Asking costs nothing; time is looked at by one timer per batch.
 */

/** A commit that takes longer than this is stuck: a slow disk has done with it by then. */
const STUCK_AFTER_MS = 2_000;

export class Flow {
  /** Settled when the next batch is through; null: nothing is stuck. */
  #freed: PromiseWithResolvers<void> | null = null;
  #timer: NodeJS.Timeout | undefined;

  get isStuck(): boolean {
    return this.#freed !== null;
  }

  /** A batch is on its way. */
  begun(): void {
    this.#timer = setTimeout(() => this.stuck(), STUCK_AFTER_MS).unref();
  }

  /** It is certain that it takes a while: the database is away. */
  stuck(): void {
    this.#freed ??= Promise.withResolvers();
  }

  /** The batch was refused, and nothing gets through: until something does. */
  failed(): void {
    clearTimeout(this.#timer);
    this.stuck();
  }

  /** The batch is written, or nobody wants it any more. */
  through(): void {
    clearTimeout(this.#timer);
    this.#freed?.resolve();
    this.#freed = null;
  }

  /** @returns whether things move again within the time */
  async moves(withinMs: number): Promise<boolean> {
    if (this.#freed === null) return true;
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<false>((resolve) => {
      timer = setTimeout(resolve, withinMs, false).unref();
    });
    const moves = this.#freed.promise.then(() => true);
    return Promise.race([moves, late]).finally(() => clearTimeout(timer));
  }
}
