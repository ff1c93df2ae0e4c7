/**
 * What the sessions of one SMTP server share besides connections (smtp-server-admission.ts): how much
 * content they may hold, how often a client may do something.
 */
import type { World } from '../../core/world.ts';
import type { SmtpServerLimits } from './server-types.ts';

const WINDOW_MS = 60_000;
/** Clients that are counted; beyond that all counting starts anew. */
const CLIENTS_MAX = 50_000;

/** Counts by client, within a minute. */
export class MinuteCounts {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #windows = new Map<string, { sinceMs: number; count: number }>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /** Counts one more of this client; false: it has had `max` within this minute. */
  add(client: string, max: number): boolean {
    if (max === Infinity) return true;
    const nowMs = this.#world.monotonicMs();
    let window = this.#windows.get(client);
    if (window === undefined || nowMs - window.sinceMs >= WINDOW_MS) {
      if (this.#windows.size >= CLIENTS_MAX) this.#windows.clear();
      window = { sinceMs: nowMs, count: 0 };
      this.#windows.set(client, window);
    }
    if (window.count >= max) return false;
    window.count += 1;
    return true;
  }

  /** One that was counted is not to count. */
  takeBack(client: string): void {
    const window = this.#windows.get(client);
    if (window !== undefined && window.count > 0) window.count -= 1;
  }
}

/** A message whose end has not come yet. */
export type UnfinishedMessage = {
  readonly client: string;
  readonly heldBytes: number;
  /** Gives back all that it holds; what still comes of it is not kept. */
  evict(): void;
};

/**
 * The memory for content of all sessions together. Taken as octets come, never as announced. When it is
 * used up, a client that holds less than an equal share takes from the one that holds most (max-min
 * fairness): whoever leaves large messages unfinished loses them first, and cannot keep out small ones.
 */
export class ContentBudget {
  readonly #bytesMax: number;
  #bytes = 0;
  readonly #unfinished = new Set<UnfinishedMessage>();

  constructor({ contentBytes }: Pick<SmtpServerLimits, 'contentBytes'>) {
    this.#bytesMax = contentBytes;
  }

  /** Whether a message of this size may find room: what is unfinished may have to yield. */
  mayHold(bytes: number): boolean {
    let held = this.#bytes;
    for (const { heldBytes } of this.#unfinished) held -= heldBytes;
    return held + bytes <= this.#bytesMax;
  }

  begin(message: UnfinishedMessage): void {
    this.#unfinished.add(message);
  }

  /** It is complete, or over; what it holds is given back by whoever is done with it. */
  end(message: UnfinishedMessage): void {
    this.#unfinished.delete(message);
  }

  /** Whether there was room; what was taken is given back with `giveBack`. */
  take(message: UnfinishedMessage, bytes: number): boolean {
    while (this.#bytes + bytes > this.#bytesMax) {
      const victim = this.#victimFor(message, bytes);
      if (victim === null) return false;
      victim.evict();
    }
    this.#bytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#bytes -= bytes;
  }

  /** The oldest message of the client that holds most; null when the asking client has its share. */
  #victimFor({ client }: UnfinishedMessage, bytes: number): UnfinishedMessage | null {
    const held = new Map<string, number>([[client, 0]]);
    for (const one of this.#unfinished) {
      held.set(one.client, (held.get(one.client) ?? 0) + one.heldBytes);
    }
    const share = this.#bytesMax / held.size;
    if ((held.get(client) ?? 0) + bytes > share) return null;
    const [greediest, most] = [...held].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most <= share) return null;
    for (const one of this.#unfinished) {
      if (one.client === greediest && one.heldBytes > 0) return one;
    }
    return null;
  }
}
