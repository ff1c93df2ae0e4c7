/**
 * Fair queueing in memory. Decides the order in which deliveries start, and how much memory each project uses.
 *
 * A tenant queue contains one project's mail at one provider, sorted by age. Projects are served in turn, and within a
 * project its tenant queues. So neither another project's backlog nor the project's own newsletter to a slow provider
 * delays a password reset. When a provider may start nothing (window full, suspended, route unknown), its tenant
 * queues are parked with it and cost nothing until it opens.
 *
 * A project may use at most half of the memory that other projects leave free, so the next one finds memory. The same
 * limit holds for each of its tenant queues. Running deliveries count as memory, too;
 * delivery/memory/slots.ts limits their number. Tenant queues whose provider answers come before the others of their
 * project (turn-order.ts).
 *
 * A delivery runs until its outcome is settled, but occupies its provider only until its attempt has ended. A commit
 * takes longer than a message to a nearby server, and needs no connection.
 */
import { LiveSet } from '../../lib/live-set.ts';
import type { Delivery } from './delivery.ts';
import { type SlotKind, Slots } from './slots.ts';
import { TurnOrder } from './turn-order.ts';
import { MIB } from '../../lib/units.ts';

export type ProviderRules = {
  /** Returns how many attempts of the provider may run at once on this worker; 1 or more. */
  windowOf(provider: string): number;
  /** Returns the milliseconds of a suspension, in which only mail starts that would expire; 0: none. */
  suspendedForMs(provider: string): number;
  /** Called when attempts at the provider begin or stop getting a session at once. */
  notifyPromptChange(provider: string, isPrompt: boolean): void;
};

const MEMORY_BYTES_MAX = 48 * MIB;
/** Bytes that a delivery counts: at most 2,048 fit. No content in memory is larger (content-memory.ts). */
export const WEIGHT_BYTES = 24 * 1024;
/** Limit on memory for claims; the remainder is for mail that the accept path hands over. */
const CLAIMED_BYTES_MAX = 0.7 * MEMORY_BYTES_MAX;
/** Above the first limit, the projects with the most mail release deliveries down to the second. */
const RELEASE_ABOVE_BYTES = 0.9 * MEMORY_BYTES_MAX;
const RELEASE_DOWN_TO_BYTES = 0.8 * MEMORY_BYTES_MAX;
const SLOTLESS_BYTES_MAX = 0.5 * MEMORY_BYTES_MAX;
/** Deliveries that a tenant queue may always have, however much memory its project uses. */
const QUEUE_DELIVERIES_MIN = 4;
/** A tenant queue claims as many deliveries as keep its provider busy until the next claim. */
const QUEUE_CLAIMED_PER_WINDOW = 16;
const QUEUE_CLAIMED_MAX = 256;
const PROMPT_PROVIDERS_MAX = 10_000;
const SLOT_KINDS = ['prompt', 'trial'] as const;

export class FairQueue {
  readonly #providers = new Map<string, Provider>();
  readonly #projects = new Map<string, Project>();
  readonly #ready = new Set<Project>();
  readonly #suspended = new Set<string>();
  readonly #rules: ProviderRules;
  readonly #slots = new Slots({ slotlessBytesMax: SLOTLESS_BYTES_MAX });
  readonly #prompt = new Set<string>();
  readonly #running = new LiveSet<Delivery>();
  readonly #attempts = new LiveSet<Delivery>();
  queuedCount = 0;
  weightBytes = 0;

  constructor(rules: ProviderRules) {
    this.#rules = rules;
  }

  get runningCount(): number {
    return this.#running.size;
  }

  add(delivery: Delivery): void {
    const queue = this.#queueOf(delivery);
    insertByAge(queue.deliveries, delivery);
    this.queuedCount += 1;
    this.#addWeight(queue, delivery.weightBytes);
    if (!queue.provider.parked.has(queue)) this.#makeReady(queue);
  }

