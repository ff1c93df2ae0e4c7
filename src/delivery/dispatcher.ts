/**
 * Keeps mail moving: takes recipients in, gives each its turn, settles what came of it.
 *
 * Work comes two ways: handed over in memory by the accept path (no polling: the first attempt
 * starts within milliseconds) and claimed from the queue table when it is due. Both are bounded in
 * number and bytes; what does not fit stays in the table. Everything held is held under the lease
 * (lease.ts), and every outcome is fenced by it.
 *
 * The route of a destination is asked before its mail takes a turn: thousands of domains of one
 * dead provider are one provider before any of them is tried. What is not to start soon (its provider rests,
 * its line has too much here, the memory is crowded) is given back to the table.
 */
import type { Logger } from 'pino';
import { failpoint } from '../core/failpoint.ts';
import type { World } from '../core/world.ts';
import { DatabaseUnavailable, type Queryable, whenAvailable } from '../store/postgres/database.ts';
import { loadMessages } from '../store/emails.ts';
import { holdClaims } from '../store/queue.ts';
import type { ClaimedRecipient } from '../store/queue-claims.ts';
import { Claims } from './claims.ts';
import { Cutoff, type Delivery, sizeOf } from './delivery.ts';
import type { Deliver } from './deliver.ts';
import { AWAY_PAUSE_MS, GiveBacks, Strays } from './give-backs.ts';
import { FairQueue, type Shaping, WEIGHT_BYTES_MIN } from './fair-queue.ts';
import { SIMULATOR_PROVIDER } from './simulator.ts';

type DispatcherOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean; checksWanted(): number };
  deliver: Deliver;
  shaping: Shaping;
  /**
   * Asks for the route of a destination, after which its provider is known as well as it can be; null
   * when it is known already. Never rejects.
   */
  findProvider: (destination: string) => Promise<void> | null;
  /** Whether a provider is a provider's, or of a destination whose provider is known. */
  knows: (provider: string) => boolean;
  /** Outcomes that the database refuses and that are kept (store/unsettled.ts). */
  unsettled: {
    /** Nothing is to be begun until they are written. */
    readonly isBlocked: boolean;
    kept(): Iterable<{ emailId: string; position: number }>;
  };
  /** Shorter in tests. */
  unknownFateMs?: number;
};

/** A recipient that came in, before it is weighed and in a provider. */
type Incoming = Omit<Delivery, 'provider' | 'weightBytes'>;

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
const RESUME_SPREAD_MS = 10_000;
/** What expires before its provider's rest ends is tried all the same, as soon as there is a place. */
const URGENT_AGAIN_MS = 1_000;
/** A stop waits so long for attempts that have not written their dot, and for those that have. */
const STOP_UNSENT_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 25_000;
/** To write down what was cut off then. */
const STOP_SETTLE_WITHIN_MS = 2_000;

export class Dispatcher {
  readonly #options: DispatcherOptions;
  readonly #fairQueue: FairQueue;
  readonly #claims: Claims;
  readonly #cutoff = new Cutoff();
  readonly #givingBack: GiveBacks;
  readonly #polls = new PollTimer(() => this.#poll());
  #isRunning = false;
  #idle: (() => void) | undefined;
  /** Everything in memory that has not ended: what else the table has in our name is a stray. */
  readonly #held = new Set<Delivery>();
  readonly #strays: Strays;
  #checksSeen = 0;
  #lastWorkMs = -Infinity;

