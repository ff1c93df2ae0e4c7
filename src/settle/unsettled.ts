/**
 * Keeps outcomes of actions that cannot be undone (a completed SMTP transaction, a POST) while the
 * database refuses to store them.
 *
 * Guarantee: as long as this process lives, an outcome is written or found to be fenced off. It is never
 * dropped, and its work is never repeated because a statement failed: a renamed column, a missing
 * privilege, a failing check, a broken index or a locked row must not cause delivered mail to be sent
 * again.
 *
 * A failed batch is halved until the outcomes at fault are isolated; the others are written. Those at fault
 * are kept in memory and retried one at a time, with waits from 0.5 s to 30 s. When nothing can be written
 * for a reason that is not in the rows of a few emails, or too many outcomes are kept, the store is
 * blocked: the caller starts no work with an outcome to write, and one outcome is retried as a probe.
 *
 * Most rows fail because of a remote server's reply. So an outcome that fails repeatedly while others are
 * written, or because of its data, is written without details, then bare: status and event are kept.
 * Losing details of a delivery is better than repeating it.
 */
import type { Logger } from 'pino';
import { atMost } from '../lib/at-most.ts';
import type { World } from '../lib/world.ts';
import { isLockTimeout, sqlStateOf } from '../database/database.ts';

export type Extent = 'all' | 'without_details' | 'bare';

