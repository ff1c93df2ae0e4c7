/**
 * Group commit of outcomes under a lease, for deliveries of mail (settle-store.ts) and of webhooks
 * (webhooks/sending/webhook-outcomes.ts).
 *
 * Guarantee: an outcome is stored exactly once or fenced off: it counts only while its queue row has this lease and
 * this claim. While the database is unavailable the batch is repeated, which is safe because a second write is fenced
 * off. Outcomes that the database refuses are kept (unsettled.ts). A crash loses the outcomes in memory, and their
 * work is repeated. Senders therefore stop while `health` is stalled.
 */
import { DatabaseUnavailable, sqlStateOf, whenAvailable } from '../database/database.ts';
import { GroupCommit, type GroupCommitOptions } from '../database/group-commit.ts';
import { SettleHealth } from './settle-health.ts';
import {
  type Extent,
  isAssertion,
  isRowAtFault,
  type Settled,
  Unsettled,
  type UnsettledOptions,
} from './unsettled.ts';

/** The lease under which a batch is stored, and the extent of its outcomes. */
export type CommitContext = { leaseId: string; extent: Extent };

type OutcomeBatchesOptions<Item, Result> = Pick<
  UnsettledOptions<Item, Result>,
  'describe' | 'lockKeyOf' | 'onFailure' | 'log' | 'world'
> &
  Pick<GroupCommitOptions<Item, Result>, 'exclusiveKey' | 'paceMs'> & {
    /** null while there is no lease. Rows that were claimed under the last one belong to other workers. */
    leaseId: () => string | null;
    fencedResult: Result;
    /** The full path: stores a batch in one commit, or throws. @returns one result per item */
    commitFull: (batch: readonly Item[], context: CommitContext) => Promise<readonly Result[]>;
    /**
     * The fast path: stores the part of a batch that a cheaper statement can. `commitFull` gets the rest, and
     * everything after a failure.
     */
    commitFast?: (batch: readonly Item[], leaseId: string) => Promise<ReadonlyMap<Item, Result>>;
    /** Returns the item without the details that the database may refuse. */
    shorten: (item: Item, extent: Exclude<Extent, 'all'>) => Item;
    /** Called for each item once it is stored or fenced off. */
    onSettled?: (item: Item, result: Result) => void;
    itemBytes: number;
  };

const UNAVAILABLE_PAUSE_MS = 500;
const FAST_FAILURE_LOGGED_EVERY_MS = 60_000;

export class OutcomeBatches<Item, Result> {
  readonly health = new SettleHealth();
  readonly #options: OutcomeBatchesOptions<Item, Result>;
  readonly #commits: GroupCommit<Item, Settled<Result>>;
  readonly #unsettled: Unsettled<Item, Result>;
  #fastFailureLoggedAtMs = -Infinity;

  constructor(options: OutcomeBatchesOptions<Item, Result>) {
    const { itemBytes, onSettled = () => {} } = options;
    this.#options = options;
    this.#unsettled = new Unsettled({
      ...options,
      write: (batch, extent) => this.#runFullPath(batch, extent),
      onSettled,
      onChange: () => this.#updateHealth(),
    });
    this.#commits = new GroupCommit({
      ...options,
      commit: async (batch) => {
        this.health.batchStarted();
        const settled = await this.#settleBatch(batch);
        this.#updateHealth();
        for (const [index, result] of settled.entries()) {
          if (result !== 'kept') onSettled(batch[index]!, result);
        }
        return settled;
      },
      sizeBytes: () => itemBytes,
      mayTryOneByOne: () => false,
    });
  }

  /** Waits while the database is unavailable, and never rejects because of a database error. */
  settle(item: Item): Promise<Settled<Result>> {
    return this.#commits.add(item);
  }

  /** True while no work may start, because its outcome could not be stored. */
  get mustWait(): boolean {
    return this.#unsettled.mustWait;
  }

  /** Returns the kept outcomes. Their rows are leased to this worker although no attempt is under way. */
  kept(): Iterable<Item> {
    return this.#unsettled.items();
  }

  get keptCount(): number {
    return this.#unsettled.size;
  }

  /** Retries kept outcomes for up to `withinMs` and logs the rest. */
  stop(withinMs: number): Promise<void> {
    return this.#unsettled.stop(withinMs);
  }

  async #settleBatch(batch: readonly Item[]): Promise<Settled<Result>[]> {
    const { stored, error } = await this.#tryFastPath(batch);
    if (stored.size > 0) this.#unsettled.noteOthersStored();
    const remaining = batch.filter((item) => !stored.has(item));
    const settled = remaining.length === 0 ? [] : await this.#unsettled.settle(remaining);
    if (error !== null && !isExpected(error, settled.includes('kept'))) {
      this.#logFastPathFailure(error);
    }
    let next = 0;
    return batch.map((item) => (stored.has(item) ? stored.get(item)! : settled[next++]!));
  }

  /**
   * Stores nothing after any error: the fast path stores a batch completely or not at all. The full path then decides,
   * and fences off outcomes whose commit was not confirmed.
   */
  async #tryFastPath(
    batch: readonly Item[],
  ): Promise<{ stored: ReadonlyMap<Item, Result>; error: unknown }> {
    const { leaseId, commitFast } = this.#options;
    const current = leaseId();
    const nothing = new Map<Item, Result>();
    if (commitFast === undefined || current === null || this.mustWait) {
      return { stored: nothing, error: null };
    }
    try {
      return { stored: await commitFast(batch, current), error: null };
    } catch (error) {
      return { stored: nothing, error };
    }
  }

  /** Logs at most once a minute. The full path hides such errors at nearly twice the cost. */
  #logFastPathFailure(error: unknown): void {
    const { log, world } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs - this.#fastFailureLoggedAtMs < FAST_FAILURE_LOGGED_EVERY_MS) return;
    this.#fastFailureLoggedAtMs = nowMs;
    log.error(
      { err: error },
      'the fast path of settling failed; the full path stores the outcomes, which takes longer',
    );
  }

  #runFullPath(batch: readonly Item[], extent: Extent): Promise<readonly Result[]> {
    const { leaseId, fencedResult, shorten, commitFull } = this.#options;
    const items = extent === 'all' ? batch : batch.map((item) => shorten(item, extent));
    const attempt = async (): Promise<readonly Result[]> => {
      const current = leaseId();
      return current === null
        ? batch.map(() => fencedResult)
        : commitFull(items, { leaseId: current, extent });
    };
    const onFailure = () => this.health.markStalled();
    return whenAvailable(attempt, { pauseMs: UNAVAILABLE_PAUSE_MS, onFailure });
  }

  #updateHealth(): void {
    if (this.#unsettled.mustWait) this.health.batchRefused();
    else this.health.batchStored();
  }
}

/**
 * Returns whether an error of the fast path needs no attention. A lost connection and a refused row are expected:
 * the full path waits for the one and bisects the other. An assertion is expected only if the full path refuses an
 * outcome, too. Otherwise the rows are right, and the fast path is wrong.
 */
function isExpected(error: unknown, hasRefusedOutcome: boolean): boolean {
  if (error instanceof DatabaseUnavailable) return true;
  const sqlState = sqlStateOf(error);
  if (sqlState === null) return false;
  return isAssertion(sqlState) ? hasRefusedOutcome : isRowAtFault(sqlState);
}
