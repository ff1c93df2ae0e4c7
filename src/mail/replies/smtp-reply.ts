/**
 * Parses a mail server's replies from bytes (RFC 5321 §4.2, enhanced codes of RFC 2034).
 *
 * The server is untrusted. A parsed reply is safe to store and show: valid UTF-8, no control characters, at most 2
 * KB. At most 64 KiB of a reply are read. The first line decides, and the rest is cut off, because a message must
 * not be sent again after a lengthy acceptance. A malformed rest is cut off, too. Malformed input (a first line
 * without a code, a NUL) and contradictions (different codes in one reply) return an error value. After an error or
 * a cut the parser reads nothing more; earlier replies remain valid. A bare LF ends a line, which is harmless in
 * replies.
 */

/** Steps to which a server replies, in order. `data_command` is the reply to DATA, `data` to the message. */
export const REPLY_PHASES = [
  'greeting',
  'ehlo',
  'starttls',
  'auth',
  'mail',
  'rcpt',
  'data_command',
  'data',
  'rset',
  'quit',
] as const;
export type ReplyPhase = (typeof REPLY_PHASES)[number];

/** Reply phases, and the steps that can fail without a reply. */
export type SmtpPhase = ReplyPhase | 'connect' | 'tls' | 'body';

/** Why there is no usable reply. `unreachable`: no TCP connection. `withheld`: `mayProceed` returned false. */
export type SmtpFailureCause =
  | 'unreachable'
  | 'timeout'
  | 'closed'
  | 'garbage'
  | 'tls'
  | 'withheld';

export type SmtpReply = {
  /** 200 to 599. */
  code: number;
  /** `5.1.1` from the first line, or null. If it contradicts `code`, `code` counts. */
  enhancedCode: string | null;
  /** The text of all lines joined by `\n`, without codes; at most 2 KB of UTF-8. */
  message: string;
};

export type ParsedReplies = { replies: SmtpReply[]; error: string | null };

const REPLY_BYTES_MAX = 64 * 1024;
/** Limit on the kept beginning of an unfinished line; the rest is only counted. */
const LINE_BYTES_KEPT = 4096;
const MESSAGE_BYTES_MAX = 2048;

const NO_REPLY = 'a line that is not an SMTP reply';
const TOO_LONG = 'a reply of more than 64 KiB';
const LF = 10;
const ENHANCED_CODE = /^([245]\.\d{1,3}\.\d{1,3})(?: +|$)/;
/** C0, DEL, C1, line separators, and characters that change the direction of text. */
const UNSAFE = /[\0-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ufeff]/;
const UNSAFE_ALL = new RegExp(UNSAFE, 'g');

/** Parses the replies of one session from chunks of any size. */
export class ReplyParser {
  #unfinishedLine: Buffer | null = null;
  /** Octets of the unfinished line beyond `#unfinishedLine`. */
  #skippedOctets = 0;
  #code = 0;
  #enhancedCode: string | null = null;
  /** The first 2 KB of the reply. */
  #lines: string[] = [];
  #keptChars = 0;
  #octets = 0;
  #error: string | null = null;

  get isMidReply(): boolean {
    return this.#unfinishedLine !== null || this.hasFirstLine;
  }

  get hasFirstLine(): boolean {
    return this.#lines.length > 0;
  }