export type UnsettledOptions<Item, Result> = {
  /** Writes all items in one transaction, or throws. Waits while the database is unavailable. */
  write: (items: readonly Item[], extent: Extent) => Promise<readonly Result[]>;
  /** Identifies an outcome in the log, without content. */
  describe: (item: Item) => object;
  /** Equal for items that wait for the same row lock. */
  lockOf: (item: Item) => string;
  /** Called when a kept outcome was written or fenced off. */
  onSettled: (item: Item, result: Result) => void;
  onChange?: () => void;
  onFailure?: (sqlState: string) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

type Kept<Item> = {
  item: Item;
  failures: number;
  sqlState: string;
  isLocked: boolean;
  writtenBefore: number;
  dueAtMs: number;
};

/** The progress of a batch: written outcomes and failed statements. */
type Course<Item, Result> = { results: Map<Item, Result>; failures: number };

const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 30_000;
/** Above this the store is blocked. A few kilobytes each. */
const KEPT_MAX = 1_000;
/** The number of failed statements after which a batch is given up. Halving 64 takes 7 for the first. */
const FAILED_STATEMENTS_MAX = 10;
const SHORTER_AFTER_FAILURES = 4;
const BARE_AFTER_FAILURES = 6;
/** Data exceptions, integrity constraints, program limits, assertions: probably the row, not the schema. */
const OWN_FAULT = /^(22|23|54|P0004)/;
/** The number of emails in a row that may be at fault before the schema is assumed to be. */
const AT_FAULT_MAX = 3;
const NAMED_AT_STOP_MAX = 50;
const STOP_PAUSE_MS = 250;

export class Unsettled<Item, Result> {
  readonly #options: UnsettledOptions<Item, Result>;
  readonly #kept = new Map<Item, Kept<Item>>();
  #nothingGetsThrough = false;
  #writtenCount = 0;
  #timer: NodeJS.Timeout | undefined;
  #round: Promise<void> = Promise.resolve();
  #isStopping = false;

  constructor(options: UnsettledOptions<Item, Result>) {
    this.#options = options;
  }

  /** Whether no work with an outcome to write may start. */
  get isBlocked(): boolean {
    return this.#nothingGetsThrough || this.#kept.size >= KEPT_MAX;
  }

  get size(): number {
    return this.#kept.size;
  }

  items(): Iterable<Item> {
    return this.#kept.keys();
  }

  /** Writes a batch. @returns one result per item; `kept`: it is written later */
  async settle(batch: readonly Item[]): Promise<(Result | 'kept')[]> {
    const results = new Map<Item, Result>();
    const waiting = this.#nothingGetsThrough ? batch : batch.filter((item) => this.#waits(item));
    for (const item of waiting) this.#keep(item, null);
    const tried = waiting.length === 0 ? batch : batch.filter((item) => !this.#kept.has(item));
    if (tried.length > 0) {
      await this.#writeApart(tried, { results, failures: 0 });
      if (results.size > 0) this.#wroteSome();
      else this.#nothingGetsThrough = !this.#areRowsAtFault();
      this.#options.onChange?.();
    }
    return batch.map((item) => results.get(item) ?? 'kept');
  }

  /** Outcomes were written without this: what is refused now is not refused because nothing can be written. */
  othersWritten(): void {
    this.#wroteSome();
  }

  /** Retries everything in every extent for up to `withinMs`, and logs what is left. */
  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true;
    clearTimeout(this.#timer);
    await atMost(withinMs, this.#writeAll(this.#options.world.monotonicMs() + withinMs));
    if (this.#kept.size === 0) return;
    const named = [...this.#kept.values()].slice(0, NAMED_AT_STOP_MAX);
    this.#options.log.error(
      { unsettled: this.#kept.size, outcomes: named.map((one) => this.#facts(one)) },
      'stopped with outcomes that could not be written: their deliveries will be repeated',
    );
  }

  /**
   * Whether all failures since the last successful write are due to the rows of a few emails. Then the next
   * email is tried: otherwise a worker with nothing else to write would remain blocked.
   */
  #areRowsAtFault(): boolean {
    const failing = [...this.#kept.values()].filter(
      ({ writtenBefore }) => writtenBefore === this.#writtenCount,
    );
    const locks = new Set(failing.map(({ item }) => this.#options.lockOf(item)));
    return locks.size <= AT_FAULT_MAX && failing.every(({ sqlState }) => OWN_FAULT.test(sqlState));
  }

  /** Whether another kept outcome waits for the same lock. */
  #waits(item: Item): boolean {
    if (this.#kept.size === 0) return false;
    const lock = this.#options.lockOf(item);
    return [...this.#kept.values()].some(
      (one) => one.isLocked && this.#options.lockOf(one.item) === lock,
    );
  }

  async #writeApart(part: readonly Item[], course: Course<Item, Result>): Promise<void> {
    if (course.results.size === 0 && course.failures >= FAILED_STATEMENTS_MAX) {
      for (const item of part) this.#keep(item, null);
      return;
    }
    try {
      const written = await this.#options.write(part, 'all');
      part.forEach((item, index) => course.results.set(item, written[index]!));
      return;
    } catch (error) {
      course.failures += 1;
      if (part.length === 1) {
        this.#keep(part[0]!, error);
        return;
      }
    }
    const middle = Math.ceil(part.length / 2);
    await this.#writeApart(part.slice(0, middle), course);
    await this.#writeApart(part.slice(middle), course);
  }

  /** @param error null: no attempt was made */
  #keep(item: Item, error: unknown): void {
    const kept: Kept<Item> = {
      item,
      failures: 0,
      sqlState: '',
      isLocked: false,
      writtenBefore: this.#writtenCount,
      dueAtMs: this.#options.world.monotonicMs() + WAIT_FIRST_MS,
    };
    this.#kept.set(item, kept);
    if (error !== null) this.#failed(kept, error);
    this.#schedule();
  }

  #failed(kept: Kept<Item>, error: unknown): void {
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
        { ...this.#facts(kept), retry_in_ms: Math.round(kept.dueAtMs - world.monotonicMs()) },
        'an outcome could not be written; it is kept and retried; its delivery is not repeated',
      );
    }
  }

  #facts({ item, sqlState, failures }: Kept<Item>): object {
    return { ...this.#options.describe(item), sqlstate: sqlState, failures };
  }

  #wroteSome(): void {
    this.#writtenCount += 1;
    if (!this.#nothingGetsThrough) return;
    this.#nothingGetsThrough = false;
    for (const kept of this.#kept.values()) kept.dueAtMs = 0;
    this.#schedule();
  }

  #schedule(): void {
    clearTimeout(this.#timer);
    if (this.#kept.size === 0 || this.#isStopping) return;
    const dueAtMs = Math.min(...[...this.#kept.values()].map((one) => one.dueAtMs));
    const waitMs = Math.max(0, dueAtMs - this.#options.world.monotonicMs());
    this.#timer = setTimeout(() => {
      this.#round = this.#round.then(() => this.#tryDue()).finally(() => this.#schedule());
    }, waitMs).unref();
  }

  async #tryDue(): Promise<void> {
    const nowMs = this.#options.world.monotonicMs();
    const due = [...this.#kept.values()].filter(({ dueAtMs }) => dueAtMs <= nowMs);
    for (const kept of due.toSorted((one, other) => one.dueAtMs - other.dueAtMs)) {
      if (this.#isStopping) return;
      await this.#tryAgain(kept);
      // The probe failed.
      if (this.#nothingGetsThrough) return;
    }
  }

  async #writeAll(untilMs: number): Promise<void> {
    await this.#round;
    while (this.#kept.size > 0 && this.#options.world.monotonicMs() < untilMs) {
      for (const kept of this.#kept.values()) await this.#tryAgain(kept);
      if (this.#kept.size > 0) await new Promise((resolve) => setTimeout(resolve, STOP_PAUSE_MS));
    }
  }

  async #tryAgain(kept: Kept<Item>): Promise<void> {
    const { write, onSettled, onChange, log } = this.#options;
    let failure: unknown;
    for (const extent of this.#extents(kept)) {
      try {
        const [result] = await write([kept.item], extent);
        this.#kept.delete(kept.item);
        this.#wroteSome();
        log.warn(
          { ...this.#facts(kept), extent },
          'an outcome that the database had refused is written',
        );
        onSettled(kept.item, result!);
        onChange?.();
        return;
      } catch (error) {
        // The error of the full extent, because a reduced one may fail for another reason.
        failure ??= error;
      }
    }
    this.#failed(kept, failure);
  }

  #extents({ failures, sqlState, isLocked, writtenBefore }: Kept<Item>): Extent[] {
    const mayShrink = OWN_FAULT.test(sqlState) || this.#writtenCount > writtenBefore;
    if (isLocked || !(mayShrink || this.#isStopping)) return ['all'];
    if (failures >= BARE_AFTER_FAILURES || this.#isStopping) {
      return ['all', 'without_details', 'bare'];
    }
    return failures >= SHORTER_AFTER_FAILURES ? ['all', 'without_details'] : ['all'];
  }
}
