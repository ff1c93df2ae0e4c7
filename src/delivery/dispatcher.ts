/**
 * Keeps mail moving: takes recipients in, gives each its turn, settles what came of it.
 *
 * Work comes two ways: handed over in memory by the accept path (no polling: the first attempt
 * starts within milliseconds) and claimed from the queue table when it is due. Both are bounded in
 * number and bytes; what does not fit stays in the table. Everything held is held under the lease
 * (lease.ts), and every outcome is fenced by it.
 *
 * The route of a destination is asked before its mail takes a turn: thousands of domains of one
 * dead provider are one lane before any of them is tried. What is not to start soon (its lane rests,
 * its line has too much here, the memory is crowded) is given back to the table.
 *
 * Next: lanes.ts, the turns; claims.ts, what is taken from the table; deliver.ts does one recipient.
 */
import type { Logger } from 'pino';
import { failpoint } from '../core/failpoint.ts';
import type { World } from '../core/world.ts';
import { DatabaseUnavailable, type Queryable } from '../store/postgres/database.ts';
import { loadMessages } from '../store/messages.ts';
import { holdClaims } from '../store/queue.ts';
import type { ClaimedRecipient } from '../store/queue-claims.ts';
import { Claims } from './claims.ts';
import { Cutoff } from './cutoff.ts';
import type { Deliver } from './deliver.ts';
import { GiveBacks, whileAway } from './give-backs.ts';
import { type Job, sizeOf } from './job.ts';
import { Lanes, WEIGHT_BYTES_MIN } from './lanes.ts';
import { PollTimer } from './poll-timer.ts';
import type { Shaping } from './shaping.ts';
import { SIMULATOR_LANE } from './simulator.ts';
import { Strays } from './strays.ts';

export type DispatcherOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean; checksWanted(): number };
  deliver: Deliver;
  shaping: Shaping;
  /**
   * Asks for the route of a destination, after which its lane is known as well as it can be; null
   * when it is known already. Never rejects.
   */
  findLane: (destination: string) => Promise<void> | null;
  /** Whether a lane is a provider's, or of a destination whose provider is known. */
  knows: (lane: string) => boolean;
  /** Outcomes that the database refuses and that are kept (store/unsettled.ts). */
  unsettled: {
    /** Nothing is to be begun until they are written. */
    readonly isBlocked: boolean;
    kept(): Iterable<{ emailId: string; position: number }>;
  };
  /** Shorter in tests. */
  unknownFateMs?: number;
};

/** A recipient that came in, before it is weighed and in a lane. */
type Incoming = Omit<Job, 'lane' | 'weightBytes'>;

