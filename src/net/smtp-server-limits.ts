/**
 * What the sessions of one SMTP server share: how many there may be, in all and from one client,
 * how much content they may hold, how often a client may send. Next: smtp-server.ts.
 */
import type { World } from '../core/world.ts';
import type { SmtpServerLimits } from './smtp-server-types.ts';

const WINDOW_MS = 60_000;
/** Clients whose messages are counted; beyond that all counting starts anew. */
const CLIENTS_MAX = 50_000;

export class SmtpServerUse {
  readonly #limits: SmtpServerLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  #connections = 0;
  readonly #perClient = new Map<string, number>();
  #contentBytes = 0;
  readonly #messages = new Map<string, { sinceMs: number; count: number }>();

  constructor(limits: SmtpServerLimits, world: Pick<World, 'monotonicMs'>) {
    this.#limits = limits;
    this.#world = world;
  }

  /** Whether there is room for a connection; then it is counted until `leave`. */
  enter(client: string): boolean {
    const ofClient = this.#perClient.get(client) ?? 0;
    if (this.#connections >= this.#limits.connections) return false;
    if (ofClient >= this.#limits.connectionsPerClient) return false;
    this.#connections += 1;
    this.#perClient.set(client, ofClient + 1);
    return true;
  }

  leave(client: string): void {
    const left = (this.#perClient.get(client) ?? 1) - 1;
    this.#connections -= 1;
    if (left === 0) this.#perClient.delete(client);
    else this.#perClient.set(client, left);
  }

  hasRoom(bytes: number): boolean {
    return this.#contentBytes + bytes <= this.#limits.contentBytes;
  }

  /** Whether there was room; what was taken is given back with `giveBack`. */
  take(bytes: number): boolean {
    if (!this.hasRoom(bytes)) return false;
    this.#contentBytes += bytes;
    return true;
  }

  giveBack(bytes: number): void {
    this.#contentBytes -= bytes;
  }

  /** Counts a message of this client; false: it has sent too many within a minute. */
  countMessage(client: string): boolean {
    const max = this.#limits.messagesPerClientAndMinute;
    if (max === Infinity) return true;
    const nowMs = this.#world.monotonicMs();
    let window = this.#messages.get(client);
    if (window === undefined || nowMs - window.sinceMs >= WINDOW_MS) {
      if (this.#messages.size >= CLIENTS_MAX) this.#messages.clear();
      window = { sinceMs: nowMs, count: 0 };
      this.#messages.set(client, window);
    }
    window.count += 1;
    return window.count <= max;
  }
}
