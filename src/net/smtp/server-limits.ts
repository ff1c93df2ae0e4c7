/** State that the sessions of an SMTP server share: connections, memory for content, rates per client. */
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import { closing, type SmtpAnswer, type SmtpServerLimits } from './server-types.ts';

const WINDOW_MS = 60_000;
/** Limit on counted clients. Beyond it, all counts are reset. */
const CLIENTS_MAX = 50_000;

export class MinuteCounts {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #windows = new Map<string, { sinceMs: number; count: number }>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /** Counts one event of the client; false when it had `max` in this minute. */
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

  takeBack(client: string): void {
    const window = this.#windows.get(client);
    if (window !== undefined && window.count > 0) window.count -= 1;
  }
}

export type UnfinishedMessage = {
  readonly client: string;
  readonly usedBytes: number;
  /** Releases all its memory. Further content is discarded. */
  evict(): void;
};

/**
 * The memory for the content of all sessions. Octets take memory when they arrive, not when their size is announced.
 * When none is left, a client with less than an equal share takes memory from the client with the most (max-min
 * fairness). So large unfinished messages are dropped first and cannot block small ones.
 */
export class ContentBudget {
  readonly #bytesMax: number;
  #bytes = 0;
  readonly #unfinished = new Set<UnfinishedMessage>();

  constructor({ contentBytes }: Pick<SmtpServerLimits, 'contentBytes'>) {
    this.#bytesMax = contentBytes;
  }

  /** Returns whether a message of this size fits, if necessary by evicting unfinished ones. */
  fits(bytes: number): boolean {
    let used = this.#bytes;
    for (const { usedBytes } of this.#unfinished) used -= usedBytes;
    return used + bytes <= this.#bytesMax;
  }

  begin(message: UnfinishedMessage): void {
    this.#unfinished.add(message);
  }

  /** Ends the message, complete or not. The caller of `take` must still release its memory. */
  end(message: UnfinishedMessage): void {
    this.#unfinished.delete(message);
  }

  /** Takes memory until `giveBack`; false when there is none. */
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

  /** Returns the oldest message of the client with the most memory; null when this client has its share. */
  #victimFor({ client }: UnfinishedMessage, bytes: number): UnfinishedMessage | null {
    const used = new Map<string, number>([[client, 0]]);
    for (const one of this.#unfinished) {
      used.set(one.client, (used.get(one.client) ?? 0) + one.usedBytes);
    }
    const share = this.#bytesMax / used.size;
    if ((used.get(client) ?? 0) + bytes > share) return null;
    const [largest, most] = [...used].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most <= share) return null;
    for (const one of this.#unfinished) {
      if (one.client === largest && one.usedBytes > 0) return one;
    }
    return null;
  }
}

const KNOWN_FOR_MS = 24 * 3600_000;
/** Milliseconds until a log-in is announced again, because other workers may have restarted. */
const ANNOUNCED_EVERY_MS = 600_000;
const KNOWN_MAX = 20_000;
/** A known client may have this multiple of the anonymous connections of others. */
const KNOWN_TIMES = 5;

const FULL = closing(421, '4.3.2', 'All connections are in use; try again later');
const NEEDED = closing(
  421,
  '4.3.2',
  'This connection is needed for other clients; try again later',
);
const TOO_MANY = closing(421, '4.7.0', 'Too many connections from your address; close some first');
const TOO_FAST = closing(421, '4.7.0', 'Too many new connections from your address; wait a minute');

export class KnownClients {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #announce: (client: string) => void;
  /** Milliseconds of the last log-in by client, in the order of log-ins. */
  readonly #lastMs = new LRUCache<string, number>({ max: KNOWN_MAX });

  /** @param announce sends a log-in to the other workers, which call `note` */
  constructor(world: Pick<World, 'monotonicMs'>, announce: (client: string) => void = () => {}) {
    this.#world = world;
    this.#announce = announce;
  }

  has(client: string): boolean {
    const lastMs = this.#lastMs.get(client);
    return lastMs !== undefined && this.#world.monotonicMs() - lastMs < KNOWN_FOR_MS;
  }

  loggedIn(client: string): void {
    const lastMs = this.#lastMs.get(client);
    const isAnnounced =
      lastMs !== undefined && this.#world.monotonicMs() - lastMs < ANNOUNCED_EVERY_MS;
    if (isAnnounced) return;
    this.note(client);
    this.#announce(client);
  }

