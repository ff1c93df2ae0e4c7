/**
 * Receives the content of one message within its limits: a size for the message, a budget for all
 * sessions together. Content beyond them is read to its end and thrown away, so that the client
 * hears why; one that does not end then is hung up on. Where only the beginning of a message is
 * wanted, what follows it is let by, and the message counts.
 */
import type { ContentRead } from './server-content.ts';
import { SmtpContentReader } from './server-content.ts';
import type { ContentBudget, UnfinishedMessage } from './server-limits.ts';
import type { SmtpMessage } from './server-types.ts';
import type { SmtpServerWire } from './server-wire.ts';

export type Received =
  | { kind: 'message'; message: SmtpMessage; heldBytes: number }
  | { kind: 'too_large' | 'no_room' }
  /** These end the session. */
  | { kind: 'bare' | 'endless' | 'over' | 'timeout' };

/** How far content that is thrown away is followed, in times of the limit. */
const FOLLOWED_TIMES = 2;
/** How far content is followed of which only the beginning is kept. */
const LET_BY_BYTES_MAX = 1024 ** 3;
/** Smaller pieces are joined: a buffer for every octet would take a hundred times its size. */
const PIECE_BYTES = 16 * 1024;

export type ContentLimits = {
  /** Whose content it is. */
  client: string;
  sizeBytesMax: number;
  /** See SmtpServerOptions. */
  keptBytesMax: number | undefined;
  /** In each such span something has to come. */
  spanMs: number;
  /** For all of it. */
  timeoutMs: number;
};

/** @returns what was held of the budget and is to be given back after the message is done with */
export async function receiveContent(
  wire: SmtpServerWire,
  budget: ContentBudget,
  limits: ContentLimits,
): Promise<Received> {
  const reader = new SmtpContentReader();
  const pieces = new Pieces(budget, limits);
  budget.begin(pieces);
  const followedBytesMax =
    limits.keptBytesMax === undefined ? limits.sizeBytesMax * FOLLOWED_TIMES : LET_BY_BYTES_MAX;
  const take = (chunk: Buffer): Ended | null => {
    const read = reader.read(chunk);
    if (read.kind === 'bare') return read;
    if (read.content !== null) pieces.add(read.content);
    if (read.kind === 'end') return read;
    return pieces.seenBytes > followedBytesMax ? { kind: 'endless' } : null;
  };
  const end = await wire.content(take, limits).finally(() => budget.end(pieces));

  const kind = typeof end === 'string' ? end : end.kind;
  if (kind !== 'end' || pieces.problem !== null) pieces.drop();
  if (typeof end === 'string') return { kind: end };
  if (end.kind !== 'end') return end;
  wire.giveBack(end.rest);
  if (pieces.problem !== null) return { kind: pieces.problem };
  const { seenBytes: sizeBytes } = pieces;
  const message = { content: pieces.join(), sizeBytes, longestLine: reader.longestLine };
  return { kind: 'message', message, heldBytes: pieces.heldBytes };
}

type Ended = Extract<ContentRead, { kind: 'end' | 'bare' }> | { kind: 'endless' };

class Pieces implements UnfinishedMessage {
  readonly client: string;
  seenBytes = 0;
  heldBytes = 0;
  problem: 'too_large' | 'no_room' | null = null;
  readonly #budget: ContentBudget;
  readonly #limits: ContentLimits;
  #pieces: Buffer[] = [];

  constructor(budget: ContentBudget, limits: ContentLimits) {
    this.client = limits.client;
    this.#budget = budget;
    this.#limits = limits;
  }

  add(bytes: Buffer): void {
    const { sizeBytesMax, keptBytesMax = Infinity } = this.#limits;
    this.seenBytes += bytes.length;
    if (keptBytesMax === Infinity && this.seenBytes > sizeBytesMax) this.#refuse('too_large');
    if (this.problem !== null || this.heldBytes >= keptBytesMax) return;
    const piece = bytes.subarray(0, keptBytesMax - this.heldBytes);
    if (!this.#budget.take(this, piece.length)) return this.#refuse('no_room');
    this.heldBytes += piece.length;
    this.#pieces.push(piece);
    this.#joinSmall();
  }

  join(): Buffer {
    const [only, ...others] = this.#pieces;
    return others.length === 0 ? (only ?? Buffer.alloc(0)) : Buffer.concat(this.#pieces);
  }

  drop(): void {
    this.#budget.giveBack(this.heldBytes);
    this.heldBytes = 0;
    this.#pieces = [];
  }

  evict(): void {
    this.#refuse('no_room');
  }

  /** The graver reason stays: who is too large is so tomorrow as well. */
  #refuse(problem: 'too_large' | 'no_room'): void {
    this.drop();
    if (this.problem !== 'too_large') this.problem = problem;
  }

  /** Two small neighbours of like size become one, so that each octet is copied few times. */
  #joinSmall(): void {
    for (;;) {
      const [before, last] = this.#pieces.slice(-2);
      if (before === undefined || last === undefined) return;
      if (before.length >= PIECE_BYTES || before.length > 2 * last.length) return;
      this.#pieces.splice(-2, 2, Buffer.concat([before, last]));
    }
  }
}