/** Test mail that is answered at once. */
const SIMULATOR_WINDOW = 32;
const POLL_MS = 400;
/** After a while without work: looking more often would be half of what an idle worker costs. */
const IDLE_POLL_MS = 2_000;
const IDLE_AFTER_MS = 10_000;
/** Between two looks at a backlog of which nothing can be served. */
const WALK_EVERY_MS = 50;
/** A statement ends after 20 s at the latest: then an unanswered one has happened or has not. */
const UNKNOWN_FATE_MS = 30_000;
/** After a rest its mail comes back over so long, not all at once. */
const REST_SPREAD_MS = 10_000;
/** What expires before its lane's rest ends is tried all the same, as soon as there is a place. */
const URGENT_AGAIN_MS = 1_000;
/** A stop waits so long for attempts that have not written their dot, and for those that have. */
const STOP_UNSENT_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 25_000;
/** To write down what was cut off then. */
const STOP_SETTLE_WITHIN_MS = 2_000;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #lanes: Lanes;
  readonly #claims: Claims;
  readonly #cutoff = new Cutoff();
  readonly #givingBack: GiveBacks;
  readonly #polls = new PollTimer(() => this.#poll());
  #isRunning = false;
  #idle: (() => void) | undefined;
  /** Everything in memory that has not ended: what else the table has in our name is a stray. */
  readonly #held = new Set<Job>();
  readonly #strays: Strays;
  #checksSeen = 0;
  #lastWorkMs = -Infinity;

  constructor(options: DispatcherOptions) {
    const { shaping } = options;
    this.#options = options;
    this.#lanes = new Lanes({
      windowOf: (lane) => (lane === SIMULATOR_LANE ? SIMULATOR_WINDOW : shaping.windowOf(lane)),
      restsForMs: (lane) => shaping.restsForMs(lane),
    });
    this.#claims = new Claims({ ...options, lanes: this.#lanes });
    this.#givingBack = new GiveBacks({ ...options, isRunning: () => this.#isRunning });
    this.#strays = new Strays({
      ...options,
      known: () => this.#known(),
      fateKnownAfterMs: options.unknownFateMs ?? UNKNOWN_FATE_MS,
    });
    shaping.onChange((lane) => {
      this.#lanes.open(lane);
      this.#pump();
      if (this.#claims.hasMore) this.#polls.soon();
    });
  }

  start(): void {
    this.#isRunning = true;
    this.#polls.start();
  }

  /** Whose turn and trouble mail shares, as far as is known. */
  laneOf(environment: string, destination: string): string {
    // Test mail meets no mail server: it must not stand in the way of the mail that does.
    return environment === 'test' ? SIMULATOR_LANE : this.#options.shaping.laneOf(destination);
  }

  /** Whether an email may be handed over instead of waiting in the table. */
  hasRoomFor(email: {
    projectId: string;
    lanes: readonly string[];
    sizeBytes: number;
    lifetimeMs: number;
  }): boolean {
    const { projectId, lanes, sizeBytes, lifetimeMs } = email;
    const { shaping } = this.#options;
    const weightBytes = Math.max(sizeBytes, WEIGHT_BYTES_MIN * lanes.length);
    return (
      this.#isRunning &&
      !this.#options.unsettled.isBlocked &&
      !lanes.some(
        (lane) => shaping.restsForMs(lane) > 0 && shaping.restsForMs(lane) < lifetimeMs,
      ) &&
      this.#lanes.hasRoomFor(projectId, lanes, weightBytes)
    );
  }

  /** Takes recipients whose lease this worker already has, straight from the accept path. */
  handOver(incoming: readonly Incoming[]): void {
    const jobs = this.#jobsOf(incoming);
    if (!this.#isRunning) return void this.#giveBack(jobs, () => 0);
    for (const job of jobs) this.#add(job);
    void this.#giveBack(this.#lanes.takeFromGreediest(), () => 0);
    this.#pump();
  }

  /** Something in the table has become free: looks for it now. */
  look(): void {
    this.#polls.soon();
  }

  /** Emails that may be stored in our name without our knowing: given back when they appear. */
  releaseLater(emailIds: readonly string[]): void {
    const holder = this.#options.lease.holder();
    if (holder !== null) this.#givingBack.releaseLater(emailIds, holder);
  }

  get waiting(): number {
    return this.#lanes.waiting;
  }

  get underWay(): number {
    return this.#lanes.underWay;
  }

  /**
   * Stops taking, gives back what has not started and, after 2 s, what has not written its dot;
   * waits at most 25 s for answers to the others, which then end in doubt.
   */
  async stop(): Promise<void> {
    this.#isRunning = false;
    await this.#polls.stop();
    await this.#giveBack(this.#lanes.drain(), () => 0);
    await this.#untilIdle(STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutUnsent();
    await this.#untilIdle(STOP_WITHIN_MS - STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutAll();
    await this.#untilIdle(STOP_SETTLE_WITHIN_MS);
  }

  async #untilIdle(withinMs: number): Promise<void> {
    if (this.#lanes.underWay === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      timer = setTimeout(resolve, withinMs);
    });
    clearTimeout(timer);
  }

  #jobsOf(incoming: readonly Incoming[]): Job[] {
    const shares = new Map<unknown, number>();
    for (const { message } of incoming) shares.set(message, (shares.get(message) ?? 0) + 1);
    return incoming.map((one) => {
      const sizeBytes = sizeOf(one.message) / shares.get(one.message)!;
      return Object.assign(one, {
        lane: this.laneOf(one.message.environment, one.destination),
        weightBytes: Math.max(sizeBytes, WEIGHT_BYTES_MIN),
      });
    });
  }

  /** Puts a job into its lane; into one of an unknown route, which is asked for. */
  #add(job: Job): void {
    this.#held.add(job);
    this.#lanes.add(job);
    const { lane, destination } = job;
    if (lane === SIMULATOR_LANE || this.#lanes.isClosed(lane)) return;
    const finding = this.#options.findLane(destination);
    if (finding === null) return;
    this.#lanes.close(lane);
    void finding.then(() => this.#reopen(lane, destination));
  }

  #reopen(lane: string, destination: string): void {
    const now = this.#options.shaping.laneOf(destination);
    const moved = this.#lanes.reopen(lane, now);
    const lines = new Set(moved.map((job) => job.message.projectId));
    const excess = [...lines].flatMap((projectId) => this.#lanes.takeExcess(projectId, now));
    void this.#giveBack(excess, () => 0);
    this.#pump();
  }

  #pump(): void {
    if (this.#options.unsettled.isBlocked) return;
    for (let job = this.#lanes.next(); job !== null; job = this.#lanes.next()) void this.#run(job);
    for (const lane of this.#lanes.takeResting()) this.#rest(lane);
  }

  /** Gives a resting lane's jobs back until after its rest, but for those that cannot wait. */
  #rest(lane: string): void {
    const { shaping, world } = this.#options;
    const restMs = shaping.restsForMs(lane);
    const nowMs = world.monotonicMs();
    const later: Job[] = [];
    for (const job of this.#lanes.takeOut(lane)) {
      const isUrgent = job.expiresAtMs - nowMs < restMs;
      if (!isUrgent || this.#lanes.isFull(lane)) {
        later.push(job);
        continue;
      }
      this.#lanes.startOutOfTurn(job);
      void this.#run(job);
    }
    void this.#giveBack(later, ({ expiresAtMs }) =>
      expiresAtMs - nowMs < restMs ? URGENT_AGAIN_MS : restMs + world.random() * REST_SPREAD_MS,
    );
  }

  #giveBack(jobs: readonly Job[], delayMsOf: (job: Job) => number): Promise<void> {
    for (const job of jobs) this.#held.delete(job);
    return this.#givingBack.give(jobs, delayMsOf);
  }

  async #run(job: Job): Promise<void> {
    const { deliver, log, world } = this.#options;
    this.#lastWorkMs = world.monotonicMs();
    try {
      const result = await whileAway(
        () => deliver(job, this.#cutoff),
        () => this.#isRunning,
      );
      if (result?.kind !== 'settled') await this.#giveBack([job], () => result?.delayMs ?? 0);
    } catch (error) {
      // A bug, or keys that do not open: the mail is kept and tried again, slowly.
      log.error({ err: error, emailId: job.message.id }, 'an attempt ended in an error');
      await this.#giveBack([job], () => 60_000);
    } finally {
      this.#held.delete(job);
      this.#lanes.done(job);
      this.#pump();
      if (this.#lanes.underWay === 0) this.#idle?.();
      if (this.#claims.hasMore && this.#lanes.isHungry(job)) this.#polls.soon();
    }
  }

  /** Claims what is due, as far as there is room. @returns when to look again */
  async #poll(): Promise<number> {
    const holder = this.#options.lease.holder();
    if (holder === null) return POLL_MS;
    try {
      await this.#releaseStrays(holder);
      if (this.#options.unsettled.isBlocked) return POLL_MS;
      this.#pump();
      const { claimed: all, outlook } = await this.#claims.take(holder);
      const claimed = await this.#holdPaused(all, holder);
      const fitting = this.#lanes.fitting(claimed.map(({ sizeBytes }) => sizeBytes));
      void this.#givingBack.giveUnloaded(claimed.slice(fitting), holder);
      await this.#takeIn(claimed.slice(0, fitting), holder);
      if (fitting < claimed.length) return this.#restMs;
      return { more: 0, walking: WALK_EVERY_MS, done: this.#restMs }[outlook];
    } catch (error) {
      // The claim may be committed all the same: then rows are held that nobody here knows.
      this.#strays.compareLater();
      if (!(error instanceof DatabaseUnavailable)) {
        this.#options.log.error({ err: error }, 'claiming due work failed');
      }
      return POLL_MS;
    }
  }

  get #restMs(): number {
    const idleMs = this.#options.world.monotonicMs() - this.#lastWorkMs;
    return idleMs < IDLE_AFTER_MS ? POLL_MS : IDLE_POLL_MS;
  }

  async #releaseStrays(holder: string): Promise<void> {
    const asked = this.#options.lease.checksWanted();
    if (asked !== this.#checksSeen) this.#strays.compareNow();
    this.#checksSeen = asked;
    await this.#strays.release(holder);
  }

  *#known(): Iterable<{ emailId: string; position: number }> {
    for (const { message, position } of this.#held) yield { emailId: message.id, position };
    yield* this.#options.unsettled.kept();
  }

  /** Mail of paused senders waits for a person; what expires meanwhile ends as usual. */
  async #holdPaused(
    claimed: readonly ClaimedRecipient[],
    holder: string,
  ): Promise<readonly ClaimedRecipient[]> {
    const paused = claimed.filter(({ isPaused, remainingMs }) => isPaused && remainingMs > 0);
    if (paused.length === 0) return claimed;
    await holdClaims(this.#options.db, paused, holder);
    return claimed.filter((one) => !paused.includes(one));
  }

  async #takeIn(claimed: readonly ClaimedRecipient[], holder: string): Promise<void> {
    if (claimed.length === 0) return;
    failpoint('claim_before_load');
    const { db, world } = this.#options;
    const messages = await loadMessages(
      db,
      claimed.map((one) => ({ ...one, id: one.emailId })),
    );
    const heldSinceMs = world.monotonicMs();
    const incoming = claimed.map((one) => {
      const message = messages.get(one.emailId);
      if (!message) throw new Error(`queued email ${one.emailId} has no content`);
      const expiresAtMs = heldSinceMs + one.remainingMs;
      return { ...one, message, holder, heldSinceMs, expiresAtMs, dueAtMs: one.dueAt.getTime() };
    });
    for (const job of this.#jobsOf(incoming)) this.#add(job);
    void this.#giveBack(this.#lanes.takeFromGreediest(), () => 0);
    this.#pump();
  }
}
