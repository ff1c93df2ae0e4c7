/**
 * How much unmatched mail is kept within a minute: messages to postmaster@, automatic replies, reports
 * that say nothing new. Anybody may send them to addresses that everybody knows, and each is written
 * to disk; reports that count are not limited by this. Beyond it a sender is told to come again, as
 * honest ones do. How much is kept in all: store/inbound-messages.ts.
 */
import type { World } from '../core/world.ts';

const WINDOW_MS = 60_000;

type Rate = { messages: number; bytes: number };

/** Within a minute. A client is an IPv4 address or an IPv6 /64. */
export type UnmatchedLimits = { perClient: Rate; inAll: Rate };

/** Of each worker. */
export const UNMATCHED_LIMITS: UnmatchedLimits = {
  perClient: { messages: 120, bytes: 1024 * 1024 },
  inAll: { messages: 600, bytes: 8 * 1024 * 1024 },
};

export class UnmatchedRate {
  readonly #limits: UnmatchedLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  #sinceMs = -Infinity;
  #inAll: Rate = { messages: 0, bytes: 0 };
  #perClient = new Map<string, Rate>();

  constructor(world: Pick<World, 'monotonicMs'>, limits: UnmatchedLimits) {
    this.#world = world;
    this.#limits = limits;
  }

  /** Counts a message of this client, of which so much is kept; false: there was enough within a minute. */
  mayKeep(client: string, bytes: number): boolean {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#sinceMs >= WINDOW_MS) {
      this.#sinceMs = nowMs;
      this.#inAll = { messages: 0, bytes: 0 };
      this.#perClient = new Map();
    }
    const ofClient = this.#perClient.get(client) ?? { messages: 0, bytes: 0 };
    const { perClient, inAll } = this.#limits;
    if (!hasRoom(this.#inAll, inAll, bytes) || !hasRoom(ofClient, perClient, bytes)) return false;
    this.#inAll = plus(this.#inAll, bytes);
    this.#perClient.set(client, plus(ofClient, bytes));
    return true;
  }
}

function hasRoom(used: Rate, limit: Rate, bytes: number): boolean {
  return used.messages < limit.messages && used.bytes + bytes <= limit.bytes;
}

function plus({ messages, bytes }: Rate, more: number): Rate {
  return { messages: messages + 1, bytes: bytes + more };
}
