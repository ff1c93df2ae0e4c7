/**
 * Group commit: items that arrive while a batch commits form the next batch.
 *
 * One fsync commits many items: without load nothing waits, and under load batches are full. A minimum pace prevents
 * many small batches.
 */

/** More items per batch only add latency (measured). */
const BATCH_ITEMS_MAX = 64;
const BATCH_BYTES_MAX = 8 * 1024 * 1024;
/** Size of an item that shares its batch with no other. */
const BATCH_FULL = BATCH_BYTES_MAX + 1;

export type GroupCommitOptions<Item, Result> = {
  /**
   * Commits all items or none, and returns one result per item, in order. The next batch does not wait for a result
   * that is a promise.
   */
  commit: (items: readonly Item[]) => Promise<(Result | Promise<Result>)[]>;
  sizeBytes: (item: Item) => number;
  /**
   * Whether the items of a failed batch may be retried one by one. False for an error after which the batch may have
   * been committed: its items would be committed twice.
   */
  mayTryOneByOne: (error: unknown) => boolean;
  /** Items with equal keys never share a batch; null: no restriction. */
  exclusiveKey?: (item: Item) => string | null;
  needsOwnBatch?: (item: Item) => boolean;
  concurrency?: number;
  /**
   * Minimum time between the starts of two batches, unless the second is full. A statement costs as much as a dozen
   * items, so small batches waste time. Without load nothing waits.
   */
  paceMs?: number;
};

type Waiting<Item, Result> = {
  item: Item;
  bytes: number;
  needsOwnBatch: boolean;
  resolve: (result: Result | Promise<Result>) => void;
  reject: (error: unknown) => void;
};

export class GroupCommit<Item, Result> {
  readonly #options: GroupCommitOptions<Item, Result>;
  #waiting: Waiting<Item, Result>[] = [];
  #underWay = 0;
  #isDue = false;
  #pacing: NodeJS.Timeout | undefined;
  /** Items without a result, and their bytes: for back-pressure. */
  pendingItems = 0;
  pendingBytes = 0;

  constructor(options: GroupCommitOptions<Item, Result>) {
    this.#options = options;
  }

  /** Resolves when the item's batch is committed. Rejects with the error that `commit` has for it. */
  add(item: Item): Promise<Result> {
    const bytes = this.#options.sizeBytes(item);
    const needsOwnBatch = this.#options.needsOwnBatch?.(item) ?? false;
    this.pendingItems += 1;
    this.pendingBytes += bytes;
    return new Promise<Result>((resolve, reject) => {
      this.#waiting.push({ item, bytes, needsOwnBatch, resolve, reject });
      this.#schedule();
    });
  }

  rejectWaiting(error: unknown): void {
    const rejected = this.#waiting;
    this.#waiting = [];
    this.#forget(rejected);
    for (const waiting of rejected) waiting.reject(error);
  }

  /**
   * Starts a batch after this turn of the event loop, so that all requests just read share it. `paceMs` may delay it.
   */
  #schedule(): void {
    if (this.#isDue || this.#waiting.length === 0) return;
    if (this.#underWay >= (this.#options.concurrency ?? 1)) return;
    const isFull = this.#waiting.length >= BATCH_ITEMS_MAX || this.#waiting[0]!.needsOwnBatch;
    if (this.#pacing !== undefined && !isFull) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      if (this.#waiting.length === 0) return;
      this.#pace();
      void this.#run(this.#takeBatch());
    });
  }

  #pace(): void {
    if (this.#options.paceMs === undefined) return;
    clearTimeout(this.#pacing);
    this.#pacing = setTimeout(() => {
      this.#pacing = undefined;
      this.#schedule();
    }, this.#options.paceMs);
  }

  #takeBatch(): Waiting<Item, Result>[] {
    const batch: Waiting<Item, Result>[] = [];
    const later: Waiting<Item, Result>[] = [];
    const keys = new Set<string>();
    let bytes = 0;
    let index = 0;
    for (; index < this.#waiting.length && batch.length < BATCH_ITEMS_MAX; index += 1) {
      const waiting = this.#waiting[index]!;
      const takesBytes = waiting.needsOwnBatch ? BATCH_FULL : waiting.bytes;
      if (batch.length > 0 && bytes + takesBytes > BATCH_BYTES_MAX) break;
      const key = this.#options.exclusiveKey?.(waiting.item) ?? null;
      if (key !== null && keys.has(key)) {
        later.push(waiting);
        continue;
      }
      if (key !== null) keys.add(key);
      bytes += takesBytes;
      batch.push(waiting);
    }
    this.#waiting = [...later, ...this.#waiting.slice(index)];
    return batch;
  }

  async #run(batch: Waiting<Item, Result>[]): Promise<void> {
    this.#underWay += 1;
    this.#schedule();
    try {
      await this.#commitBatch(batch);
    } finally {
      this.#underWay -= 1;
      this.#forget(batch);
      this.#schedule();
    }
  }

  #forget(answered: readonly Waiting<Item, Result>[]): void {
    this.pendingItems -= answered.length;
    for (const { bytes } of answered) this.pendingBytes -= bytes;
  }

  async #commitBatch(batch: Waiting<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.commit(batch.map((waiting) => waiting.item));
      if (results.length !== batch.length) return rejectMismatch(batch, results.length);
      batch.forEach((waiting, index) => waiting.resolve(results[index]!));
    } catch (error) {
      // Retries each item separately, so that an item that the database refuses does not fail the others.
      if (batch.length > 1 && this.#options.mayTryOneByOne(error)) {
        for (const waiting of batch) await this.#commitBatch([waiting]);
      } else {
        for (const waiting of batch) waiting.reject(error);
      }
    }
  }
}

/**
 * Fails a batch whose results cannot be matched to its items. The batch is committed, so it is not repeated. Callers
 * look up its rows, as for any item with an unknown result.
 */
function rejectMismatch(
  batch: readonly { reject: (error: unknown) => void }[],
  results: number,
): void {
  const error = new Error(`a batch of ${batch.length} items was committed with ${results} results`);
  for (const waiting of batch) waiting.reject(error);
}
