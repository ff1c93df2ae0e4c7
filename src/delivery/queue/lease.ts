/**
 * The lease of this worker: one row in `nodes` with a heartbeat counter.
 *
 * Guarantee: work is claimed only under a lease whose counter other processes see change. Claims and outcomes name
 * its id, `leaseId()`. `isFresh()` is checked before DATA and again before the final dot: fencing refuses the writes
 * of a worker after a freeze, but cannot prevent it from sending reclaimed mail.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import type { Queryable } from '../../database/database.ts';
import {
  type Heartbeat,
  incrementHeartbeat,
  expireWorker,
  registerWorker,
} from './worker-store.ts';

const STOP_WITHIN_MS = 3_000;
const HEARTBEAT_EVERY_MS = 2_000;
/** Milliseconds after a heartbeat in which mail may be sent. Other nodes reclaim its work after 15 s. */
const FRESH_FOR_MS = 10_000;

type LeaseOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  instance: string;
  host: string;
  pid: number;
  onLeased: (id: string) => void;
};

export class Lease {
  readonly #options: LeaseOptions;
  #leaseId: string | null = null;
  #checksRequested = 0;
  #lastHeartbeat: Heartbeat | null = null;
  #needsComparison = false;
  #isOutageLogged = false;
  /** Start of the last confirmed heartbeat, on both clocks. */
  #lastConfirmed = { monotonicMs: 0, wallMs: 0 };
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;
  #inProgress: Promise<void> = Promise.resolve();

  constructor(options: LeaseOptions) {
    this.#options = options;
  }

  leaseId = (): string | null => this.#leaseId;

  /**
   * Returns a counter that grows whenever the table must be compared with memory (database/leased-queue.ts): an
   * operator requested it, the database was unavailable, or its server changed and may lack the last commits.
   */
  checksRequested = (): number => this.#checksRequested;

  /**
   * Returns whether the work of this worker cannot have been reclaimed. Uses the larger age of two clocks: the
   * monotonic clock stops while a virtual machine is suspended, and the wall clock may be set back.
   */
  isFresh = (): boolean => {
    const { world } = this.#options;
    const ageMs = Math.max(
      world.monotonicMs() - this.#lastConfirmed.monotonicMs,
      world.now() - this.#lastConfirmed.wallMs,
    );
    return this.#leaseId !== null && ageMs < FRESH_FOR_MS;
  };

  /** Returns the milliseconds since the last confirmed heartbeat. Ignores the wall clock, which may jump. */
  heartbeatAgeMs = (): number =>
    this.#options.world.monotonicMs() - this.#lastConfirmed.monotonicMs;

  /** Registers the worker and sends heartbeats. Resolves after the first try, whether or not it succeeded. */
  async start(): Promise<void> {
    await this.#heartbeatOnce();
    this.#schedule();
  }

  /** Ends the lease, so that its work is free at once; with a silent database, after it expires. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await waitAtMost(STOP_WITHIN_MS, this.#endLease());
  }

  async #endLease(): Promise<void> {
    await this.#inProgress;
    const leaseId = this.#leaseId;
    this.#leaseId = null;
    if (leaseId === null) return;
    failpoint('lease_before_end');
    await expireWorker(this.#options.db, { id: leaseId, beat: null });
  }

  #schedule(): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#inProgress = this.#heartbeatOnce().finally(() => this.#schedule());
    }, HEARTBEAT_EVERY_MS);
  }

  async #heartbeatOnce(): Promise<void> {
    const { world, log } = this.#options;
    failpoint('lease_before_beat');
    const begun = { monotonicMs: world.monotonicMs(), wallMs: world.now() };
    try {
      const alive = this.#leaseId === null ? await this.#register() : await this.#renew();
      if (alive) this.#lastConfirmed = begun;
      if (this.#isOutageLogged) log.info('the database confirms heartbeats again');
      this.#isOutageLogged = false;
    } catch (error) {
      this.#needsComparison = true;
      log[this.#isOutageLogged ? 'debug' : 'warn'](
        { error: (error as Error).message },
        'no heartbeat: the database did not answer; this worker sends nothing until it does',
      );
      this.#isOutageLogged = true;
    }
  }

  async #register(): Promise<boolean> {
    const { db, instance, host, pid, world, onLeased } = this.#options;
    const id = world.newId();
    this.#lastHeartbeat = await registerWorker(db, { id, instance, host, pid });
    this.#leaseId = id;
    onLeased(id);
    return true;
  }

  /** Requests a comparison of the table with memory if an operator asked for one or the server changed. */
  #noteHeartbeat(heartbeat: Heartbeat): void {
    const last = this.#lastHeartbeat;
    const isRequested = heartbeat.checksAsked !== (last?.checksAsked ?? 0);
    const isOtherServer = last !== null && last.server !== heartbeat.server;
    if (isRequested || isOtherServer || this.#needsComparison) this.#checksRequested += 1;
    this.#lastHeartbeat = heartbeat;
    this.#needsComparison = false;
  }

  async #renew(): Promise<boolean> {
    const { db, log } = this.#options;
    const confirmed = this.#leaseId === null ? null : await incrementHeartbeat(db, this.#leaseId);
    if (confirmed !== null) {
      this.#noteHeartbeat(confirmed);
      return true;
    }
    log.warn(
      'this worker was expired while it was frozen; it continues under a new lease, without its work',
    );
    this.#leaseId = null;
    return this.#register();
  }
}
