/** State that the sessions of an SMTP server share: connections, memory for content, rates per client. */
import { LRUCache } from 'lru-cache';
import { cacheUpTo, type World } from '../../../lib/world.ts';
import { closingReply, type ServerReply, type SmtpServerLimits } from './server-types.ts';
import { DAY_MS } from '../../../lib/units.ts';

const WINDOW_MS = 60_000;
/** Limit on counted clients. Beyond it, all counts are reset. */
const CLIENTS_MAX = 50_000;
const KNOWN_FOR_MS = DAY_MS;
/** Milliseconds until a log-in is announced again, because other workers may have restarted. */
const ANNOUNCED_EVERY_MS = 600_000;
const KNOWN_MAX = 20_000;
/** A known client may have this multiple of the anonymous connections of others. */
const KNOWN_CLIENT_FACTOR = 5;
const ALL_IN_USE = closingReply(421, '4.3.2', 'All connections are in use; try again later');
const CONNECTION_NEEDED = closingReply(
  421,
  '4.3.2',
  'This connection is needed for other clients; try again later',
);
const TOO_MANY = closingReply(
  421,
  '4.7.0',
  'Too many connections from your address; close some first',
);
const TOO_FAST = closingReply(
  421,
  '4.7.0',
  'Too many new connections from your address; wait a minute',
);

