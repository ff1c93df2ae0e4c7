/**
 * Limits running deliveries. A delivery that waits for a silent server leaves its slot, so deliveries that make
 * progress always find one (docs/decisions/0035-slots-for-what-moves.md).
 *
 * A delivery starts in a slot of one of two kinds. `prompt` is for providers whose last attempt got a session at once, `trial`
 * for all others: whatever is silent is in a trial slot, so that mail to a provider that answers finds a
 * slot at once. Of each kind a project may have as many slots as it leaves free of the shared ones, and a project that has
 * next to none always finds one among the reserved.
 *
 * A delivery that has no session after SILENT_AFTER_MS, or has not ended after SLOW_AFTER times that, leaves its
 * slot and waits in a budget of its own: WAITING_MAX deliveries, and half of the memory for deliveries, which comes
 * first. When it is full, the delivery that has waited longest without a session, of the project that has most, is
 * given up and tried again later. One with a session is never given up.
 */
export type SlotKind = 'prompt' | 'trial';

const SLOTS = { prompt: { shared: 512, reserved: 64 }, trial: { shared: 256, reserved: 32 } };
/** Slots that a project may have whatever others have, as long as there are reserved ones. */
const RESERVED_EACH = 2;
/** A server nearby greets within milliseconds; one that greets later is waited for outside of the slots. */
export const SILENT_AFTER_MS = 1_000;
/** That many times as long for one with a session. */
const SLOW_AFTER = 5;
const WAITING_MAX = 2_000;
const PROJECT_WAITING_MAX = WAITING_MAX / 4;
/** A project with fewer gives none up for the memory. */
const PROJECT_WAITING_FEW = 16;

export class Place {
  readonly projectId: string;
  readonly weightBytes: number;
  slotKind: SlotKind | null;
  group: WaitingGroup | null = null;
  /** A connection was begun: giving it up is an attempt that failed. */
  isConnecting = false;
  hasSession = false;
  /** How often it was asked whether it leaves its slot. */
  checks = 0;
  readonly #ending = new AbortController();

  constructor(projectId: string, parts: { slotKind: SlotKind; weightBytes: number }) {
    this.projectId = projectId;
    this.weightBytes = parts.weightBytes;
    this.slotKind = parts.slotKind;
  }

  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  connecting(): void {
    this.isConnecting = true;
  }

  /** A session is ready: from here on it is not given up. */
  greeted(): void {
    this.hasSession = true;
    this.group?.ungreeted.delete(this);
  }

  giveUp(): void {
    this.#ending.abort();
  }
}

type WaitingGroup = {
  readonly projectId: string;
  count: number;
  /** In the order in which they left their slots. */
  readonly ungreeted: Set<Place>;
};

export class Slots {
  readonly #kinds = {
    prompt: new SlotsOfOneKind(SLOTS.prompt),
    trial: new SlotsOfOneKind(SLOTS.trial),
  };
  readonly #groups = new Map<string, WaitingGroup>();
  readonly #waitingBytesMax: number;
  #waiting = 0;
  #waitingBytes = 0;

  constructor({ waitingBytesMax }: { waitingBytesMax: number }) {
    this.#waitingBytesMax = waitingBytesMax;
  }

  get waiting(): number {
    return this.#waiting;
  }

  mayStart(slotKind: SlotKind, projectId: string): boolean {
    return this.#kinds[slotKind].mayStart(projectId);
  }

  start(slotKind: SlotKind, projectId: string, weightBytes: number): Place {
    this.#kinds[slotKind].take(projectId);
    return new Place(projectId, { slotKind, weightBytes });
  }

  end(place: Place): void {
    if (place.slotKind !== null) this.#kinds[place.slotKind].leave(place.projectId);
    place.slotKind = null;
    this.#stopWaiting(place);
  }

  /** To be called every SILENT_AFTER_MS. Leaves its slot if it is time. @returns whether it has none (any more) */
  leave(place: Place): boolean {
    if (place.slotKind === null) return true;
    place.checks += 1;
    if (place.hasSession && place.checks < SLOW_AFTER) return false;
    const group = this.#group(place.projectId);
    // Those with a session hold the whole budget: this one keeps its slot, which slows only its own project.
    if (!this.#makeRoom(group)) return false;
    this.#kinds[place.slotKind].leave(place.projectId);
    place.slotKind = null;
    place.group = group;
    if (!place.hasSession) group.ungreeted.add(place);
    group.count += 1;
    this.#groups.set(group.projectId, group);
    this.#waiting += 1;
    this.#waitingBytes += place.weightBytes;
    return true;
  }

  #makeRoom(own: WaitingGroup): boolean {
    if (own.count >= PROJECT_WAITING_MAX && !this.#giveUpOldest(own)) return false;
    const isFull = this.#waiting >= WAITING_MAX;
    if (!isFull && this.#waitingBytes < this.#waitingBytesMax) return true;
    const most = this.#largestGroup() ?? own;
    if (!isFull && most.count < PROJECT_WAITING_FEW) return true;
    return this.#giveUpOldest(most);
  }

  #giveUpOldest(group: WaitingGroup): boolean {
    const [oldest] = group.ungreeted;
    if (!oldest) return false;
    this.#stopWaiting(oldest);
    oldest.giveUp();
    return true;
  }

  #stopWaiting(place: Place): void {
    const { group } = place;
    if (group === null) return;
    place.group = null;
    group.ungreeted.delete(place);
    group.count -= 1;
    if (group.count === 0) this.#groups.delete(group.projectId);
    this.#waiting -= 1;
    this.#waitingBytes -= place.weightBytes;
  }

  /** Of those with anything to give up. */
  #largestGroup(): WaitingGroup | null {
    let most: WaitingGroup | null = null;
    for (const group of this.#groups.values()) {
      if (group.ungreeted.size > (most?.ungreeted.size ?? 0)) most = group;
    }
    return most;
  }

  #group(projectId: string): WaitingGroup {
    return this.#groups.get(projectId) ?? { projectId, count: 0, ungreeted: new Set() };
  }
}

class SlotsOfOneKind {
  readonly #shared: number;
  readonly #reserved: number;
  readonly #byProject = new Map<string, number>();
  #used = 0;

  constructor({ shared, reserved }: { shared: number; reserved: number }) {
    this.#shared = shared;
    this.#reserved = reserved;
  }

  mayStart(projectId: string): boolean {
    const own = this.#byProject.get(projectId) ?? 0;
    if (own < this.#shared - this.#used) return true;
    return own < RESERVED_EACH && this.#used < this.#shared + this.#reserved;
  }

  take(projectId: string): void {
    this.#byProject.set(projectId, (this.#byProject.get(projectId) ?? 0) + 1);
    this.#used += 1;
  }

  leave(projectId: string): void {
    const own = this.#byProject.get(projectId) ?? 0;
    if (own > 1) this.#byProject.set(projectId, own - 1);
    else this.#byProject.delete(projectId);
    this.#used -= 1;
  }
}
