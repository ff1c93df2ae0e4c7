/**
 * Keeps outcomes of actions that cannot be undone (a completed SMTP transaction, a POST) while the database refuses
 * to store them.
 *
 * Guarantee: while this process lives, an outcome is stored or found to be fenced off. It is never dropped, and its
 * work is never repeated because a statement failed. A renamed column, a missing privilege, a failing check, a broken
 * index or a locked row must not cause delivered mail to be sent again.
 *
 * A failed batch is bisected: the valid outcomes are stored. The faulty ones are kept in memory and retried one at a
 * time, with waits from 0.5 s to 30 s. New work must wait (`mustWait`) when nothing can be stored for a reason
 * other than the rows of a few emails, or when too many outcomes are kept. The caller then starts no work with an
 * outcome to store, and one outcome is retried as a probe.
 *
 * Most rows fail because of a remote server's reply. If an outcome fails repeatedly while others are stored, or
 * because of its data, it is stored without details, then bare: status and event remain. Losing details of a delivery
 * is better than repeating it.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../lib/at-most.ts';
import type { World } from '../lib/world.ts';
import { isLockTimeout, sqlStateOf } from '../database/database.ts';

/** `kept`: the database refuses the outcome. It is stored later, and until then its row stays leased to this worker. */
export type Settled<Result> = Result | 'kept';

/**
 * The stored part of an outcome: all of it, all but the texts of the remote server, or only status and event.
 */
export type Extent = 'all' | 'without_details' | 'bare';

