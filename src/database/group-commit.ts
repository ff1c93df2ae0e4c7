/**
 * Group commit: items that arrive while a batch commits form the next batch.
 *
 * One fsync commits many items: without load nothing waits, and under load batches are full. A minimum pace prevents
 * many small batches.
 */
import { MIB } from '../lib/units.ts';

/** More items per batch only add latency (measured). */
const BATCH_ITEMS_MAX = 64;
const BATCH_BYTES_MAX = 8 * MIB;
/** Size of an item that shares its batch with no other. */
const OWN_BATCH_BYTES = BATCH_BYTES_MAX + 1;

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
  /** Items with equal keys never share a batch, except when the key is null. */
  exclusiveKey?: (item: Item) => string | null;
  needsOwnBatch?: (item: Item) => boolean;
  concurrency?: number;
  /**
   * Minimum time between the starts of two batches, unless the second is full. A statement costs as much as a dozen
   * items, so small batches waste time. Without load nothing waits.
   */
  paceMs?: number;
};

type QueuedItem<Item, Result> = {
  item: Item;
  bytes: number;
  needsOwnBatch: boolean;
  resolve: (result: Result | Promise<Result>) => void;
  reject: (error: unknown) => void;
};

export class GroupCommit<Item, Result> {
  readonly #options: GroupCommitOptions<Item, Result>;
  #queue: QueuedItem<Item, Result>[] = [];
  #runningBatches = 0;
  #isScheduled = false;
  #paceTimer: NodeJS.Timeout | undefined;
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
      this.#queue.push({ item, bytes, needsOwnBatch, resolve, reject });
      this.#schedule();
    });
  }

  rejectQueued(error: unknown): void {
    const rejected = this.#queue;
    this.#queue = [];
    this.#subtractPending(rejected);
    for (const item of rejected) item.reject(error);
  }

  /**
   * Starts a batch after this turn of the event loop, so that all requests just read share it. `paceMs` may delay it.
   */
  #schedule(): void {
    if (this.#isScheduled || this.#queue.length === 0) return;
    if (this.#runningBatches >= (this.#options.concurrency ?? 1)) return;
    const isFull = this.#queue.length >= BATCH_ITEMS_MAX || this.#queue[0]!.needsOwnBatch;
    if (this.#paceTimer !== undefined && !isFull) return;
    this.#isScheduled = true;
    setImmediate(() => {
      this.#isScheduled = false;
      if (this.#queue.length === 0) return;
      this.#startPaceTimer();
      void this.#run(this.#takeBatch());
    });
  }

  #startPaceTimer(): void {
    if (this.#options.paceMs === undefined) return;
    clearTimeout(this.#paceTimer);
    this.#paceTimer = setTimeout(() => {
      this.#paceTimer = undefined;
      this.#schedule();
    }, this.#options.paceMs);
  }

  #takeBatch(): QueuedItem<Item, Result>[] {
    const batch: QueuedItem<Item, Result>[] = [];
    const excluded: QueuedItem<Item, Result>[] = [];
    const keys = new Set<string>();
    let bytes = 0;
    let index = 0;
    for (; index < this.#queue.length && batch.length < BATCH_ITEMS_MAX; index += 1) {
      const queued = this.#queue[index]!;
      const countedBytes = queued.needsOwnBatch ? OWN_BATCH_BYTES : queued.bytes;
      if (batch.length > 0 && bytes + countedBytes > BATCH_BYTES_MAX) break;
      const key = this.#options.exclusiveKey?.(queued.item) ?? null;
      if (key !== null && keys.has(key)) {
        excluded.push(queued);
        continue;
      }
      if (key !== null) keys.add(key);
      bytes += countedBytes;
      batch.push(queued);
    }
    this.#queue = [...excluded, ...this.#queue.slice(index)];
    return batch;
  }

  async #run(batch: QueuedItem<Item, Result>[]): Promise<void> {
    this.#runningBatches += 1;
    this.#schedule();
    try {
      await this.#commitBatch(batch);
    } finally {
      this.#runningBatches -= 1;
      this.#subtractPending(batch);
      this.#schedule();
    }
  }

  #subtractPending(ended: readonly QueuedItem<Item, Result>[]): void {
    this.pendingItems -= ended.length;
    for (const { bytes } of ended) this.pendingBytes -= bytes;
  }

  async #commitBatch(batch: QueuedItem<Item, Result>[]): Promise<void> {
    try {
      const results = await this.#options.commit(batch.map((queued) => queued.item));
      if (results.length !== batch.length) return rejectMismatch(batch, results.length);
      batch.forEach((queued, index) => queued.resolve(results[index]!));
    } catch (error) {
      // Retries each item separately, so that an item that the database refuses does not fail the others.
      if (batch.length > 1 && this.#options.mayTryOneByOne(error)) {
        for (const queued of batch) await this.#commitBatch([queued]);
      } else {
        for (const queued of batch) queued.reject(error);
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
  resultCount: number,
): void {
  const error = new Error(
    `a batch of ${batch.length} items was committed with ${resultCount} results`,
  );
  for (const item of batch) item.reject(error);
}
