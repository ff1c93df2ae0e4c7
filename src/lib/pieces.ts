/**
 * Collects bytes that arrive in pieces. Small pieces are copied into blocks, because a peer chooses their size: one
 * Buffer for each byte of a body would take a hundred times its memory.
 */

/** A piece of at least this size is kept without a copy. */
const LARGE_BYTES = 8 * 1024;
/** A new block is as large as all bytes before it, within these bounds. */
const BLOCK_MIN_BYTES = 1024;
const BLOCK_MAX_BYTES = 64 * 1024;
/** From this number of pieces on, their average size is checked. A piece costs as much as a kilobyte. */
const CHECKED_PIECES_MIN = 100_000;
const AVERAGE_BYTES_MIN = 32;

export class Pieces {
  #kept: Buffer[] = [];
  /** Small pieces since the last kept one: its first `#blockBytes` bytes are in use. */
  #block: Buffer | null = null;
  #blockBytes = 0;
  #bytes = 0;
  #count = 0;

  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the body came in so many tiny pieces that it must be an attack. */
  get areTooTiny(): boolean {
    return this.#count >= CHECKED_PIECES_MIN && this.#bytes / this.#count < AVERAGE_BYTES_MIN;
  }

  add(piece: Buffer): void {
    // Most bodies are one piece.
    if (this.#bytes === 0 || piece.length >= LARGE_BYTES) {
      this.#endBlock();
      this.#kept.push(piece);
    } else {
      this.#copy(piece);
    }
    this.#bytes += piece.length;
    this.#count += 1;
  }

  #copy(piece: Buffer): void {
    if (this.#block === null || this.#blockBytes + piece.length > this.#block.length) {
      this.#endBlock();
      const blockBytes = Math.max(this.#bytes, piece.length, BLOCK_MIN_BYTES);
      this.#block = Buffer.allocUnsafeSlow(Math.min(blockBytes, BLOCK_MAX_BYTES));
    }
    this.#blockBytes += piece.copy(this.#block, this.#blockBytes);
  }

  #endBlock(): void {
    if (this.#block !== null) this.#kept.push(this.#block.subarray(0, this.#blockBytes));
    this.#block = null;
    this.#blockBytes = 0;
  }

  take(): Buffer {
    this.#endBlock();
    const body = Buffer.concat(this.#kept, this.#bytes);
    this.#kept = [];
    this.#bytes = 0;
    return body;
  }
}