  note(client: string): void {
    this.#lastMs.set(client, this.#world.monotonicMs());
  }
}

export type Visit = {
  loggedIn(): void;
  /** Call it after a message: the connection becomes the last one to be replaced. */
  progressed(): void;
  leave(): void;
};

type Entry = { client: string; isAnonymous: boolean; shut: (answer: SmtpAnswer) => void };
type OfClient = { all: number; anonymous: number };

/**
 * Admits connections. A connection is anonymous until it logs in; on a port without log-in, all are. Anonymous
 * connections share a part of all connections, with limits per client and on new ones per minute. When that part is
 * full, a new connection replaces the one that has waited longest without a log-in or a message. So a client that
 * only keeps connections open loses them. A client that logs in within a second succeeds, even if others open
 * hundreds meanwhile. The remaining connections are for clients that are logged in, or logged in within the last
 * day.
 */
export class Admission {
  readonly #limits: SmtpServerLimits;
  readonly #known: KnownClients;
  readonly #arrivals: MinuteCounts;
  readonly #open = new Set<Entry>();
  /** Anonymous connections of unknown clients, in the order of replacement. */
  readonly #waiting = new Set<Entry>();
  readonly #perClient = new Map<string, OfClient>();

  constructor(
    limits: SmtpServerLimits,
    { world, known }: { world: Pick<World, 'monotonicMs'>; known: KnownClients },
  ) {
    this.#limits = limits;
    this.#known = known;
    this.#arrivals = new MinuteCounts(world);
  }

  /**
   * @param shut called when the connection is replaced; it is no longer counted then
   * @returns the reply that refuses the connection when all are in use
   */
  enter(client: string, shut: (answer: SmtpAnswer) => void): Visit | { refused: SmtpAnswer } {
    const isKnown = this.#known.has(client);
    const refused = this.#refuses(client, isKnown) ?? this.#makeSpace(isKnown);
    if (refused !== null) return { refused };
    const entry: Entry = { client, isAnonymous: true, shut };
    this.#open.add(entry);
    if (!isKnown) this.#waiting.add(entry);
    const { all, anonymous } = this.#of(client);
    this.#perClient.set(client, { all: all + 1, anonymous: anonymous + 1 });
    return {
      loggedIn: () => this.#loggedIn(entry),
      progressed: () => {
        if (this.#waiting.delete(entry)) this.#waiting.add(entry);
      },
      leave: () => this.#leave(entry),
    };
  }

  #refuses(client: string, isKnown: boolean): SmtpAnswer | null {
    const { connectionsPerClient, anonymousPerClient, newPerClientAndMinute } = this.#limits;
    const { all, anonymous } = this.#of(client);
    const anonymousMax = anonymousPerClient * (isKnown ? KNOWN_TIMES : 1);
    if (all >= connectionsPerClient || anonymous >= anonymousMax) return TOO_MANY;
    if (isKnown || this.#arrivals.add(client, newPerClientAndMinute)) return null;
    return TOO_FAST;
  }

  #makeSpace(isKnown: boolean): SmtpAnswer | null {
    const { connections, anonymousConnections } = this.#limits;
    const isPartFull = !isKnown && this.#waiting.size >= anonymousConnections;
    if (!isPartFull && this.#open.size < connections) return null;
    const [oldest] = this.#waiting;
    if (oldest === undefined) return FULL;
    this.#leave(oldest);
    oldest.shut(NEEDED);
    return null;
  }

  #of(client: string): OfClient {
    return this.#perClient.get(client) ?? { all: 0, anonymous: 0 };
  }

  #loggedIn(entry: Entry): void {
    if (!this.#open.has(entry)) return;
    const { client } = entry;
    this.#known.loggedIn(client);
    // Some applications open a connection per message, so log-ins do not count as new connections.
    this.#arrivals.takeBack(client);
    this.#waiting.delete(entry);
    this.#countLess(entry, { all: 0 });
    entry.isAnonymous = false;
  }

  #leave(entry: Entry): void {
    if (!this.#open.delete(entry)) return;
    this.#waiting.delete(entry);
    this.#countLess(entry, { all: 1 });
  }

  #countLess({ client, isAnonymous }: Entry, { all }: { all: number }): void {
    const before = this.#of(client);
    const after = {
      all: before.all - all,
      anonymous: before.anonymous - (isAnonymous ? 1 : 0),
    };
    if (after.all === 0) this.#perClient.delete(client);
    else this.#perClient.set(client, after);
  }
}