  push(chunk: Buffer): ParsedReplies {
    const replies: SmtpReply[] = [];
    if (this.#error === null) this.#error = this.#read(chunk, replies);
    return { replies, error: this.#error };
  }

  /** Ends an incomplete reply after its received lines; null when it has none. */
  cut(): SmtpReply | null {
    if (this.#error !== null || !this.hasFirstLine) return null;
    this.#error = 'a reply that was not completed';
    return this.#finish();
  }

  /** Decodes up to the last line end at once. No UTF-8 character contains a line end. */
  #read(chunk: Buffer, replies: SmtpReply[]): string | null {
    const bytes =
      this.#unfinishedLine === null ? chunk : Buffer.concat([this.#unfinishedLine, chunk]);
    const end = bytes.lastIndexOf(LF) + 1;
    this.#unfinishedLine = end === bytes.length ? null : bytes.subarray(end);
    const text = bytes.toString('utf8', 0, end);

    for (let from = 0; from < text.length;) {
      const lineFeed = text.indexOf('\n', from);
      const stop = text[lineFeed - 1] === '\r' && lineFeed > from ? lineFeed - 1 : lineFeed;
      const problem = this.#readLine(text.slice(from, stop), replies);
      if (problem !== null) return problem;
      from = lineFeed + 1;
    }
    return this.#boundUnfinishedLine(replies);
  }

  #boundUnfinishedLine(replies: SmtpReply[]): string | null {
    const unfinished = this.#unfinishedLine;
    if (unfinished === null || unfinished.length <= LINE_BYTES_KEPT) return null;
    this.#skippedOctets += unfinished.length - LINE_BYTES_KEPT;
    this.#unfinishedLine = unfinished.subarray(0, LINE_BYTES_KEPT);
    const line = this.#unfinishedLine.toString();
    const isOver = this.#octets + LINE_BYTES_KEPT + this.#skippedOctets > REPLY_BYTES_MAX;
    return isOver || codeOf(line) === null ? (this.#readLine(line, replies) ?? TOO_LONG) : null;
  }

  #readLine(line: string, replies: SmtpReply[]): string | null {
    const code = codeOf(line);
    if (code === null || line.includes('\0')) {
      if (this.hasFirstLine) replies.push(this.#finish());
      return code === null ? NO_REPLY : 'a NUL character';
    }
    if (!this.hasFirstLine) this.#code = code;
    else if (code !== this.#code) return 'a reply whose lines have different codes';

    this.#octets += line.length + this.#skippedOctets;
    this.#skippedOctets = 0;
    const isTooLong = this.#octets > REPLY_BYTES_MAX;
    this.#keepLine(line);
    if (isTooLong || line[3] !== '-') replies.push(this.#finish());
    return isTooLong ? TOO_LONG : null;
  }

  #keepLine(line: string): void {
    if (this.#keptChars > MESSAGE_BYTES_MAX) return;
    const text = this.#readText(line.slice(0, LINE_BYTES_KEPT));
    this.#lines.push(text);
    this.#keptChars += text.length;
  }

  #readText(line: string): string {
    const text = removeUnsafe(line.slice(4));
    const enhanced = ENHANCED_CODE.exec(text);
    if (enhanced === null) return text;
    if (!this.hasFirstLine) this.#enhancedCode = enhanced[1] ?? null;
    // Further lines repeat the enhanced code of the first; a different one is part of the text.
    else if (enhanced[1] !== this.#enhancedCode) return text;
    return text.slice(enhanced[0].length);
  }

  #finish(): SmtpReply {
    const message = this.#lines.length === 1 ? this.#lines[0]! : this.#lines.join('\n');
    const reply = {
      code: this.#code,
      enhancedCode: this.#enhancedCode,
      message: truncate(message),
    };
    this.#lines = [];
    this.#keptChars = 0;
    this.#octets = 0;
    this.#enhancedCode = null;
    return reply;
  }
}

/** Returns the three digits that begin a reply line; null when it has none. RFC 5321 §4.2.1 permits 2yz to 5yz. */
function codeOf(line: string): number | null {
  const hundreds = line.charCodeAt(0) - 48;
  const tens = line.charCodeAt(1) - 48;
  const ones = line.charCodeAt(2) - 48;
  // NaN (a line that is too short) fails every comparison.
  if (!(hundreds >= 2 && hundreds <= 5 && tens >= 0 && tens <= 9 && ones >= 0 && ones <= 9)) {
    return null;
  }
  const separator = line[3];
  if (separator !== undefined && separator !== ' ' && separator !== '-') return null;
  return hundreds * 100 + tens * 10 + ones;
}

function removeUnsafe(text: string): string {
  return UNSAFE.test(text) ? text.replaceAll('\t', ' ').replace(UNSAFE_ALL, '') : text;
}

/** Truncates to 2 KB of UTF-8 between two characters. */
function truncate(message: string): string {
  // A UTF-16 unit is at most three bytes of UTF-8.
  if (message.length * 3 <= MESSAGE_BYTES_MAX) return message;
  const bytes = Buffer.from(message);
  if (bytes.length <= MESSAGE_BYTES_MAX) return message;
  let end = MESSAGE_BYTES_MAX;
  while ((bytes[end]! & 0xc0) === 0x80) end--;
  return bytes.toString('utf8', 0, end);
}
