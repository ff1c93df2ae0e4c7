/**
 * Takes recipients into memory, starts their deliveries in fair order, and releases those that cannot start soon.
 *
 * Work has two origins. The accept path hands over emails in memory, so that the first attempt starts within
 * milliseconds. Other recipients are due rows of the queue table that the dispatcher claims. Memory is limited in
 * number and bytes; the rest stays in the table. Everything in memory is claimed under the lease (lease.ts), which
 * fences every outcome (database/leased-queue.ts).
 *
 * The dispatcher looks up the provider first. Otherwise thousands of domains at one dead provider would each get an
 * attempt. It releases a delivery that cannot start soon to the table: the provider is suspended, or the tenant queue
 * or the memory is full. memory/fair-queue.ts decides the order; delivery/attempt/deliver.ts makes the attempt.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { LiveSet } from '../../lib/live-set.ts';
import type { World } from '../../lib/world.ts';
import { DatabaseUnavailable, type Queryable, whenAvailable } from '../../database/database.ts';
import { UNAVAILABLE_PAUSE_MS, LeasedQueue } from '../../database/leased-queue.ts';
import type { ClaimedRecipient } from './claim-store.ts';
import {
  RECIPIENTS,
  type QueuedEmail,
  type RecipientClaim,
  type RecipientKey,
} from './queue-store.ts';
import { Claims } from './claims.ts';
import { Cutoff } from '../attempt/cutoff.ts';
import type { SmtpConnections } from '../shaping/smtp-connections.ts';
import { type ContentMemory, isLarge, sizeOf } from '../memory/content-memory.ts';
import type { Deliver } from '../attempt/deliver.ts';
import type { EarlyRetries } from './early-retries.ts';
import { releaseWhenStored } from './unanswered-accepts.ts';
import type { Delivery } from '../memory/delivery.ts';
import { FairQueue, type ProviderRules, WEIGHT_BYTES } from '../memory/fair-queue.ts';
import type { EmailHandOver, EmailToHandOver, HandedOverEmail } from '../hand-over.ts';
import type { MailRouting } from '../route/mail-routing.ts';
import { SIMULATOR_PROVIDER } from '../attempt/simulator.ts';
import { SILENT_AFTER_MS } from '../memory/slots.ts';
import {
  deliveriesOfClaims,
  deliveriesOfEmail,
  type UnroutedDelivery,
} from './unrouted-deliveries.ts';

type DispatcherOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { leaseId(): string | null; isFresh(): boolean; checksRequested(): number };
  deliver: Deliver;
  contents: Pick<ContentMemory, 'keep'>;
  connections: ProviderRules & Pick<SmtpConnections, 'onChange' | 'onPrompt'>;
  mailRouting: Pick<MailRouting, 'providerOf' | 'isProviderKnown' | 'lookUpProvider'>;
  earlyRetries: Pick<EarlyRetries, 'noteDelayed'>;
  /** Outcomes that the database refuses, kept in memory (settle/unsettled.ts). */
  unsettled: {
    /** True while no delivery may start, until the outcomes are stored. */
    readonly mustWait: boolean;
    kept(): Iterable<RecipientKey>;
  };
  unknownFateMs?: number;
};

const SIMULATOR_WINDOW = 32;
const POLL_MS = 400;
/** Milliseconds until the next poll, by how urgent claims.ts found it, or null for the default. */
const NEXT_POLL_MS = { at_once: 0, soon: 50, later: null } as const;
const RESUME_SPREAD_MS = 10_000;
/** Delay of a delivery that expires before the suspension ends and found the provider's window full. */
const URGENT_RETRY_MS = 1_000;
/** Mail released for at least this time is noted in early-retries.ts: it is retried early when the uplink returns. */
const EARLY_RETRIES_FROM_MS = 1_000;
/** Milliseconds that a stop waits for attempts before their final dot, and for all attempts. */
const STOP_UNSENT_WITHIN_MS = 2_000;
const STOP_WITHIN_MS = 25_000;
/** Milliseconds that it then waits until the attempts that it ended are settled. */
const STOP_SETTLE_WITHIN_MS = 2_000;

export class Dispatcher implements EmailHandOver {
  readonly #options: DispatcherOptions;
  readonly #fairQueue: FairQueue;
  readonly #claims: Claims;
  #cutoff = new Cutoff();
  readonly #queue: LeasedQueue<RecipientKey, RecipientClaim>;
  #isRunning = false;
  #resolveIdle: (() => void) | undefined;
  /** Deliveries that have not ended. Other rows under this lease are unknown (database/leased-queue.ts). */
  readonly #inMemory = new LiveSet<Delivery>();