  constructor(options: DispatcherOptions) {
    const { shaping } = options;
    this.#options = options;
    this.#fairQueue = new FairQueue({
      windowOf: (provider) =>
        provider === SIMULATOR_PROVIDER ? SIMULATOR_WINDOW : shaping.windowOf(provider),
      suspendedForMs: (provider) => shaping.suspendedForMs(provider),
    });
    this.#claims = new Claims({ ...options, providers: this.#fairQueue });
    this.#givingBack = new GiveBacks({ ...options, isRunning: () => this.#isRunning });
    this.#strays = new Strays({
      ...options,
      known: () => this.#known(),
      fateKnownAfterMs: options.unknownFateMs ?? UNKNOWN_FATE_MS,
    });
    shaping.onChange((provider) => {
      this.#fairQueue.open(provider);
      this.#pump();
      if (this.#claims.hasMore) this.#polls.soon();
    });
  }

  start(): void {
    this.#isRunning = true;
    this.#polls.start();
  }

  /** Whose turn and trouble mail shares, as far as is known. */
  providerOf(environment: string, destination: string): string {
    // Test mail meets no mail server: it must not stand in the way of the mail that does.
    return environment === 'test'
      ? SIMULATOR_PROVIDER
      : this.#options.shaping.providerOf(destination);
  }

  /** Whether an email may be handed over instead of waiting in the table. */
  hasRoomFor(email: {
    projectId: string;
    providers: readonly string[];
    sizeBytes: number;
    lifetimeMs: number;
  }): boolean {
    const { projectId, providers, sizeBytes, lifetimeMs } = email;
    const { shaping } = this.#options;
    const weightBytes = Math.max(sizeBytes, WEIGHT_BYTES_MIN * providers.length);
    return (
      this.#isRunning &&
      !this.#options.unsettled.isBlocked &&
      !providers.some(
        (provider) =>
          shaping.suspendedForMs(provider) > 0 && shaping.suspendedForMs(provider) < lifetimeMs,
      ) &&
      this.#fairQueue.hasRoomFor(projectId, providers, weightBytes)
    );
  }

  /** Takes recipients whose lease this worker already has, straight from the accept path. */
  handOver(incoming: readonly Incoming[]): void {
    const deliveries = this.#deliveriesOf(incoming);
    if (!this.#isRunning) return void this.#giveBack(deliveries, () => 0);
    for (const delivery of deliveries) this.#add(delivery);
    void this.#giveBack(this.#fairQueue.takeFromGreediest(), () => 0);
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
    return this.#fairQueue.waiting;
  }

  get underWay(): number {
    return this.#fairQueue.underWay;
  }

  /**
   * Stops taking, gives back what has not started and, after 2 s, what has not written its dot;
   * waits at most 25 s for answers to the others, which then end in doubt.
   */
  async stop(): Promise<void> {
    this.#isRunning = false;
    await this.#polls.stop();
    await this.#giveBack(this.#fairQueue.drain(), () => 0);
    await this.#untilIdle(STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutUnsent();
    await this.#untilIdle(STOP_WITHIN_MS - STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutAll();
    await this.#untilIdle(STOP_SETTLE_WITHIN_MS);
  }

  async #untilIdle(withinMs: number): Promise<void> {
    if (this.#fairQueue.underWay === 0) return;
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#idle = resolve;
      timer = setTimeout(resolve, withinMs);
    });
    clearTimeout(timer);
  }

  #deliveriesOf(incoming: readonly Incoming[]): Delivery[] {
    const shares = new Map<unknown, number>();
    for (const { message } of incoming) shares.set(message, (shares.get(message) ?? 0) + 1);
    return incoming.map((one) => {
      const sizeBytes = sizeOf(one.message) / shares.get(one.message)!;
      return Object.assign(one, {
        provider: this.providerOf(one.message.environment, one.destination),
        weightBytes: Math.max(sizeBytes, WEIGHT_BYTES_MIN),
      });
    });
  }

  /** Puts a delivery into its provider; into one of an unknown route, which is asked for. */
  #add(delivery: Delivery): void {
    this.#held.add(delivery);
    this.#fairQueue.add(delivery);
    const { provider, destination } = delivery;
    if (provider === SIMULATOR_PROVIDER || this.#fairQueue.isClosed(provider)) return;
    const finding = this.#options.findProvider(destination);
    if (finding === null) return;
    this.#fairQueue.close(provider);
    void finding.then(() => this.#reopen(provider, destination));
  }

  #reopen(provider: string, destination: string): void {
    const now = this.#options.shaping.providerOf(destination);
    const moved = this.#fairQueue.reopen(provider, now);
    const lines = new Set(moved.map((delivery) => delivery.message.projectId));
    const excess = [...lines].flatMap((projectId) => this.#fairQueue.takeExcess(projectId, now));
    void this.#giveBack(excess, () => 0);
    this.#pump();
  }

  #pump(): void {
    if (this.#options.unsettled.isBlocked) return;
    for (
      let delivery = this.#fairQueue.next();
      delivery !== null;
      delivery = this.#fairQueue.next()
    )
      void this.#run(delivery);
    for (const provider of this.#fairQueue.takeSuspended()) this.#defer(provider);
  }

  /** Gives a resting provider's deliveries back until after its rest, but for those that cannot wait. */
  #defer(provider: string): void {
    const { shaping, world } = this.#options;
    const restMs = shaping.suspendedForMs(provider);
    const nowMs = world.monotonicMs();
    const later: Delivery[] = [];
    for (const delivery of this.#fairQueue.takeOut(provider)) {
      const isUrgent = delivery.expiresAtMs - nowMs < restMs;
      if (!isUrgent || this.#fairQueue.isFull(provider)) {
        later.push(delivery);
        continue;
      }
      this.#fairQueue.startOutOfTurn(delivery);
      void this.#run(delivery);
    }
    void this.#giveBack(later, ({ expiresAtMs }) =>
      expiresAtMs - nowMs < restMs ? URGENT_AGAIN_MS : restMs + world.random() * RESUME_SPREAD_MS,
    );
  }

  #giveBack(
    deliveries: readonly Delivery[],
    delayMsOf: (delivery: Delivery) => number,
  ): Promise<void> {
    for (const delivery of deliveries) this.#held.delete(delivery);
    return this.#givingBack.give(deliveries, delayMsOf);
  }

  async #run(delivery: Delivery): Promise<void> {
    const { deliver, log, world } = this.#options;
    this.#lastWorkMs = world.monotonicMs();
    try {
      // A lock timeout is thrown: the delivery is given back, or found again by strays.ts.
      const result = await whenAvailable(() => deliver(delivery, this.#cutoff), {
        pauseMs: AWAY_PAUSE_MS,
        mayRetry: () => this.#isRunning,
      });
      if (result?.kind !== 'settled') await this.#giveBack([delivery], () => result?.delayMs ?? 0);
    } catch (error) {
      // A bug, or keys that do not open: the mail is kept and tried again, slowly.
      log.error({ err: error, emailId: delivery.message.id }, 'an attempt ended in an error');
      await this.#giveBack([delivery], () => 60_000);
    } finally {
      this.#held.delete(delivery);
      this.#fairQueue.done(delivery);
      this.#pump();
      if (this.#fairQueue.underWay === 0) this.#idle?.();
      if (this.#claims.hasMore && this.#fairQueue.wantsMore(delivery)) this.#polls.soon();
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
      const fitting = this.#fairQueue.fitting(claimed.map(({ sizeBytes }) => sizeBytes));
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
    for (const delivery of this.#deliveriesOf(incoming)) this.#add(delivery);
    void this.#giveBack(this.#fairQueue.takeFromGreediest(), () => 0);
    this.#pump();
  }
}

/** Events come in crowds: one look answers all of the last few milliseconds. */
const SOON_MS = 5;

/** Looks again and again: when the last look said, or sooner when something happened. One at a time. */
class PollTimer {
  readonly #look: () => Promise<number>;
  #timer: NodeJS.Timeout | undefined;
  #looking: Promise<void> | null = null;
  #isRunning = false;
  #isSoon = false;

  /** @param look must not reject. @returns (of it) milliseconds until the next look */
  constructor(look: () => Promise<number>) {
    this.#look = look;
  }

  start(): void {
    this.#isRunning = true;
    this.#in(0);
  }

  /** Something happened that makes a look worth it. */
  soon(): void {
    if (this.#isSoon || !this.#isRunning) return;
    this.#isSoon = true;
    if (this.#looking === null) this.#in(SOON_MS);
  }

  /** Resolves when no look is under way any more. */
  async stop(): Promise<void> {
    this.#isRunning = false;
    clearTimeout(this.#timer);
    await this.#looking;
  }

  #in(delayMs: number): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#isSoon = false;
      this.#looking = this.#look().then((nextMs) => {
        this.#looking = null;
        if (this.#isRunning) this.#in(this.#isSoon ? Math.min(nextMs, SOON_MS) : nextMs);
      });
    }, delayMs);
  }
}