export type UnsettledOptions<Item, Result> = {
  /** Stores all items in one transaction, or throws. Waits while the database is unavailable. */
  write: (items: readonly Item[], extent: Extent) => Promise<readonly Result[]>;
  /** Identifies an outcome in the log, without content. */
  describe: (item: Item) => object;
  lockKeyOf: (item: Item) => string;
  onSettled: (item: Item, result: Result) => void;
  onChange?: () => void;
  onFailure?: (sqlState: string) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

type KeptOutcome<Item> = {
  item: Item;
  failures: number;
  sqlState: string;
  isLocked: boolean;
  storedBefore: number;
  dueAtMs: number;
};

/** The progress of a batch: stored outcomes and failed statements. */
type BatchProgress<Item, Result> = { results: Map<Item, Result>; failures: number };

const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 30_000;
/** New work must wait above this. An outcome takes a few kilobytes. */
const KEPT_MAX = 1_000;
/** Failed statements after which the rest of a batch is kept. Bisecting 64 takes 7 for the first outcome. */
const FAILED_STATEMENTS_MAX = 10;
const WITHOUT_DETAILS_AFTER_FAILURES = 4;
const BARE_AFTER_FAILURES = 6;
/** Data exceptions, integrity constraints, program limits, assertions: the row is probably at fault, not the schema. */
const ROW_FAULT = /^(22|23|54|P0004)/;
/** Emails in succession that may be at fault before the schema is assumed to be. */
const FAULTY_EMAILS_MAX = 3;
const LOGGED_AT_STOP_MAX = 50;
const STOP_PAUSE_MS = 250;

export const isRowAtFault = (sqlState: string): boolean => ROW_FAULT.test(sqlState);

/** Assertions of the statements (`assert_equal`). Only a bug or a row that was changed by hand violates one. */
export const isAssertion = (sqlState: string): boolean => sqlState === 'P0004';

export class Unsettled<Item, Result> {
  readonly #options: UnsettledOptions<Item, Result>;
  readonly #kept = new Map<Item, KeptOutcome<Item>>();
  #refusesEverything = false;
  #storedCount = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(options: UnsettledOptions<Item, Result>) {
    this.#options = options;
  }

  /** True while no work with an outcome to store may start. */
  get mustWait(): boolean {
    return this.#refusesEverything || this.#kept.size >= KEPT_MAX;
  }

  get size(): number {
    return this.#kept.size;
  }

  items(): Iterable<Item> {
    return this.#kept.keys();
  }

  /** Stores a batch. @returns one result per item */
  async settle(batch: readonly Item[]): Promise<Settled<Result>[]> {
    const results = new Map<Item, Result>();
    const waiting = this.#refusesEverything
      ? batch
      : batch.filter((item) => this.#isBehindLock(item));
    for (const item of waiting) this.#keep(item, null);
    const tried = waiting.length === 0 ? batch : batch.filter((item) => !this.#kept.has(item));
    if (tried.length > 0) {
      await this.#writeBisected(tried, { results, failures: 0 });
      if (results.size > 0) this.#noteStored();
      else this.#refusesEverything = !this.#areRowsAtFault();
      this.#options.onChange?.();
    }
    return batch.map((item) => results.get(item) ?? 'kept');
  }

  /** Called when the fast path has stored outcomes: refusals now are not a general failure. */
  noteOthersStored(): void {
    this.#noteStored();
  }

  /** Retries everything in every extent for up to `withinMs`, and logs the rest. */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#timer);
    await waitAtMost(withinMs, this.#retryAll(this.#options.world.monotonicMs() + withinMs));
    if (this.#kept.size === 0) return;
    const named = [...this.#kept.values()].slice(0, LOGGED_AT_STOP_MAX);
    this.#options.log.error(
      { unsettled: this.#kept.size, outcomes: named.map((one) => this.#logFieldsOf(one)) },
      'stopped with outcomes that could not be stored: their deliveries will be repeated',
    );
  }

  /**
   * Returns whether the rows of a few emails caused all failures since the last success. The next email is then
   * tried, because a worker with nothing else to store would wait for ever.
   */
  #areRowsAtFault(): boolean {
    const failing = [...this.#kept.values()].filter(
      ({ storedBefore }) => storedBefore === this.#storedCount,
    );
    const locks = new Set(failing.map(({ item }) => this.#options.lockKeyOf(item)));
    return (
      locks.size <= FAULTY_EMAILS_MAX && failing.every(({ sqlState }) => isRowAtFault(sqlState))
    );
  }

  #isBehindLock(item: Item): boolean {
    if (this.#kept.size === 0) return false;
    const lock = this.#options.lockKeyOf(item);
    return [...this.#kept.values()].some(
      (one) => one.isLocked && this.#options.lockKeyOf(one.item) === lock,
    );
  }

  async #writeBisected(
    part: readonly Item[],
    progress: BatchProgress<Item, Result>,
  ): Promise<void> {
    if (progress.results.size === 0 && progress.failures >= FAILED_STATEMENTS_MAX) {
      for (const item of part) this.#keep(item, null);
      return;
    }
    try {
      const stored = await this.#options.write(part, 'all');
      part.forEach((item, index) => progress.results.set(item, stored[index]!));
      return;
    } catch (error) {
      progress.failures += 1;
      if (part.length === 1) {
        this.#keep(part[0]!, error);
        return;
      }
    }
    const middle = Math.ceil(part.length / 2);
    await this.#writeBisected(part.slice(0, middle), progress);
    await this.#writeBisected(part.slice(middle), progress);
  }

  /** @param error null: no attempt was made */
  #keep(item: Item, error: unknown): void {
    const kept: KeptOutcome<Item> = {
      item,
      failures: 0,
      sqlState: '',
      isLocked: false,
      storedBefore: this.#storedCount,
      dueAtMs: this.#options.world.monotonicMs() + WAIT_FIRST_MS,
    };
    this.#kept.set(item, kept);
    if (error !== null) this.#noteFailure(kept, error);
    this.#schedule();
  }

  #noteFailure(kept: KeptOutcome<Item>, error: unknown): void {
    const { world, log, onFailure } = this.#options;
    kept.failures += 1;
    kept.sqlState = sqlStateOf(error) ?? 'none';
    kept.isLocked = isLockTimeout(error);
    const waitMs = Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** (kept.failures - 1));
    kept.dueAtMs = world.monotonicMs() + waitMs * (0.75 + world.random() / 2);
    onFailure?.(kept.sqlState);
    // Logs the 1st, 2nd, 4th, … failure, so that a broken schema does not fill the disk.
    if (Number.isInteger(Math.log2(kept.failures))) {
      log.error(
        { ...this.#logFieldsOf(kept), retry_in_ms: Math.round(kept.dueAtMs - world.monotonicMs()) },
        'an outcome could not be stored; this worker keeps and retries it, and does not repeat the delivery',
      );
    }
  }

  #logFieldsOf({ item, sqlState, failures }: KeptOutcome<Item>): object {
    return { ...this.#options.describe(item), sqlstate: sqlState, failures };
  }

  #noteStored(): void {
    this.#storedCount += 1;
    if (!this.#refusesEverything) return;
    this.#refusesEverything = false;
    for (const kept of this.#kept.values()) kept.dueAtMs = 0;
    this.#schedule();
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#kept.size === 0 || this.#isStopping) return;
    const dueAtMs = Math.min(...[...this.#kept.values()].map((one) => one.dueAtMs));
    const waitMs = Math.max(0, dueAtMs - this.#options.world.monotonicMs());
    this.#timer = setTimeout(() => {
      this.#round = this.#round.then(() => this.#retryDue()).finally(() => this.#schedule());
    }, waitMs).unref();
  }

  async #retryDue(): Promise<void> {
    const nowMs = this.#options.world.monotonicMs();
    const due = [...this.#kept.values()].filter(({ dueAtMs }) => dueAtMs <= nowMs);
    for (const kept of due.toSorted((one, other) => one.dueAtMs - other.dueAtMs)) {
      if (this.#isStopping) return;
      await this.#retry(kept);
      if (this.#refusesEverything) return;
    }
  }

  async #retryAll(untilMs: number): Promise<void> {
    await this.#round;
    while (this.#kept.size > 0 && this.#options.world.monotonicMs() < untilMs) {
      for (const kept of this.#kept.values()) await this.#retry(kept);
      if (this.#kept.size > 0) await new Promise((resolve) => setTimeout(resolve, STOP_PAUSE_MS));
    }
  }

  async #retry(kept: KeptOutcome<Item>): Promise<void> {
    const { write, onSettled, onChange, log } = this.#options;
    let failure: unknown;
    for (const extent of this.#extentsFor(kept)) {
      try {
        const [result] = await write([kept.item], extent);
        this.#kept.delete(kept.item);
        this.#noteStored();
        log.warn(
          { ...this.#logFieldsOf(kept), extent },
          'an outcome that the database had refused is stored',
        );
        onSettled(kept.item, result!);
        onChange?.();
        return;
      } catch (error) {
        // Reports the error of the full extent, because a reduced one may fail for another reason.
        failure ??= error;
      }
    }
    this.#noteFailure(kept, failure);
  }

  #extentsFor({ failures, sqlState, isLocked, storedBefore }: KeptOutcome<Item>): Extent[] {
    const mayShrink = isRowAtFault(sqlState) || this.#storedCount > storedBefore;
    if (isLocked || !(mayShrink || this.#isStopping)) return ['all'];
    if (failures >= BARE_AFTER_FAILURES || this.#isStopping) {
      return ['all', 'without_details', 'bare'];
    }
    return failures >= WITHOUT_DETAILS_AFTER_FAILURES ? ['all', 'without_details'] : ['all'];
  }
}
