/**
 * The lease of this worker: one row in `nodes` with a heartbeat counter.
 *
 * Guarantee: work is claimed only under a lease whose counter others see change. `holder()` is the id that
 * claims and outcomes name. `isFresh()` is checked before DATA and again before the final dot, because
 * fencing the writes of a worker does not prevent it from sending reclaimed mail after a freeze.
 */
import type { Logger } from 'pino';
import { atMost } from '../../lib/at-most.ts';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import { type Beat, beat, expireWorker, registerNode } from './node-store.ts';

const STOP_WITHIN_MS = 3_000;
const BEAT_EVERY_MS = 2_000;
/** Work is reclaimed 15 s after the last beat (src/service/maintenance/maintenance.ts); sending ends before that. */
const FRESH_FOR_MS = 10_000;

type LeaseOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  /** The installation whose supervisor started this worker. */
  instance: string;
  host: string;
  pid: number;
  /** Called with the id whenever there is a new one. */
  onHolder: (id: string) => void;
};

export class Lease {
  readonly #options: LeaseOptions;
  #holder: string | null = null;
  #checksWanted = 0;
  #lastBeat: Beat | null = null;
  #hasMissed = false;
  /** The last beat was missed, and that is logged. */
  #isMissing = false;
  /** When the last acknowledged beat began, on both clocks. */
  #begun = { monotonicMs: 0, wallMs: 0 };
  #timer: NodeJS.Timeout | undefined;
  #stopped = false;
  #beating: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  /** The id under which work is claimed; null while there is none. */
  holder = (): string | null => this.#holder;

  /**
   * Counts up whenever the table should be compared with memory (database/leased-queue.ts): an operator asks for
   * it, the database was unavailable, or its server is another one, which may lack the last commits.
   */
  checksWanted = (): number => this.#checksWanted;

  /**
   * Whether the work of this worker cannot have been reclaimed. The larger age of two clocks counts: the
   * monotonic clock stops while a virtual machine is suspended, and the wall clock may be set back.
   */
  isFresh = (): boolean => {
    const { world } = this.#options;
    const ageMs = Math.max(
      world.monotonicMs() - this.#begun.monotonicMs,
      world.now() - this.#begun.wallMs,
    );
    return this.#holder !== null && ageMs < FRESH_FOR_MS;
  };

  /** For how long the database has confirmed no beat. Without the wall clock, which may jump. */
  unwrittenMs = (): number => this.#options.world.monotonicMs() - this.#begun.monotonicMs;

  /** Registers and keeps beating. Resolves after the first try, whether or not it succeeded. */
  async start(): Promise<void> {
    await this.#beatOnce();
    this.#schedule();
  }

  /** Ends the lease, so that what is leased under it is free at once; with a silent database, once it expires. */
  async stop(): Promise<void> {
    this.#stopped = true;
    clearTimeout(this.#timer);
    await atMost(STOP_WITHIN_MS, this.#end());
  }

  async #end(): Promise<void> {
    await this.#beating;
    const holder = this.#holder;
    this.#holder = null;
    if (holder === null) return;
    failpoint('lease_before_end');
    await expireWorker(this.#options.db, { id: holder, beat: null });
  }

  #schedule(): void {
    if (this.#stopped) return;
    this.#timer = setTimeout(() => {
      this.#beating = this.#beatOnce().finally(() => this.#schedule());
    }, BEAT_EVERY_MS);
  }

  async #beatOnce(): Promise<void> {
    const { world, log } = this.#options;
    failpoint('lease_before_beat');
    const begun = { monotonicMs: world.monotonicMs(), wallMs: world.now() };
    try {
      const alive = this.#holder === null ? await this.#register() : await this.#renew();
      if (alive) this.#begun = begun;
      if (this.#isMissing) log.info('the heartbeat goes on: the database has confirmed it again');
      this.#isMissing = false;
    } catch (error) {
      this.#hasMissed = true;
      // Once, for as long as the database is away.
      log[this.#isMissing ? 'debug' : 'warn'](
        { error: (error as Error).message },
        'no heartbeat: the database did not answer; nothing is sent until it does',
      );
      this.#isMissing = true;
    }
  }

  async #register(): Promise<boolean> {
    const { db, instance, host, pid, world, onHolder } = this.#options;
    const id = world.newId();
    this.#lastBeat = await registerNode(db, { id, instance, host, pid });
    this.#holder = id;
    onHolder(id);
    return true;
  }

  #compare(counted: Beat): void {
    const last = this.#lastBeat;
    const isAsked = counted.checksAsked !== (last?.checksAsked ?? 0);
    const isElsewhere = last !== null && last.server !== counted.server;
    if (isAsked || isElsewhere || this.#hasMissed) this.#checksWanted += 1;
    this.#lastBeat = counted;
    this.#hasMissed = false;
  }

  async #renew(): Promise<boolean> {
    const { db, log } = this.#options;
    const counted = this.#holder === null ? null : await beat(db, this.#holder);
    if (counted !== null) {
      this.#compare(counted);
      return true;
    }
    log.warn(
      'this worker was taken for dead while it was frozen; it starts again without its work',
    );
    this.#holder = null;
    return this.#register();
  }
}
