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
import type { MessageHead, StoredMessage } from '../message/message-store.ts';
import type { Unavailable } from '../shaping/smtp-connections.ts';
import type { Delivery } from './delivery.ts';
import { MIB } from '../../lib/units.ts';

/** Limit on a small message, which counts as WEIGHT_BYTES in memory (delivery/memory/fair-queue.ts). */
const SMALL_BYTES_MAX = 24 * 1024;
const MEDIUM_BYTES_MAX = 256 * 1024;
const LARGE_CAPACITY_BYTES = 40 * MIB;
const CAPACITY_BYTES = LARGE_CAPACITY_BYTES + 8 * MIB;
/** Limit on contents that were just accepted and that no server is ready for yet. The oldest are dropped first. */
const KEPT_BYTES_MAX = 16 * MIB;
const RETRY_WHEN_FULL_MS = 5_000;

type ContentMemoryOptions = {
  world: Pick<World, 'random'>;
  load: (head: MessageHead) => Promise<StoredMessage>;
};

type ContentInUse = { message: Promise<StoredMessage>; bytes: number; users: number };
type ContentRequest = Pick<Delivery, 'message' | 'contentBytes'>;

export class ContentMemory {
  readonly #options: ContentMemoryOptions;
  readonly #kept = new LRUCache<string, StoredMessage>({
    maxSize: KEPT_BYTES_MAX,
    sizeCalculation: sizeOf,
  });
  readonly #inUse = new Map<string, ContentInUse>();
  readonly #bytesOfProjects = new Map<string, number>();
  #bytes = 0;

  constructor(options: ContentMemoryOptions) {
    this.#options = options;
  }

  /** Keeps the content of a large message that was just accepted, to save loading it. */
  keep(message: StoredMessage): void {
    this.#kept.set(message.id, message);
  }

  /** Returns the time until a retry, or null when there is memory for the content. */
  unavailable({ message, contentBytes }: ContentRequest): Unavailable | null {
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

  /**
   * Loads the content and keeps it in memory until `work` has ended.
   * @throws DatabaseUnavailable
   */
  async use<Result>(
    delivery: ContentRequest,
    work: (message: StoredMessage) => Promise<Result>,
  ): Promise<Result | Unavailable> {
    const unavailable = this.unavailable(delivery);
    if (unavailable !== null) return unavailable;
    const content = this.#acquire(delivery);
    try {
      return await work(await content.message);
    } finally {
      this.#release(delivery.message, content);
    }
  }

  #acquire({ message: head, contentBytes }: ContentRequest): ContentInUse {
    let content = this.#inUse.get(head.id);
    if (!content) {
      const kept = this.#kept.get(head.id);
      const message = kept ? Promise.resolve(kept) : this.#options.load(head);
      content = { message, bytes: Math.min(contentBytes, LARGE_CAPACITY_BYTES), users: 0 };
      this.#inUse.set(head.id, content);
      this.#addBytes(head.projectId, content.bytes);
    }
    content.users += 1;
    return content;
  }

  #release({ id, projectId }: MessageHead, content: ContentInUse): void {
    content.users -= 1;
    if (content.users > 0) return;
    this.#inUse.delete(id);
    this.#kept.delete(id);
    this.#addBytes(projectId, -content.bytes);
  }

  #addBytes(projectId: string, bytes: number): void {
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
  const attachmentBytes = message.attachments.reduce((sum, { content }) => sum + content.length, 0);
  const rawBytes = message.submitted?.raw.length ?? 0;
  return (
    1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachmentBytes + rawBytes
  );
}
