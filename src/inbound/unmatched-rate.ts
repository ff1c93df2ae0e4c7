/**
 * Limits unmatched mail per minute, for each client and in total, because any sender can send it and it uses the disk.
 */
import type { World } from '../lib/world.ts';
import { MIB } from '../lib/units.ts';

type MailVolume = { messages: number; bytes: number };

/** Limits per minute. A client is an IPv4 address or an IPv6 /64. */
type UnmatchedLimits = { perClient: MailVolume; total: MailVolume };

const WINDOW_MS = 60_000;
const NO_MAIL: MailVolume = { messages: 0, bytes: 0 };

/** Limits of each worker. */
export const UNMATCHED_LIMITS: UnmatchedLimits = {
  perClient: { messages: 120, bytes: MIB },
  total: { messages: 600, bytes: 8 * MIB },
};

export class UnmatchedRate {
  readonly #limits: UnmatchedLimits;
  readonly #world: Pick<World, 'monotonicMs'>;
  #windowStartMs = -Infinity;
  #total = NO_MAIL;
  #perClient = new Map<string, MailVolume>();

  constructor(world: Pick<World, 'monotonicMs'>, limits: UnmatchedLimits) {
    this.#world = world;
    this.#limits = limits;
  }

  /**
   * Counts a message of this client with its stored size.
   * @returns false above a limit of this minute; the message is then not counted
   */
  tryCount(client: string, bytes: number): boolean {
    this.#startWindowIfOver();
    const total = withMessage(this.#total, bytes);
    const ofClient = withMessage(this.#perClient.get(client) ?? NO_MAIL, bytes);
    if (exceeds(total, this.#limits.total) || exceeds(ofClient, this.#limits.perClient)) {
      return false;
    }
    this.#total = total;
    this.#perClient.set(client, ofClient);
    return true;
  }

  #startWindowIfOver(): void {
    const nowMs = this.#world.monotonicMs();
    if (nowMs - this.#windowStartMs < WINDOW_MS) return;
    this.#windowStartMs = nowMs;
    this.#total = NO_MAIL;
    this.#perClient = new Map();
  }
}

function withMessage({ messages, bytes }: MailVolume, messageBytes: number): MailVolume {
  return { messages: messages + 1, bytes: bytes + messageBytes };
}

function exceeds(volume: MailVolume, limit: MailVolume): boolean {
  return volume.messages > limit.messages || volume.bytes > limit.bytes;
}
