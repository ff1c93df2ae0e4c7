/**
 * Decides whether this worker accepts mail, by facts that are known already: it waits for neither the database nor a
 * disk.
 *
 * The supervisor reports the disk, the size of the database, its schema and the clock
 * (service/maintenance/space-watch.ts, service/maintenance/node-watch.ts, clock-watch.ts). The worker knows its
 * database (database-probe.ts), its heartbeat, and its queue of emails to store.
 */
import { Overloaded } from '../../core/refusals.ts';
import { type Unready, type UnreadyCode, UNREADY_CODES } from '../../core/unready.ts';
import { DiskFullMemory } from '../../database/server/capacity.ts';
import type { Database } from '../../database/database.ts';
import type { Lease } from '../../delivery/queue/lease.ts';
import type { World } from '../../lib/world.ts';
import { DatabaseProbe } from './database-probe.ts';

/** Heartbeats come every 2 s. Without one for this time, the worker sends nothing either (delivery/queue/lease.ts). */
const UNWRITTEN_MAX_MS = 10_000;
const CHECK_EVERY_MS = 1_000;

type ReadinessOptions = {
  db: Pick<Database, 'heartbeat'>;
  lease: Pick<Lease, 'heartbeatAgeMs'>;
  world: Pick<World, 'monotonicMs'>;
  /** Reasons that the supervisor reports. */
  refusals: () => readonly Unready[];
  isOverloaded: () => boolean;
  /** Called when the reasons change, for the log of the machine (readiness-log.ts). */
  onChange: (reasons: readonly Unready[]) => void;
};

export class Readiness {
  isStopping = false;
  readonly diskFull: DiskFullMemory;
  readonly #options: ReadinessOptions;
  readonly #probe: DatabaseProbe;
  #timer: NodeJS.Timeout | undefined;
  #reportedCodes = '';

  constructor(options: ReadinessOptions) {
    const { db, world } = options;
    this.#options = options;
    this.diskFull = new DiskFullMemory(world);
    this.#probe = new DatabaseProbe({ db: db.heartbeat });
  }

  start(): void {
    this.#probe.probeNow();
    this.#timer = setInterval(() => this.#reportChange(), CHECK_EVERY_MS).unref();
  }

  /** Called when a request failed because of the database. */
  probeDatabase(): void {
    this.#probe.probeNow();
  }

  /** Makes this worker unready, because it stops. */
  stop(): void {
    this.isStopping = true;
    clearInterval(this.#timer);
    this.#probe.stop();
  }

  #reportChange(): void {
    const reasons = this.reasons();
    const codes = reasons.map(({ code }) => code).join();
    if (codes === this.#reportedCodes) return;
    this.#reportedCodes = codes;
    this.#options.onChange(reasons);
  }

  /** Runs `work`, which stores new mail. @throws Overloaded when mail is refused */
  async runUnlessRefused<Result>(work: () => Promise<Result>): Promise<Result> {
    const reason = this.refusal();
    if (reason !== null) throw new Overloaded(reason);
    return this.diskFull.guard(work);
  }

  /** Returns why mail is refused, without asking the database; null when it is accepted. */
  refusal(): string | null {
    const refused = this.#options.refusals().find(({ isAccepting }) => isAccepting !== true);
    return refused?.reason ?? this.diskFull.refusal();
  }

  /** Returns the first reason of each code. Empty while mail is accepted and sent. */
  reasons(): Unready[] {
    const first = new Map<UnreadyCode, Unready>();
    for (const reason of this.#collectReasons()) {
      if (!first.has(reason.code)) first.set(reason.code, reason);
    }
    return UNREADY_CODES.flatMap((code) => first.get(code) ?? []);
  }

  *#collectReasons(): Generator<Unready> {
    const { refusals, lease, isOverloaded } = this.#options;
    yield* refusals();
    const full = this.diskFull.refusal();
    if (full !== null) yield { code: 'disk_full', reason: full };
    const { problem } = this.#probe;
    if (problem !== null) yield problem;
    else if (lease.heartbeatAgeMs() > UNWRITTEN_MAX_MS) yield UNWRITTEN;
    if (isOverloaded()) yield OVERLOADED;
    if (this.isStopping) yield STOPPING;
  }
}

const UNWRITTEN: Unready = {
  code: 'database_unavailable',
  reason: 'the database does not answer to writes',
};
const OVERLOADED: Unready = {
  code: 'overloaded',
  reason: 'too many messages are waiting to be stored',
};
const STOPPING: Unready = { code: 'shutting_down', reason: 'the service is stopping' };
