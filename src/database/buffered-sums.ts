/**
 * Sums in memory that are written every few seconds, so that counting never waits for the database. Sums that could not
 * be written are added to the next ones. A crash loses the last seconds. Used for reputation
 * (reputation/reputation-store.ts) and TLS results (delivery/route/tls-rules.ts).
 */

const WRITE_EVERY_MS = 5_000;
/** Limits memory while the database is unavailable; more kinds are then not counted. */
const KINDS_MAX = 20_000;

export type BufferedSumsOptions<Count> = {
  write: (counts: readonly Count[]) => Promise<void>;
  kindOf: (count: Count) => string;
  merge: (sum: Count, count: Count) => void;
};

export class BufferedSums<Count> {
  readonly #options: BufferedSumsOptions<Count>;
  #sums = new Map<string, Count>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: BufferedSumsOptions<Count>) {
    this.#options = options;
  }

  get size(): number {
    return this.#sums.size;
  }

  /**
   * Adds a count to the sum of its kind.
   * @returns whether it is the first of its kind
   */
  add(count: Count): boolean {
    this.#timer ??= setTimeout(() => void this.flush(), WRITE_EVERY_MS).unref();
    const key = this.#options.kindOf(count);
    const known = this.#sums.get(key);
    if (known !== undefined) this.#options.merge(known, count);
    else if (this.#sums.size < KINDS_MAX) this.#sums.set(key, count);
    return known === undefined;
  }

  /** Resolves when all counts so far were written, or when the attempt has failed. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#writeNow());
    return this.#writing;
  }

  async #writeNow(): Promise<void> {
    if (this.#sums.size === 0) return;
    const counts = [...this.#sums.values()];
    this.#sums = new Map();
    await this.#options.write(counts).catch(() => {
      for (const count of counts) this.add(count);
    });
  }
}
