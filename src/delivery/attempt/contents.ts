/**
 * Memory for the content of large messages.
 *
 * A delivery can wait for minutes until a server has greeted it. Meanwhile it holds only the head of a large
 * message. The content is loaded when a server is ready for it and dropped after its transaction, so
 * that silent servers hold no memory. A small message comes with its content and never waits for room.
 *
 * A project may use as much of the room as it leaves free. Messages below MEDIUM_BYTES_MAX have a reserve that
 * larger ones cannot use. Without room the delivery is released for some seconds and holds no session.
 */
import { LRUCache } from 'lru-cache';
import type { World } from '../../lib/world.ts';
import type { MessageHead, StoredMessage } from './message-store.ts';
import type { Postponed } from '../shaping/connections.ts';
import type { Delivery } from '../queue/fair-queue.ts';

/** A message up to this size is small. It counts as WEIGHT_BYTES in memory (delivery/queue/fair-queue.ts). */
const SMALL_BYTES_MAX = 24 * 1024;
const MEDIUM_BYTES_MAX = 256 * 1024;
/** More than the largest message that is accepted. */
const LARGE_ROOM_BYTES = 40 * 1024 * 1024;
const ROOM_BYTES = LARGE_ROOM_BYTES + 8 * 1024 * 1024;
/** Contents that the accept path hands over and no server is ready for yet. The oldest are dropped first. */
const KEPT_BYTES_MAX = 16 * 1024 * 1024;
const NO_ROOM_MS = 5_000;

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
  /** By email: its recipients share it. */
  readonly #inUse = new Map<string, InUse>();
  readonly #bytesOfProjects = new Map<string, number>();
  #bytes = 0;

  constructor(options: ContentsOptions) {
    this.#options = options;
  }

  /** Keeps the content of a large message that was just accepted, so that it need not be loaded. */
  keep(message: StoredMessage): void {
    this.#kept.set(message.id, message);
  }

  /** Null: there is room for the content. */
  postponement({ message, contentBytes }: Wanted): Postponed | null {
    if (this.#inUse.has(message.id)) return null;
    const roomBytes = contentBytes <= MEDIUM_BYTES_MAX ? ROOM_BYTES : LARGE_ROOM_BYTES;
    const ownBytes = this.#bytesOfProjects.get(message.projectId) ?? 0;
    const freeBytes = roomBytes - this.#bytes - ownBytes;
    if (Math.min(contentBytes, LARGE_ROOM_BYTES) <= freeBytes) return null;
    return { kind: 'postponed', delayMs: NO_ROOM_MS * (1 + this.#options.world.random()) };
  }

  /** Loads the content and keeps it in memory until `work` has ended. @throws DatabaseUnavailable */
  async use<Result>(
    delivery: Wanted,
    work: (message: StoredMessage) => Promise<Result>,
  ): Promise<Result | Postponed> {
    const postponed = this.postponement(delivery);
    if (postponed !== null) return postponed;
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
      content = { message, bytes: Math.min(contentBytes, LARGE_ROOM_BYTES), users: 0 };
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

/** Whether deliveries hold only the head of such a message. */
export function isLarge(bytes: number): boolean {
  return bytes > SMALL_BYTES_MAX;
}

/** Approximate memory that a message uses. */
export function sizeOf(message: StoredMessage): number {
  const attachments = message.attachments.reduce((sum, one) => sum + one.content.length, 0);
  const raw = message.written?.raw.length ?? 0;
  return 1_000 + (message.html?.length ?? 0) + (message.text?.length ?? 0) + attachments + raw;
}
