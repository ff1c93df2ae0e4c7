/**
 * Limits running deliveries. A delivery that waits for a silent server leaves its slot, so deliveries that make
 * progress always find one (docs/decisions/0035-slots-for-deliveries-in-progress.md).
 *
 * There are two kinds of slots. `prompt` is for providers whose last attempt got a session at once, `trial` for all
 * others. Silent servers occupy only trial slots, so mail to a provider that answers finds a slot at once. A project
 * may have as many shared slots of a kind as it leaves free. A project with at most one slot can also use a reserved
 * one.
 *
 * A delivery leaves its slot when it has no session after SILENT_AFTER_MS, or has not ended after SLOW_AFTER_CHECKS
 * times that. It is then slotless. Slotless deliveries have a separate budget: half of the memory for deliveries, which
 * is 1,024 of them. A project may have PROJECT_SLOTLESS_MAX. When the budget is full, the project with the most
 * slotless deliveries gives one up: the one that has waited longest without a session. It is retried later. A delivery
 * with a session is never given up.
 */
export type SlotKind = 'prompt' | 'trial';

const SLOTS = { prompt: { shared: 512, reserved: 64 }, trial: { shared: 256, reserved: 32 } };
/** Slots that a project may have while reserved ones are left, regardless of the other projects. */
const RESERVED_PER_PROJECT = 2;
/** A nearby server greets within milliseconds. The wait for a slower one continues without a slot. */
export const SILENT_AFTER_MS = 1_000;
/** Multiple of SILENT_AFTER_MS after which a delivery with a session leaves its slot. */
const SLOW_AFTER_CHECKS = 5;
const SLOTLESS_MAX = 2_000;
const PROJECT_SLOTLESS_MAX = SLOTLESS_MAX / 4;
/** A project with fewer slotless deliveries gives none up when the memory is full. */
const PROJECT_SLOTLESS_MIN = 16;

/** A running delivery, as the limits on slots see it. It may have left its slot. */
export class SlotUse {
  readonly projectId: string;
  readonly weightBytes: number;
  slotKind: SlotKind | null;
  group: SlotlessGroup | null = null;
  /** True after a connection was begun; giving the delivery up then counts as a failed attempt. */
  isConnecting = false;
  hasSession = false;
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

  markConnecting(): void {
    this.isConnecting = true;
  }

  /** Records that a session is ready. From here on the delivery is not given up. */
  markGreeted(): void {
    this.hasSession = true;
    this.group?.ungreeted.delete(this);
  }

  giveUp(): void {
    this.#ending.abort();
  }
}

type SlotlessGroup = {
  readonly projectId: string;
  count: number;
  readonly ungreeted: Set<SlotUse>;
};

export class Slots {
  readonly #kinds = {
    prompt: new SlotsOfOneKind(SLOTS.prompt),
    trial: new SlotsOfOneKind(SLOTS.trial),
  };
  readonly #groups = new Map<string, SlotlessGroup>();
  readonly #slotlessBytesMax: number;
  #slotless = 0;
  #slotlessBytes = 0;

  constructor({ slotlessBytesMax }: { slotlessBytesMax: number }) {
    this.#slotlessBytesMax = slotlessBytesMax;
  }

  get slotlessCount(): number {
    return this.#slotless;
  }

  mayStart(slotKind: SlotKind, projectId: string): boolean {
    return this.#kinds[slotKind].mayStart(projectId);
  }

  start(slotKind: SlotKind, projectId: string, weightBytes: number): SlotUse {
    this.#kinds[slotKind].take(projectId);
    return new SlotUse(projectId, { slotKind, weightBytes });
  }

  end(use: SlotUse): void {
    if (use.slotKind !== null) this.#kinds[use.slotKind].leave(use.projectId);
    use.slotKind = null;
    this.#leaveGroup(use);
  }

  /**
   * Takes a delivery out of its slot if it waits for its server, or has run for too long. Called for each delivery
   * every SILENT_AFTER_MS.
   * @returns whether the delivery has no slot now
   */
  leaveSlotIfSlow(use: SlotUse): boolean {
    if (use.slotKind === null) return true;
    use.checks += 1;
    if (use.hasSession && use.checks < SLOW_AFTER_CHECKS) return false;
    const group = this.#groupOf(use.projectId);
    // Deliveries with a session use the whole budget. This one keeps its slot, which slows only its own project.
    if (!this.#makeRoom(group)) return false;
    this.#kinds[use.slotKind].leave(use.projectId);
    use.slotKind = null;
    use.group = group;
    if (!use.hasSession) group.ungreeted.add(use);
    group.count += 1;
    this.#groups.set(group.projectId, group);
    this.#slotless += 1;
    this.#slotlessBytes += use.weightBytes;
    return true;
  }

  #makeRoom(own: SlotlessGroup): boolean {
    if (own.count >= PROJECT_SLOTLESS_MAX && !this.#giveUpOldest(own)) return false;
    const isFull = this.#slotless >= SLOTLESS_MAX;
    if (!isFull && this.#slotlessBytes < this.#slotlessBytesMax) return true;
    const largest = this.#largestGroup() ?? own;
    if (!isFull && largest.count < PROJECT_SLOTLESS_MIN) return true;
    return this.#giveUpOldest(largest);
  }

  #giveUpOldest(group: SlotlessGroup): boolean {
    const [oldest] = group.ungreeted;
    if (!oldest) return false;
    this.#leaveGroup(oldest);
    oldest.giveUp();
    return true;
  }

  #leaveGroup(use: SlotUse): void {
    const { group } = use;
    if (group === null) return;
    use.group = null;
    group.ungreeted.delete(use);
    group.count -= 1;
    if (group.count === 0) this.#groups.delete(group.projectId);
    this.#slotless -= 1;
    this.#slotlessBytes -= use.weightBytes;
  }

  #largestGroup(): SlotlessGroup | null {
    let largest: SlotlessGroup | null = null;
    for (const group of this.#groups.values()) {
      if (group.ungreeted.size > (largest?.ungreeted.size ?? 0)) largest = group;
    }
    return largest;
  }

  #groupOf(projectId: string): SlotlessGroup {
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
    const used = this.#byProject.get(projectId) ?? 0;
    if (used < this.#shared - this.#used) return true;
    return used < RESERVED_PER_PROJECT && this.#used < this.#shared + this.#reserved;
  }

  take(projectId: string): void {
    this.#byProject.set(projectId, (this.#byProject.get(projectId) ?? 0) + 1);
    this.#used += 1;
  }

  leave(projectId: string): void {
    const used = this.#byProject.get(projectId) ?? 0;
    if (used > 1) this.#byProject.set(projectId, used - 1);
    else this.#byProject.delete(projectId);
    this.#used -= 1;
  }
}
