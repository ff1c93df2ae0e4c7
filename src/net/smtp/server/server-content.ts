/**
 * The content of one message at an SMTP server, between the 354 and the final dot.
 *
 * Content is read in whole lines until the line with only a dot (RFC 5321 §4.5.2). Only CRLF.CRLF ends a message,
 * and only CRLF ends a line. A single CR or LF makes the content `bare`, and nothing after it is read as commands:
 * servers that disagree about the end of a message may read one message as two (SMTP smuggling). The result does not
 * depend on how bytes are split into chunks. Lines are found with indexOf, not in a loop over bytes.
 */
import type { ContentBudget, UnfinishedMessage } from './server-limits.ts';
import type { SmtpMessage } from './server-types.ts';
import type { SmtpServerWire } from './server-wire.ts';
import { GIB } from '../../../lib/units.ts';

/** Dropped content is read up to this multiple of the size limit. */
const READ_FACTOR = 2;
/** Limit on a message when the service keeps only its beginning. */
const TRUNCATED_BYTES_MAX = GIB;
/** Smaller pieces are joined: a buffer per octet would need a hundred times the memory. */
const JOINED_PIECE_BYTES = 16 * 1024;
const CR = 13;
const LF = 10;
const DOT = 46;
const EMPTY = Buffer.alloc(0);
/** An unfinished line up to this length is kept until its end. Of a longer line only a final CR is kept. */
const CARRIED_BYTES_MAX = 1_000;

export type ReceiveResult =
  | { kind: 'message'; message: SmtpMessage; usedBytes: number }
  | { kind: 'too_large' | 'no_capacity' }
  /** Results that end the session. */
  | { kind: 'bare' | 'endless' | 'disconnected' | 'timeout' };

type ContentLimits = {
  client: string;
  sizeBytesMax: number;
  keptBytesMax: number | undefined;
  /** Milliseconds within which content must arrive again. */
  intervalMs: number;
  timeoutMs: number;
};

/**
 * Receives the content of one message, within its size limit and the budget for all sessions. Content beyond them is
 * read to its end and dropped, so that the client gets the reply. A client that sends far more is disconnected. With
 * `keptBytesMax` only the beginning is kept, and the message is accepted.
 * @returns with the memory in use (`usedBytes`), which the caller must release after handling the message
 */
export async function receiveContent(
  wire: SmtpServerWire,
  budget: ContentBudget,
  limits: ContentLimits,
): Promise<ReceiveResult> {
  const reader = new SmtpContentReader();
  const pieces = new ContentPieces(budget, limits);
  budget.begin(pieces);
  const readBytesMax =
    limits.keptBytesMax === undefined ? limits.sizeBytesMax * READ_FACTOR : TRUNCATED_BYTES_MAX;
  const readChunk = (chunk: Buffer): ContentEnd | null => {
    const read = reader.read(chunk);
    if (read.kind === 'bare') return read;
    if (read.content !== null) pieces.add(read.content);
    if (read.kind === 'end') return read;
    return pieces.receivedBytes > readBytesMax ? { kind: 'endless' } : null;
  };
  const end = await wire.readContent(readChunk, limits).finally(() => budget.end(pieces));

  const kind = typeof end === 'string' ? end : end.kind;
  if (kind !== 'end' || pieces.problem !== null) pieces.release();
  if (typeof end === 'string') return { kind: end };
  if (end.kind !== 'end') return end;
  wire.unread(end.remainder);
  if (pieces.problem !== null) return { kind: pieces.problem };
  const { receivedBytes: sizeBytes } = pieces;
  const message = { content: pieces.toBuffer(), sizeBytes, longestLine: reader.longestLine };
  return { kind: 'message', message, usedBytes: pieces.usedBytes };
}

type ContentEnd = Extract<ContentRead, { kind: 'end' | 'bare' }> | { kind: 'endless' };

class ContentPieces implements UnfinishedMessage {
  readonly client: string;
  receivedBytes = 0;
  usedBytes = 0;
  problem: 'too_large' | 'no_capacity' | null = null;
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
    this.receivedBytes += bytes.length;
    if (keptBytesMax === Infinity && this.receivedBytes > sizeBytesMax) this.#refuse('too_large');
    if (this.problem !== null || this.usedBytes >= keptBytesMax) return;
    const piece = bytes.subarray(0, keptBytesMax - this.usedBytes);
    if (!this.#budget.reserve(this, piece.length)) return this.#refuse('no_capacity');
    this.usedBytes += piece.length;
    this.#pieces.push(piece);
    this.#joinSmall();
  }