  constructor(options: DispatcherOptions) {
    const { connections } = options;
    this.#options = options;
    this.#fairQueue = new FairQueue({
      windowOf: (provider) =>
        provider === SIMULATOR_PROVIDER ? SIMULATOR_WINDOW : connections.windowOf(provider),
      suspendedForMs: (provider) => connections.suspendedForMs(provider),
      notifyPromptChange: (provider, isPrompt) =>
        connections.notifyPromptChange(provider, isPrompt),
    });
    this.#claims = new Claims({ ...options, fairQueue: this.#fairQueue });
    this.#queue = new LeasedQueue({
      ...options,
      table: RECIPIENTS,
      claimDueRows: (leaseId) => this.#claim(leaseId),
      knownKeys: () => this.#keysInMemory(),
      resetLowWaterMark: () => this.#claims.resetLowWaterMark(),
      busyIntervalMs: POLL_MS,
    });
    connections.onPrompt((provider) => {
      this.#fairQueue.markPrompt(provider);
      this.#startReady();
    });
    connections.onChange((provider) => {
      this.#fairQueue.openProvider(provider);
      this.#startReady();
      if (this.#claims.hasMore) this.#queue.pollSoon();
    });
  }

  start(): void {
    this.#isRunning = true;
    // A cutoff that has begun would cut every new attempt.
    if (this.#cutoff.hasBegun) this.#cutoff = new Cutoff();
    this.#queue.start();
  }

  providerOf(environment: string, destination: string): string {
    // Test mail connects to no mail server and must not use the window of a real provider.
    return environment === 'test'
      ? SIMULATOR_PROVIDER
      : this.#options.mailRouting.providerOf(destination);
  }

  hasSpaceFor(email: EmailToHandOver): boolean {
    const { projectId, providers, recipientsAhead, lifetimeMs } = email;
    const { connections } = this.#options;
    const weightBytes = WEIGHT_BYTES * (providers.length + recipientsAhead);
    return (
      this.#isRunning &&
      !this.#options.unsettled.mustWait &&
      !providers.some(
        (provider) =>
          connections.suspendedForMs(provider) > 0 &&
          connections.suspendedForMs(provider) < lifetimeMs,
      ) &&
      this.#fairQueue.hasSpaceFor(projectId, providers, weightBytes)
    );
  }

  /** Returns whether this worker leases the delivery: it has neither ended nor been released. */
  isLeased(delivery: Delivery): boolean {
    return this.#inMemory.has(delivery);
  }

  /** Records the end of an attempt whose outcome will be settled. Never throws: the message may have been sent. */
  endAttempt(delivery: Delivery): void {
    try {
      this.#fairQueue.endAttempt(delivery);
      this.#startReady();
      this.#pollForMore(delivery);
    } catch (error) {
      const logFields = { err: error, email_id: delivery.message.id };
      this.#options.log.error(
        logFields,
        'the fair queue could not record the end of an attempt; its outcome is settled nevertheless',
      );
    }
  }

  /** Takes recipients that the accept path stored under this worker's lease. */
  handOver(email: HandedOverEmail): void {
    const { contents, world } = this.#options;
    if (isLarge(sizeOf(email.message))) contents.keep(email.message);
    const deliveries = this.#withProviders(deliveriesOfEmail(email, world.monotonicMs()));
    if (this.#isRunning) this.#enqueueAll(deliveries);
    else void this.#release(deliveries, () => 0);
  }

  /** Polls the table within milliseconds, because mail may be due. */
  pollSoon(): void {
    this.#queue.pollSoon();
  }

  /** Releases emails whose accept statement had no result, if they were stored. */
  releaseWhenStored(emails: readonly QueuedEmail[]): void {
    const leaseId = this.#options.lease.leaseId();
    if (leaseId !== null) releaseWhenStored(this.#options.db, emails, leaseId);
  }

  get queuedCount(): number {
    return this.#fairQueue.queuedCount;
  }

  get runningCount(): number {
    return this.#fairQueue.runningCount;
  }

  /**
   * Stops taking work until `start`. Releases deliveries that have not started and, after 2 s, those before their
   * final dot. The others end with the reply of their server.
   */
  async pause(): Promise<void> {
    this.#isRunning = false;
    await this.#queue.stop();
    await this.#release(this.#fairQueue.takeAllQueued(), () => 0);
    await this.#waitUntilIdle(STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutUnsent();
  }

  /** Pauses, and waits at most 25 s for replies to the final dot. Those without one end in doubt. */
  async stop(): Promise<void> {
    await this.pause();
    await this.#waitUntilIdle(STOP_WITHIN_MS - STOP_UNSENT_WITHIN_MS);
    this.#cutoff.cutAll();
    await this.#waitUntilIdle(STOP_SETTLE_WITHIN_MS);
  }

  async #waitUntilIdle(withinMs: number): Promise<void> {
    if (this.#fairQueue.runningCount === 0) return;
    await waitAtMost(withinMs, new Promise<void>((resolve) => (this.#resolveIdle = resolve)));
  }

  #withProviders(deliveries: readonly UnroutedDelivery[]): Delivery[] {
    return deliveries.map((delivery) =>
      Object.assign(delivery, {
        provider: this.providerOf(delivery.message.environment, delivery.destination),
        weightBytes: WEIGHT_BYTES,
      }),
    );
  }

  #enqueueAll(deliveries: readonly Delivery[]): void {
    for (const delivery of deliveries) this.#enqueue(delivery);
    void this.#release(this.#fairQueue.takeFromLargest(), () => 0);
    this.#startReady();
  }

  /** Queues a delivery. While its route is not known, the tenant queue is closed and the route is looked up. */
  #enqueue(delivery: Delivery): void {
    this.#inMemory.add(delivery);
    this.#fairQueue.add(delivery);
    const { provider, destination } = delivery;
    if (provider === SIMULATOR_PROVIDER || this.#fairQueue.isProviderClosed(provider)) return;
    const lookup = this.#options.mailRouting.lookUpProvider(destination);
    if (lookup === null) return;
    this.#fairQueue.closeProvider(provider);
    void lookup.then(() => this.#openAfterLookup(provider, destination));
  }

  /** Opens the tenant queues of a destination whose look-up has ended, under the provider that it found. */
  #openAfterLookup(former: string, destination: string): void {
    const current = this.#options.mailRouting.providerOf(destination);
    const moved = this.#fairQueue.reopenProvider(former, current);
    const projects = new Set(moved.map((delivery) => delivery.message.projectId));
    const excess = [...projects].flatMap((projectId) =>
      this.#fairQueue.takeExcess(projectId, current),
    );
    void this.#release(excess, () => 0);
    this.#startReady();
  }

  /** Starts deliveries until none may start now, and releases the deliveries of suspended providers. */
  #startReady(): void {
    if (this.#options.unsettled.mustWait) return;
    for (let delivery = this.#startNext(); delivery !== null; delivery = this.#startNext()) {
      void this.#run(delivery);
    }
    for (const provider of this.#fairQueue.takeSuspendedProviders())
      this.#releaseSuspended(provider);
  }

  #startNext(): Delivery | null {
    try {
      return this.#fairQueue.startNext();
    } catch (error) {
      this.#options.log.error(
        { err: error },
        'the fair queue could not start a delivery; this worker tries again when another one ends',
      );
      return null;
    }
  }

  /** Releases the deliveries of a suspended provider until the suspension ends, except those that expire before. */
  #releaseSuspended(provider: string): void {
    const { connections, world } = this.#options;
    const suspendedForMs = connections.suspendedForMs(provider);
    const nowMs = world.monotonicMs();
    const toRelease: Delivery[] = [];
    for (const delivery of this.#fairQueue.takeQueued(provider)) {
      const isUrgent = delivery.expiresAtMs - nowMs < suspendedForMs;
      if (!isUrgent || this.#fairQueue.isProviderFull(provider)) {
        toRelease.push(delivery);
        continue;
      }
      this.#fairQueue.startOutOfTurn(delivery);
      void this.#run(delivery);
    }
    void this.#release(toRelease, ({ expiresAtMs }) =>
      expiresAtMs - nowMs < suspendedForMs
        ? URGENT_RETRY_MS
        : suspendedForMs + world.random() * RESUME_SPREAD_MS,
    );
  }

  async #release(
    deliveries: readonly Delivery[],
    delayMsOf: (delivery: Delivery) => number,
  ): Promise<void> {
    const decidedMs = this.#options.world.monotonicMs();
    const claims = deliveries.map((delivery) => {
      this.#inMemory.delete(delivery);
      const { projectId, id: emailId } = delivery.message;
      return { ...delivery, projectId, emailId, delayMs: delayMsOf(delivery) };
    });
    await this.#queue.release(claims);
    const delayed = claims.filter(({ delayMs }) => delayMs >= EARLY_RETRIES_FROM_MS);
    this.#options.earlyRetries.noteDelayed(delayed, decidedMs);
  }

  async #run(delivery: Delivery): Promise<void> {
    const { deliver, log } = this.#options;
    this.#queue.noteWork();
    const slotTimer = setInterval(
      () => this.#leaveSlotIfSlow(delivery, slotTimer),
      SILENT_AFTER_MS,
    );
    try {
      // A lock timeout is thrown. The delivery is then released, or found again by the leased queue.
      const result = await whenAvailable(() => deliver(delivery, this.#cutoff), {
        pauseMs: UNAVAILABLE_PAUSE_MS,
        mayRetry: () => this.#isRunning,
      });
      if (result?.kind !== 'settled') await this.#release([delivery], () => result?.delayMs ?? 0);
    } catch (error) {
      // Either a lock was not granted in time, or it is a bug. The delivery is released and due again in a minute.
      const level = error instanceof DatabaseUnavailable ? 'warn' : 'error';
      log[level](
        { err: error, email_id: delivery.message.id },
        'this worker could not finish a delivery, and releases it; the delivery is retried in a minute',
      );
      await this.#release([delivery], () => 60_000);
    } finally {
      clearInterval(slotTimer);
      this.#inMemory.delete(delivery);
      this.#endDelivery(delivery);
      this.#startReady();
      if (this.#fairQueue.runningCount === 0) this.#resolveIdle?.();
      this.#pollForMore(delivery);
    }
  }

  /** Checks a delivery each second. One that waits for a silent server leaves its slot to others. */
  #leaveSlotIfSlow(delivery: Delivery, slotTimer: NodeJS.Timeout): void {
    if (this.#fairQueue.leaveSlotIfSlow(delivery)) clearInterval(slotTimer);
    this.#startReady();
  }

  /** Polls the table when it has more mail and the tenant queue of an ended delivery has space for it. */
  #pollForMore(delivery: Delivery): void {
    if (this.#claims.hasMore && this.#fairQueue.needsClaims(delivery)) this.#queue.pollSoon();
  }

  #endDelivery(delivery: Delivery): void {
    try {
      this.#fairQueue.endDelivery(delivery);
    } catch (error) {
      const logFields = { err: error, email_id: delivery.message.id };
      this.#options.log.error(
        logFields,
        'the fair queue could not record the end of a delivery; it counts as running until a restart',
      );
    }
  }

  /**
   * Claims due recipients while there is memory.
   * @returns milliseconds until the next poll, or null for the default
   */
  async #claim(leaseId: string): Promise<number | null> {
    if (this.#options.unsettled.mustWait) return null;
    this.#startReady();
    const { claimed, nextPoll } = await this.#claims.claimDue(leaseId);
    const sendable = await this.#holdPaused(claimed, leaseId);
    if (sendable.length > 0) {
      failpoint('claim_before_load');
      const deliveries = await deliveriesOfClaims(sendable, { ...this.#options, leaseId });
      this.#enqueueAll(this.#withProviders(deliveries));
    }
    return NEXT_POLL_MS[nextPoll];
  }

  *#keysInMemory(): Iterable<RecipientKey> {
    for (const { message, position } of this.#inMemory) yield { emailId: message.id, position };
    yield* this.#options.unsettled.kept();
  }

  /**
   * Puts mail of paused sending domains on hold until it expires.
   * @returns the other recipients
   */
  async #holdPaused(
    claimed: readonly ClaimedRecipient[],
    leaseId: string,
  ): Promise<readonly ClaimedRecipient[]> {
    const paused = claimed.filter(({ isPaused, remainingMs }) => isPaused && remainingMs > 0);
    if (paused.length === 0) return claimed;
    await this.#queue.release(
      paused.map((recipient) => ({
        ...recipient,
        leaseId,
        onHold: true,
        delayMs: recipient.remainingMs,
      })),
    );
    return claimed.filter((recipient) => !paused.includes(recipient));
  }
}