  /**
   * Starts the next delivery and returns it; null when none may start now.
   * @throws when it is already running, because a second attempt would send the message twice
   */
  startNext(): Delivery | null {
    for (const project of this.#ready) {
      const turn = this.#nextTurn(project);
      if (turn === null && hasTurns(project)) continue;
      // Moves the project to the end, after those that wait for their turn.
      this.#ready.delete(project);
      if (turn === null) continue;
      const { queue, slotKind } = turn;
      const delivery = queue.deliveries.shift()!;
      if (queue.deliveries.length > 0) project.turns[slotKind].addServed(queue);
      if (hasTurns(project)) this.#ready.add(project);
      this.queuedCount -= 1;
      this.#start(queue, delivery);
      return delivery;
    }
    return null;
  }

  /**
   * Takes a delivery that waits for its server out of its slot. The dispatcher calls this every SILENT_AFTER_MS.
   * @returns whether the delivery has no slot now
   */
  leaveSlotIfSlow(delivery: Delivery): boolean {
    if (delivery.slot === undefined || !this.#attempts.has(delivery)) return true;
    const hadSlot = delivery.slot.slotKind !== null;
    const hasLeft = this.#slots.leaveSlotIfSlow(delivery.slot);
    if (hadSlot && hasLeft) this.#notePrompt(delivery.provider, false);
    return hasLeft;
  }

  /** Records the end of an attempt whose outcome will be settled. The provider may start another one. */
  endAttempt(delivery: Delivery): void {
    if (!this.#attempts.delete(delivery)) return;
    const { provider } = this.#queueOf(delivery);
    provider.attemptCount = changeCount(provider.attemptCount, -1);
    const { hasSession, slotKind } = delivery.slot!;
    if (hasSession && slotKind !== null) this.#notePrompt(delivery.provider, true);
    this.openProvider(delivery.provider);
  }

  /**
   * Ends a running delivery.
   * @throws when it is not running; no count changes then
   */
  endDelivery(delivery: Delivery): void {
    if (!this.#running.delete(delivery)) {
      throw new Error('a delivery ended that is not running');
    }
    this.endAttempt(delivery);
    const queue = this.#queueOf(delivery);
    this.#slots.end(delivery.slot!);
    delete delivery.slot;
    this.#addWeight(queue, -delivery.weightBytes);
    this.#deleteIfEmpty(queue);
    this.openProvider(delivery.provider);
  }

  markPrompt(name: string): void {
    this.#setPrompt(name, true);
  }

  /** Makes parked tenant queues ready, in turn, as far as the provider's window allows. */
  openProvider(name: string): void {
    const provider = this.#providers.get(name);
    if (!provider || provider.awaitsRoute) return;
    let free = this.#rules.windowOf(name) - provider.attemptCount;
    for (const queue of provider.parked) {
      if (free <= 0) return;
      provider.parked.delete(queue);
      this.#makeReady(queue);
      free -= queue.deliveries.length;
    }
  }

  /** Starts no delivery of the provider until `reopenProvider`. */
  closeProvider(name: string): void {
    const provider = this.#providers.get(name);
    if (provider) provider.awaitsRoute = true;
  }

  /**
   * Opens a closed provider, and moves its queued deliveries to the provider `newName`.
   * @returns the deliveries that moved
   */
  reopenProvider(name: string, newName: string): Delivery[] {
    const provider = this.#providers.get(name);
    if (!provider) return [];
    provider.awaitsRoute = false;
    this.openProvider(name);
    if (newName === name) return [];
    const moved = this.takeQueued(name);
    for (const delivery of moved) {
      delivery.provider = newName;
      this.add(delivery);
    }
    return moved;
  }

  isProviderClosed(name: string): boolean {
    return this.#providers.get(name)?.awaitsRoute ?? false;
  }

  /** Returns providers that were found suspended with deliveries in memory since the last call. */
  takeSuspendedProviders(): string[] {
    const suspended = [...this.#suspended];
    this.#suspended.clear();
    return suspended;
  }

  takeQueued(name: string): Delivery[] {
    const queues = [...(this.#providers.get(name)?.queues.values() ?? [])];
    return queues.flatMap((queue) => this.#takeBeyond(queue, 0));
  }

  takeAllQueued(): Delivery[] {
    return [...this.#providers.keys()].flatMap((name) => this.takeQueued(name));
  }

  startOutOfTurn(delivery: Delivery): void {
    const queue = this.#queueOf(delivery);
    this.#start(queue, delivery);
    this.#addWeight(queue, delivery.weightBytes);
  }

  isProviderFull(provider: string): boolean {
    return (this.#providers.get(provider)?.attemptCount ?? 0) >= this.#rules.windowOf(provider);
  }

  /** Returns whether each tenant queue of an email has few deliveries, or leaves as much memory as it uses. */
  hasSpaceFor(projectId: string, providers: readonly string[], weightBytes: number): boolean {
    if (this.weightBytes + weightBytes > MEMORY_BYTES_MAX) return false;
    const share = this.#memoryShareOf(projectId, MEMORY_BYTES_MAX);
    return providers.every((name) => {
      const queue = this.#providers.get(name)?.queues.get(projectId);
      if (!queue || queue.deliveries.length < QUEUE_DELIVERIES_MIN) return true;
      return queue.weightBytes + weightBytes / providers.length <= share;
    });
  }

  /** Returns how many more recipients may be claimed for the tenant queue. */
  claimLimit(projectId: string, name: string): number {
    const share = this.#memoryShareOf(projectId, CLAIMED_BYTES_MAX);
    const queue = this.#providers.get(name)?.queues.get(projectId);
    if (queue && queue.weightBytes >= share) return 0;
    const max = Math.min(this.#queueClaimsMax(name), Math.floor(share / WEIGHT_BYTES));
    return Math.max(0, max - (queue?.deliveries.length ?? 0));
  }

  /** Returns whether the tenant queue of an ended delivery is less than half full. */
  needsClaims({ provider, message: { projectId } }: Delivery): boolean {
    const queued = this.#providers.get(provider)?.queues.get(projectId)?.deliveries.length ?? 0;
    return this.claimLimit(projectId, provider) > queued;
  }

  get totalClaimLimit(): number {
    return Math.max(0, Math.floor((CLAIMED_BYTES_MAX - this.weightBytes) / WEIGHT_BYTES));
  }

  /** Returns tenant queues that now take no more from the table. */
  fullQueues(): { projectId: string; provider: string }[] {
    return [...this.#projects.values()]
      .flatMap((project) => [...project.queues])
      .map((queue) => ({ projectId: queue.project.id, provider: queue.provider.name }))
      .filter(({ projectId, provider }) => this.claimLimit(projectId, provider) === 0);
  }

  fullProjects(): string[] {
    return [...this.#projects.keys()].filter(
      (id) => this.#memoryShareOf(id, CLAIMED_BYTES_MAX) < WEIGHT_BYTES,
    );
  }

  /** Takes out the newest deliveries of a tenant queue beyond its limit on claims. */
  takeExcess(projectId: string, name: string): Delivery[] {
    const queue = this.#providers.get(name)?.queues.get(projectId);
    if (!queue) return [];
    return this.#takeBeyond(queue, this.#queueClaimsMax(name));
  }

  /** Takes out the newest deliveries of the projects with the most mail, above RELEASE_ABOVE_BYTES. */
  takeFromLargest(): Delivery[] {
    const taken: Delivery[] = [];
    if (this.weightBytes <= RELEASE_ABOVE_BYTES) return taken;
    while (this.weightBytes > RELEASE_DOWN_TO_BYTES) {
      const project = largest(this.#projects.values(), ({ queues }) => queuedBytesOf(queues));
      const queue = project && largest(project.queues, ({ deliveries }) => deliveries.length);
      if (!queue || queue.deliveries.length === 0) break;
      taken.push(...this.#takeBeyond(queue, Math.floor(queue.deliveries.length * 0.75)));
    }
    return taken;
  }

  #queueClaimsMax(provider: string): number {
    return Math.min(QUEUE_CLAIMED_MAX, this.#rules.windowOf(provider) * QUEUE_CLAIMED_PER_WINDOW);
  }

  /** Returns the bytes that a tenant queue or project may use: as many as the project leaves free of `maxBytes`. */
  #memoryShareOf(projectId: string, maxBytes: number): number {
    const usedBytes = this.#projects.get(projectId)?.weightBytes ?? 0;
    return Math.max(0, maxBytes - this.weightBytes - usedBytes);
  }

  #nextTurn(project: Project): { queue: TenantQueue; slotKind: SlotKind } | null {
    for (const slotKind of SLOT_KINDS) {
      if (!this.#slots.mayStart(slotKind, project.id)) continue;
      const queue = this.#takeOpenQueue(project.turns[slotKind]);
      if (queue !== null) return { queue, slotKind };
    }
    return null;
  }

  /** Takes the next tenant queue whose provider may start a delivery. Parks those before it. */
  #takeOpenQueue(turns: TurnOrder<TenantQueue>): TenantQueue | null {
    for (;;) {
      const queue = turns.takeNext();
      if (queue === null) return null;
      const { name, awaitsRoute, attemptCount } = queue.provider;
      const hasWindow = !awaitsRoute && attemptCount < this.#rules.windowOf(name);
      const isSuspended = hasWindow && this.#rules.suspendedForMs(name) > 0;
      if (hasWindow && !isSuspended) return queue;
      if (isSuspended) this.#suspended.add(name);
      queue.provider.parked.add(queue);
    }
  }

  #makeReady(queue: TenantQueue): void {
    queue.project.turns[this.#slotKindOf(queue.provider.name)].addNew(queue);
    this.#ready.add(queue.project);
  }

  #slotKindOf(provider: string): SlotKind {
    return this.#prompt.has(provider) ? 'prompt' : 'trial';
  }

  /** Records whether an attempt at the provider got a session at once, and reports a change. */
  #notePrompt(name: string, isPrompt: boolean): void {
    if (this.#setPrompt(name, isPrompt)) this.#rules.notifyPromptChange(name, isPrompt);
  }

  /**
   * Moves the tenant queues of the provider to its new kind of slots.
   * @returns whether the kind has changed
   */
  #setPrompt(name: string, isPrompt: boolean): boolean {
    if (this.#prompt.has(name) === isPrompt) return false;
    if (!isPrompt) this.#prompt.delete(name);
    else this.#prompt.add(name);
    if (this.#prompt.size > PROMPT_PROVIDERS_MAX)
      this.#prompt.delete(this.#prompt.keys().next().value!);
    const [from, to] = isPrompt ? (['trial', 'prompt'] as const) : (['prompt', 'trial'] as const);
    for (const queue of this.#providers.get(name)?.queues.values() ?? []) {
      if (queue.project.turns[from].delete(queue)) queue.project.turns[to].addServed(queue);
    }
    return true;
  }

  #start(queue: TenantQueue, delivery: Delivery): void {
    if (this.#running.has(delivery)) throw new Error('a delivery is already running');
    this.#running.add(delivery);
    this.#attempts.add(delivery);
    queue.provider.attemptCount += 1;
    const slotKind = this.#slotKindOf(queue.provider.name);
    delivery.slot = this.#slots.start(slotKind, queue.project.id, delivery.weightBytes);
  }

  /** Takes out the newest deliveries of a tenant queue beyond the first `keep`. */
  #takeBeyond(queue: TenantQueue, keep: number): Delivery[] {
    const deliveries = queue.deliveries.splice(keep);
    this.queuedCount = changeCount(this.queuedCount, -deliveries.length);
    for (const delivery of deliveries) this.#addWeight(queue, -delivery.weightBytes);
    if (queue.deliveries.length === 0) {
      for (const slotKind of SLOT_KINDS) queue.project.turns[slotKind].delete(queue);
      queue.provider.parked.delete(queue);
    }
    this.#deleteIfEmpty(queue);
    return deliveries;
  }

  #addWeight(queue: TenantQueue, bytes: number): void {
    queue.weightBytes = changeCount(queue.weightBytes, bytes);
    queue.project.weightBytes = changeCount(queue.project.weightBytes, bytes);
    this.weightBytes = changeCount(this.weightBytes, bytes);
  }

  #queueOf({ provider: name, message: { projectId } }: Delivery): TenantQueue {
    let provider = this.#providers.get(name);
    if (!provider) {
      provider = {
        name,
        queues: new Map(),
        parked: new Set(),
        attemptCount: 0,
        awaitsRoute: false,
      };
      this.#providers.set(name, provider);
    }
    let queue = provider.queues.get(projectId);
    if (!queue) {
      queue = { project: this.#projectOf(projectId), provider, deliveries: [], weightBytes: 0 };
      provider.queues.set(projectId, queue);
      queue.project.queues.add(queue);
    }
    return queue;
  }

  #projectOf(id: string): Project {
    let project = this.#projects.get(id);
    if (!project) {
      const turns = { prompt: new TurnOrder<TenantQueue>(), trial: new TurnOrder<TenantQueue>() };
      project = { id, queues: new Set(), turns, weightBytes: 0 };
      this.#projects.set(id, project);
    }
    return project;
  }

  #deleteIfEmpty(queue: TenantQueue): void {
    const { project, provider } = queue;
    // Every delivery has a weight, so at 0 nothing waits and nothing runs.
    if (queue.weightBytes > 0) return;
    provider.queues.delete(project.id);
    project.queues.delete(queue);
    if (provider.queues.size === 0) this.#providers.delete(provider.name);
    if (project.queues.size > 0) return;
    this.#projects.delete(project.id);
    this.#ready.delete(project);
  }
}

type Provider = {
  name: string;
  queues: Map<string, TenantQueue>;
  /** Tenant queues with deliveries that cannot start now, in turn. */
  parked: Set<TenantQueue>;
  attemptCount: number;
  /** Its route is being looked up, so none of its deliveries starts. */
  awaitsRoute: boolean;
};

export type TenantQueue = {
  project: Project;
  provider: Provider;
  deliveries: Delivery[];
  weightBytes: number;
};

type Project = {
  id: string;
  queues: Set<TenantQueue>;
  turns: Record<SlotKind, TurnOrder<TenantQueue>>;
  weightBytes: number;
};

function hasTurns({ turns }: Project): boolean {
  return turns.prompt.size > 0 || turns.trial.size > 0;
}

/** Inserts by age. Searches from the end, because a new delivery is nearly always the newest. */
function insertByAge(deliveries: Delivery[], delivery: Delivery): void {
  let index = deliveries.length;
  while (index > 0 && deliveries[index - 1]!.dueAtMs > delivery.dueAtMs) index -= 1;
  deliveries.splice(index, 0, delivery);
}

function queuedBytesOf(queues: Iterable<TenantQueue>): number {
  let bytes = 0;
  for (const queue of queues) if (queue.deliveries.length > 0) bytes += queue.weightBytes;
  return bytes;
}

function largest<Item>(items: Iterable<Item>, measure: (item: Item) => number): Item | null {
  let best: Item | null = null;
  let most = 0;
  for (const item of items) {
    const amount = measure(item);
    if (amount > most) [best, most] = [item, amount];
  }
  return best;
}

/**
 * Returns a count changed by `by`.
 * @throws when it would fall below 0: deliveries were counted wrongly, so no count is reliable
 */
function changeCount(count: number, by: number): number {
  const changed = count + by;
  if (changed < 0) throw new Error(`a count of the fair queue would be ${changed}`);
  return changed;
}