export class MinuteCounts {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #minutes = new Map<string, { sinceMs: number; count: number }>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  /** Counts one event of the client. Returns false when it had `max` in this minute. */
  countUpTo(client: string, max: number): boolean {
    if (max === Infinity) return true;
    const nowMs = this.#world.monotonicMs();
    let minute = this.#minutes.get(client);
    if (minute === undefined || nowMs - minute.sinceMs >= WINDOW_MS) {
      if (this.#minutes.size >= CLIENTS_MAX) this.#minutes.clear();
      minute = { sinceMs: nowMs, count: 0 };
      this.#minutes.set(client, minute);
    }
    if (minute.count >= max) return false;
    minute.count += 1;
    return true;
  }

  uncount(client: string): void {
    const minute = this.#minutes.get(client);
    if (minute !== undefined && minute.count > 0) minute.count -= 1;
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
  #reservedBytes = 0;
  readonly #unfinished = new Set<UnfinishedMessage>();

  constructor({ contentBytes }: Pick<SmtpServerLimits, 'contentBytes'>) {
    this.#bytesMax = contentBytes;
  }

  /** Returns whether a message of this size fits, if necessary by evicting unfinished ones. */
  canHold(bytes: number): boolean {
    let used = this.#reservedBytes;
    for (const { usedBytes } of this.#unfinished) used -= usedBytes;
    return used + bytes <= this.#bytesMax;
  }

  begin(message: UnfinishedMessage): void {
    this.#unfinished.add(message);
  }

  /** Ends the message, complete or not. The caller of `reserve` must still release its memory. */
  end(message: UnfinishedMessage): void {
    this.#unfinished.delete(message);
  }

  /** Reserves memory until `release`. Returns false when there is none. */
  reserve(message: UnfinishedMessage, bytes: number): boolean {
    while (this.#reservedBytes + bytes > this.#bytesMax) {
      const victim = this.#victimFor(message, bytes);
      if (victim === null) return false;
      victim.evict();
    }
    this.#reservedBytes += bytes;
    return true;
  }

  release(bytes: number): void {
    this.#reservedBytes -= bytes;
  }

  /** Returns the oldest message of the client with the most memory; null when this client has its share. */
  #victimFor({ client }: UnfinishedMessage, bytes: number): UnfinishedMessage | null {
    const used = new Map<string, number>([[client, 0]]);
    for (const message of this.#unfinished) {
      used.set(message.client, (used.get(message.client) ?? 0) + message.usedBytes);
    }
    const share = this.#bytesMax / used.size;
    if ((used.get(client) ?? 0) + bytes > share) return null;
    const [largest, most] = [...used].reduce((a, b) => (b[1] > a[1] ? b : a));
    if (most <= share) return null;
    for (const message of this.#unfinished) {
      if (message.client === largest && message.usedBytes > 0) return message;
    }
    return null;
  }
}

export class KnownClients {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #announce: (client: string) => void;
  /** Milliseconds of the last log-in by client, in the order of log-ins. */
  readonly #lastMs = new LRUCache<string, number>(cacheUpTo(KNOWN_MAX));

  /** @param announce sends a log-in to the other workers, which call `addKnown` */
  constructor(world: Pick<World, 'monotonicMs'>, announce: (client: string) => void = () => {}) {
    this.#world = world;
    this.#announce = announce;
  }

  has(client: string): boolean {
    const lastMs = this.#lastMs.get(client);
    return lastMs !== undefined && this.#world.monotonicMs() - lastMs < KNOWN_FOR_MS;
  }

  recordLogIn(client: string): void {
    const lastMs = this.#lastMs.get(client);
    const isAnnounced =
      lastMs !== undefined && this.#world.monotonicMs() - lastMs < ANNOUNCED_EVERY_MS;
    if (isAnnounced) return;
    this.addKnown(client);
    this.#announce(client);
  }

  addKnown(client: string): void {
    this.#lastMs.set(client, this.#world.monotonicMs());
  }
}

export type AdmittedConnection = {
  recordLogIn(): void;
  /** Makes the connection the last one to be replaced, because it sent a message. */
  recordMessage(): void;
  release(): void;
};

type Connection = { client: string; isAnonymous: boolean; close: (reply: ServerReply) => void };
type ClientCounts = { total: number; anonymous: number };

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
  readonly #newConnections: MinuteCounts;
  readonly #open = new Set<Connection>();
  /** Anonymous connections of unknown clients, in the order of replacement. */
  readonly #replaceable = new Set<Connection>();
  readonly #perClient = new Map<string, ClientCounts>();

  constructor(
    limits: SmtpServerLimits,
    { world, known }: { world: Pick<World, 'monotonicMs'>; known: KnownClients },
  ) {
    this.#limits = limits;
    this.#known = known;
    this.#newConnections = new MinuteCounts(world);
  }

  /**
   * @param close called when the connection is replaced; it is no longer counted then
   * @returns the reply that refuses the connection when all are in use
   */
  admit(
    client: string,
    close: (reply: ServerReply) => void,
  ): AdmittedConnection | { refused: ServerReply } {
    const isKnown = this.#known.has(client);
    const refused = this.#limitReached(client, isKnown) ?? this.#makeSpace(isKnown);
    if (refused !== null) return { refused };
    const connection: Connection = { client, isAnonymous: true, close };
    this.#open.add(connection);
    if (!isKnown) this.#replaceable.add(connection);
    const { total, anonymous } = this.#countsOf(client);
    this.#perClient.set(client, { total: total + 1, anonymous: anonymous + 1 });
    return {
      recordLogIn: () => this.#recordLogIn(connection),
      recordMessage: () => {
        if (this.#replaceable.delete(connection)) this.#replaceable.add(connection);
      },
      release: () => this.#release(connection),
    };
  }

  #limitReached(client: string, isKnown: boolean): ServerReply | null {
    const { connectionsPerClient, anonymousPerClient, newPerClientAndMinute } = this.#limits;
    const { total, anonymous } = this.#countsOf(client);
    const anonymousMax = anonymousPerClient * (isKnown ? KNOWN_CLIENT_FACTOR : 1);
    if (total >= connectionsPerClient || anonymous >= anonymousMax) return TOO_MANY;
    if (isKnown || this.#newConnections.countUpTo(client, newPerClientAndMinute)) return null;
    return TOO_FAST;
  }

  #makeSpace(isKnown: boolean): ServerReply | null {
    const { connections, anonymousConnections } = this.#limits;
    const isPartFull = !isKnown && this.#replaceable.size >= anonymousConnections;
    if (!isPartFull && this.#open.size < connections) return null;
    const [oldest] = this.#replaceable;
    if (oldest === undefined) return ALL_IN_USE;
    this.#release(oldest);
    oldest.close(CONNECTION_NEEDED);
    return null;
  }

  #countsOf(client: string): ClientCounts {
    return this.#perClient.get(client) ?? { total: 0, anonymous: 0 };
  }

  #recordLogIn(connection: Connection): void {
    if (!this.#open.has(connection)) return;
    const { client } = connection;
    this.#known.recordLogIn(client);
    // Some applications open a connection per message, so log-ins do not count as new connections.
    this.#newConnections.uncount(client);
    this.#replaceable.delete(connection);
    this.#decrement(connection, { total: 0 });
    connection.isAnonymous = false;
  }

  #release(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    this.#replaceable.delete(connection);
    this.#decrement(connection, { total: 1 });
  }

  #decrement({ client, isAnonymous }: Connection, { total }: { total: number }): void {
    const before = this.#countsOf(client);
    const after = {
      total: before.total - total,
      anonymous: before.anonymous - (isAnonymous ? 1 : 0),
    };
    if (after.total === 0) this.#perClient.delete(client);
    else this.#perClient.set(client, after);
  }
}