  toBuffer(): Buffer {
    const [only, ...others] = this.#pieces;
    return others.length === 0 ? (only ?? Buffer.alloc(0)) : Buffer.concat(this.#pieces);
  }

  release(): void {
    this.#budget.release(this.usedBytes);
    this.usedBytes = 0;
    this.#pieces = [];
  }

  evict(): void {
    this.#refuse('no_capacity');
  }

  /** `too_large` wins, because it is permanent. */
  #refuse(problem: 'too_large' | 'no_capacity'): void {
    this.release();
    if (this.problem !== 'too_large') this.problem = problem;
  }

  /** Joins neighbours of similar size, so that each octet is copied only a few times. */
  #joinSmall(): void {
    for (;;) {
      const [before, last] = this.#pieces.slice(-2);
      if (before === undefined || last === undefined) return;
      if (before.length >= JOINED_PIECE_BYTES || before.length > 2 * last.length) return;
      this.#pieces.splice(-2, 2, Buffer.concat([before, last]));
    }
  }
}

/** `content`: decoded content. `remainder`: the bytes after the end. */
type ContentRead =
  | { kind: 'more'; content: Buffer | null }
  | { kind: 'end'; content: Buffer | null; remainder: Buffer }
  | { kind: 'bare' };

export class SmtpContentReader {
  /** Octets of the longest line so far, without its CRLF and its stuffed dot. */
  longestLine = 0;
  /** End of the last chunk that cannot be decoded yet. */
  #carried: Buffer = EMPTY;
  /** The carried bytes continue a line whose beginning was already returned. */
  #isMidLine = false;
  #lineOctets = 0;

  read(chunk: Buffer): ContentRead {
    const bytes = this.#carried.length === 0 ? chunk : Buffer.concat([this.#carried, chunk]);
    const output = new DotRemover(bytes);
    let at = 0;
    for (;;) {
      const end = lineEnd(bytes, at);
      if (end === 'bare') return { kind: 'bare' };
      if (end === null) return { kind: 'more', content: this.#carryTail(bytes, at, output) };
      const hasDot = !this.#isMidLine && bytes[at] === DOT;
      if (hasDot && end === at + 1) {
        return { kind: 'end', content: output.takeUntil(at), remainder: bytes.subarray(end + 2) };
      }
      if (hasDot) output.removeDot(at);
      this.#addLineOctets(end - at - (hasDot ? 1 : 0));
      this.#isMidLine = false;
      this.#lineOctets = 0;
      at = end + 2;
    }
  }

  #carryTail(bytes: Buffer, at: number, output: DotRemover): Buffer | null {
    if (bytes.length - at <= CARRIED_BYTES_MAX) {
      this.#carried = bytes.subarray(at);
      return output.takeUntil(at);
    }
    const hasDot = !this.#isMidLine && bytes[at] === DOT;
    if (hasDot) output.removeDot(at);
    const cut = bytes.at(-1) === CR ? bytes.length - 1 : bytes.length;
    this.#addLineOctets(cut - at - (hasDot ? 1 : 0));
    this.#isMidLine = true;
    this.#carried = bytes.subarray(cut);
    return output.takeUntil(cut);
  }

  #addLineOctets(octets: number): void {
    this.#lineOctets += octets;
    if (this.#lineOctets > this.longestLine) this.longestLine = this.#lineOctets;
  }
}

/** Returns the offset of the CRLF that ends the line starting at `at`; null when it has not arrived. */
function lineEnd(bytes: Buffer, at: number): number | 'bare' | null {
  const cr = bytes.indexOf(CR, at);
  if (cr === -1) return bytes.includes(LF, at) ? 'bare' : null;
  const next = bytes[cr + 1];
  // An LF before this CR is bare.
  const lf = bytes.indexOf(LF, at);
  if (lf !== -1 && lf < cr) return 'bare';
  if (next === undefined) return null;
  return next === LF ? cr : 'bare';
}

/** Removes stuffed dots. Copies only if there are any, and once per chunk. */
class DotRemover {
  readonly #bytes: Buffer;
  #copy: Buffer | null = null;
  #copied = 0;
  /** Everything before this offset was copied or removed. */
  #from = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  /** Leaves out the stuffed dot at this offset (RFC 5321 §4.5.2). */
  removeDot(at: number): void {
    this.#copy ??= Buffer.allocUnsafe(this.#bytes.length);
    this.#copied += this.#bytes.copy(this.#copy, this.#copied, this.#from, at);
    this.#from = at + 1;
  }

  takeUntil(end: number): Buffer | null {
    if (this.#copy === null) return end === 0 ? null : this.#bytes.subarray(0, end);
    this.#copied += this.#bytes.copy(this.#copy, this.#copied, this.#from, end);
    return this.#copied === 0 ? null : this.#copy.subarray(0, this.#copied);
  }
}
