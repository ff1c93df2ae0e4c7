/**
 * Reads the content of a message as it comes behind DATA: whole lines until the one that is only a
 * dot, dots unstuffed (RFC 5321 §4.5.2). Pure: bytes in, bytes out.
 *
 * The promise: only CRLF.CRLF ends a message, and only CRLF ends a line. A CR or LF that stands
 * alone makes the content `bare`, and then nothing behind it may be read as commands: servers that
 * disagree about where a message ends take one message for two (SMTP smuggling). What it says
 * depends on the bytes alone, not on how they were cut into chunks.
 *
 * Lines are found with indexOf; there is no loop over bytes.
 */

/** `content`: what has been read for certain. `rest`: what stands behind the end. */
export type ContentRead =
  | { kind: 'more'; content: Buffer | null }
  | { kind: 'end'; content: Buffer | null; rest: Buffer }
  | { kind: 'bare' };

const CR = 13;
const LF = 10;
const DOT = 46;
const EMPTY = Buffer.alloc(0);
/** An unfinished line up to this long waits for its end; of a longer one only a last CR does. */
const CARRIED_MAX = 1_000;

export class SmtpContentReader {
  /** Octets of the longest line so far, without its CRLF and its stuffed dot. */
  longestLine = 0;
  /** What the last chunk ended with and cannot be judged yet. */
  #carried: Buffer = EMPTY;
  /** The carried bytes go on a line whose beginning is out already. */
  #isMidLine = false;
  #lineOctets = 0;

  read(chunk: Buffer): ContentRead {
    const bytes = this.#carried.length === 0 ? chunk : Buffer.concat([this.#carried, chunk]);
    const out = new Unstuffed(bytes);
    let at = 0;
    for (;;) {
      const end = lineEnd(bytes, at);
      if (end === 'bare') return { kind: 'bare' };
      if (end === null) return { kind: 'more', content: this.#keepTail(bytes, at, out) };
      const hasDot = !this.#isMidLine && bytes[at] === DOT;
      if (hasDot && end === at + 1) {
        return { kind: 'end', content: out.upTo(at), rest: bytes.subarray(end + 2) };
      }
      if (hasDot) out.leaveOut(at);
      this.#count(end - at - (hasDot ? 1 : 0));
      this.#isMidLine = false;
      this.#lineOctets = 0;
      at = end + 2;
    }
  }

  /** The line from `at` on has no end yet. */
  #keepTail(bytes: Buffer, at: number, out: Unstuffed): Buffer | null {
    if (bytes.length - at <= CARRIED_MAX) {
      this.#carried = bytes.subarray(at);
      return out.upTo(at);
    }
    const hasDot = !this.#isMidLine && bytes[at] === DOT;
    if (hasDot) out.leaveOut(at);
    const cut = bytes.at(-1) === CR ? bytes.length - 1 : bytes.length;
    this.#count(cut - at - (hasDot ? 1 : 0));
    this.#isMidLine = true;
    this.#carried = bytes.subarray(cut);
    return out.upTo(cut);
  }

  #count(octets: number): void {
    this.#lineOctets += octets;
    if (this.#lineOctets > this.longestLine) this.longestLine = this.#lineOctets;
  }
}

/** Where the CRLF stands that ends the line from `at` on; null: not there yet. */
function lineEnd(bytes: Buffer, at: number): number | 'bare' | null {
  const cr = bytes.indexOf(CR, at);
  if (cr === -1) return bytes.includes(LF, at) ? 'bare' : null;
  const next = bytes[cr + 1];
  // A bare LF before this CR: there is one in front of the line's own, which stands behind it.
  const lf = bytes.indexOf(LF, at);
  if (lf !== -1 && lf < cr) return 'bare';
  if (next === undefined) return null;
  return next === LF ? cr : 'bare';
}

/** Copies only when a dot has to go, and then once per chunk, however many dots there are. */
class Unstuffed {
  readonly #bytes: Buffer;
  #copy: Buffer | null = null;
  #copied = 0;
  /** What is before this has been copied or left out. */
  #from = 0;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  leaveOut(at: number): void {
    this.#copy ??= Buffer.allocUnsafe(this.#bytes.length);
    this.#copied += this.#bytes.copy(this.#copy, this.#copied, this.#from, at);
    this.#from = at + 1;
  }

  upTo(end: number): Buffer | null {
    if (this.#copy === null) return end === 0 ? null : this.#bytes.subarray(0, end);
    this.#copied += this.#bytes.copy(this.#copy, this.#copied, this.#from, end);
    return this.#copied === 0 ? null : this.#copy.subarray(0, this.#copied);
  }
}
