/**
 * Who may connect to an SMTP server, and who has to leave when it is full.
 *
 * A connection is anonymous until it logs in; on a port without log-in all are. Anonymous connections
 * share a part of all, each client has few of them and may open so many a minute. When their part is
 * full, a new one takes the place of the one that has waited longest without a log-in or a message:
 * whoever only holds connections loses them to whoever uses one, and a real client that logs in within
 * a second gets through although others open hundreds in that time. What is left of all connections
 * is for those that are logged in, and for clients that logged in within a day.
 */
import type { World } from '../../core/world.ts';
import { MinuteCounts } from './server-limits.ts';
import { closing, type SmtpAnswer, type SmtpServerLimits } from './server-types.ts';

const KNOWN_FOR_MS = 24 * 3600_000;
/** A log-in is announced again after this long: other workers may have been restarted. */
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
  readonly #lastMs = new Map<string, number>();

  /** @param announce tells the other workers of a log-in; they call `note` */
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
    this.#lastMs.delete(client);
    this.#lastMs.set(client, this.#world.monotonicMs());
    const [oldest] = this.#lastMs.keys();
    if (this.#lastMs.size > KNOWN_MAX && oldest !== undefined) this.#lastMs.delete(oldest);
  }
}

/** One connection, while it is counted. */
export type Visit = {
  loggedIn(): void;
  /** It handed in a message: others have waited longer in vain. */
  progressed(): void;
  leave(): void;
};

type Entry = { client: string; isAnonymous: boolean; shut: (answer: SmtpAnswer) => void };
type OfClient = { all: number; anonymous: number };

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
