/**
 * What the sessions of one SMTP server share: which connections may be open (`Admission`), how much
 * content they may hold (`ContentBudget`), how often a client may do something (`MinuteCounts`).
 */
import { LRUCache } from 'lru-cache';
import type { World } from '../../core/world.ts';
import { closing, type SmtpAnswer, type SmtpServerLimits } from './server-types.ts';

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
 * fairness): large unfinished messages are dropped first and cannot keep out small ones.
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

  /** It is complete or over; what it holds is given back by the caller of `take`. */
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
    const [largest, most] = [...held].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most <= share) return null;
    for (const one of this.#unfinished) {
      if (one.client === largest && one.heldBytes > 0) return one;
    }
    return null;
  }
}

const KNOWN_FOR_MS = 24 * 3600_000;
/** A log-in is announced again after this long, because other workers may have been restarted. */
const ANNOUNCED_EVERY_MS = 600_000;
const KNOWN_MAX = 20_000;
/** How many times the anonymous connections of another a known client may have. */
const KNOWN_TIMES = 5;

const FULL = closing(421, '4.3.2', 'All connections are in use; try again later');
const NEEDED = closing(421, '4.3.2', 'Others need this connection; try again later');
const TOO_MANY = closing(421, '4.7.0', 'Too many connections from your address; close some first');
const TOO_FAST = closing(421, '4.7.0', 'Too many new connections from your address; wait a minute');

/** Clients that have logged in lately, at whichever port and worker. */
export class KnownClients {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #announce: (client: string) => void;
  /** In the order of their last log-in. */
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

/** One connection, while it is counted. */
export type Visit = {
  loggedIn(): void;
  /** It handed in a message, so it goes to the end of those that may be replaced. */
  progressed(): void;
  leave(): void;
};

type Entry = { client: string; isAnonymous: boolean; shut: (answer: SmtpAnswer) => void };
type OfClient = { all: number; anonymous: number };

/**
 * A connection is anonymous until it logs in; on a port without log-in all are. Anonymous connections
 * share a part of all; each client may have few of them and open a limited number a minute. When their
 * part is full, a new one replaces the one that has waited longest without a log-in or a message: a
 * client that only holds connections loses them, and a client that logs in within a second gets through
 * although others open hundreds in that time. The remaining connections are for clients that are logged
 * in, and for those that logged in within a day.
 */
export class Admission {
  readonly #limits: SmtpServerLimits;
  readonly #known: KnownClients;
  readonly #arrivals: MinuteCounts;
  readonly #open = new Set<Entry>();
  /** Anonymous ones of clients that are not known; who has waited longest comes first. */
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
   * @param shut called when the place is needed: the connection is not counted any more
   * @returns the answer that refuses it when there is no room
   */
  enter(client: string, shut: (answer: SmtpAnswer) => void): Visit | { refused: SmtpAnswer } {
    const isKnown = this.#known.has(client);
    const refused = this.#refuses(client, isKnown) ?? this.#makeRoom(isKnown);
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

  #makeRoom(isKnown: boolean): SmtpAnswer | null {
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
    // Only those count that do not log in: some applications open one for every message.
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
