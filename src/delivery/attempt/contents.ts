/**
 * Memory for the content of large messages.
 *
 * A delivery can wait for minutes until a server has greeted it. Meanwhile only the head of a large message is in
 * memory. The content is loaded when a server is ready and dropped after its transaction, so silent servers occupy no
 * memory. A small message comes with its content and never waits for memory.
 *
 * A project may use at most half of the memory that other projects leave free. Messages up to MEDIUM_BYTES_MAX have a
 * reserve that larger ones cannot use. Without free memory the delivery is released for some seconds, and it has no
 * session meanwhile.
 */
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import type { MessageHead, StoredMessage } from './message-store.ts';
import type { Unavailable } from '../shaping/smtp-connections.ts';
import type { Delivery } from '../queue/fair-queue.ts';

/** Limit on a small message, which counts as WEIGHT_BYTES in memory (delivery/queue/fair-queue.ts). */
const SMALL_BYTES_MAX = 24 * 1024;
const MEDIUM_BYTES_MAX = 256 * 1024;
const LARGE_CAPACITY_BYTES = 40 * 1024 * 1024;
const CAPACITY_BYTES = LARGE_CAPACITY_BYTES + 8 * 1024 * 1024;
/** Limit on contents that were just accepted and that no server is ready for yet. The oldest are dropped first. */
const KEPT_BYTES_MAX = 16 * 1024 * 1024;
const RETRY_WHEN_FULL_MS = 5_000;

type ContentsOptions = {
  world: Pick<World, 'random'>;
  load: (head: MessageHead) => Promise<StoredMessage>;
};

type InUse = { message: Promise<StoredMessage>; bytes: number; users: number };
type Wanted = Pick<Delivery, 'message' | 'contentBytes'>;

export class Contents {
  readonly #options: ContentsOptions;
  readonly #kept = new LRUCache<string, StoredMessage>({
    maxSize: KEPT_BYTES_MAX,
    sizeCalculation: sizeOf,
  });
  readonly #inUse = new Map<string, InUse>();
  readonly #bytesOfProjects = new Map<string, number>();
  #bytes = 0;

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  /** Keeps the content of a large message that was just accepted, to save loading it. */
  keep(message: StoredMessage): void {
    this.#kept.set(message.id, message);
  }

  /** Returns when to try again; null: there is memory for the content. */
  unavailable({ message, contentBytes }: Wanted): Unavailable | null {
    if (this.#inUse.has(message.id)) return null;
    const capacityBytes = contentBytes <= MEDIUM_BYTES_MAX ? CAPACITY_BYTES : LARGE_CAPACITY_BYTES;
    const ownBytes = this.#bytesOfProjects.get(message.projectId) ?? 0;
    const freeBytes = capacityBytes - this.#bytes - ownBytes;
    if (Math.min(contentBytes, LARGE_CAPACITY_BYTES) <= freeBytes) return null;
    return {
      kind: 'unavailable',
      delayMs: RETRY_WHEN_FULL_MS * (1 + this.#options.world.random()),
    };
  }

  /** Loads the content and keeps it in memory until `work` has ended. @throws DatabaseUnavailable */
  async use<Result>(
    delivery: Wanted,
    work: (message: StoredMessage) => Promise<Result>,
  ): Promise<Result | Unavailable> {
    const unavailable = this.unavailable(delivery);
    if (unavailable !== null) return unavailable;
    const content = this.#take(delivery);
    try {
      return await work(await content.message);
    } finally {
      this.#giveBack(delivery.message, content);
    }
  }

  #take({ message: head, contentBytes }: Wanted): InUse {
    let content = this.#inUse.get(head.id);
    if (!content) {
      const kept = this.#kept.get(head.id);
      const message = kept ? Promise.resolve(kept) : this.#options.load(head);
      content = { message, bytes: Math.min(contentBytes, LARGE_CAPACITY_BYTES), users: 0 };
      this.#inUse.set(head.id, content);
      this.#count(head.projectId, content.bytes);
    }
    content.users += 1;
    return content;
  }

  #giveBack({ id, projectId }: MessageHead, content: InUse): void {
    content.users -= 1;
    if (content.users > 0) return;
    this.#inUse.delete(id);
    this.#kept.delete(id);
    this.#count(projectId, -content.bytes);
  }

  #count(projectId: string, bytes: number): void {
    this.#bytes += bytes;
    const ofProject = (this.#bytesOfProjects.get(projectId) ?? 0) + bytes;
    if (ofProject === 0) this.#bytesOfProjects.delete(projectId);
    else this.#bytesOfProjects.set(projectId, ofProject);
  }
}

/** Returns whether only the head of a message of this size is kept in memory. */
export function isLarge(bytes: number): boolean {
  return bytes > SMALL_BYTES_MAX;
}

export function sizeOf(message: StoredMessage): number {
  const attachments = message.attachments.reduce((sum, one) => sum + one.content.length, 0);
  const raw = message.submitted?.raw.length ?? 0;
  return 1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachments + raw;
}
