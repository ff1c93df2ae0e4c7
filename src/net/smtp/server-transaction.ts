/**
 * One message at an SMTP server: MAIL, RCPT, DATA. Each step is checked against the limits and the handlers, and
 * returns the reply to send.
 *
 * Content is read in whole lines until the line with only a dot (RFC 5321 §4.5.2). Only CRLF.CRLF ends a message,
 * and only CRLF ends a line. A single CR or LF makes the content `bare`, and nothing after it is read as commands:
 * servers that disagree about the end of a message may read one message as two (SMTP smuggling). The result does not
 * depend on how bytes are split into chunks. Lines are found with indexOf, not in a loop over bytes.
 */
import type { RcptDsn } from '../../mail/dsn-parameters.ts';
import { readMail, readRcpt } from './server-commands.ts';
import type { ContentBudget, MinuteCounts, UnfinishedMessage, Visit } from './server-limits.ts';
import {
  answerOf,
  closing,
  type SmtpAnswer,
  type SmtpEnvelope,
  type SmtpMessage,
  type SmtpServerLimits,
  type SmtpSessionOptions,
  type SmtpSession,
} from './server-types.ts';
import type { SmtpServerWire } from './server-wire.ts';

export type SessionParts<User> = {
  options: SmtpSessionOptions<User>;
  limits: SmtpServerLimits;
  visit: Visit;
  content: ContentBudget;
  /** Messages per client, counted at MAIL. */
  messages: MinuteCounts;
  facts: SmtpSession<User>;
};

type Open = {
  envelope: SmtpEnvelope & { recipients: string[]; recipientDsn?: Map<string, RcptDsn> };
  wasRefused: boolean;
  excess: number;
};

/**
 * A pipelining client sends all recipients before it reads that there are too many, and sends the refused ones with
 * another message (RFC 5321 §4.5.3.1.10). Only more of them than this count as errors.
 */
const EXCUSED_EXCESS_MAX = 1_000;

export const HELLO_FIRST = answerOf(503, '5.5.1', 'Say EHLO first');
export const BARE_LINE_END = closing(
  500,
  '5.5.2',
  'A line must end with CRLF; a single CR or LF is not allowed',
);
const MAIL_FIRST = answerOf(503, '5.5.1', 'Say MAIL first');
const NO_CAPACITY = answerOf(452, '4.3.1', 'Too much is being received; try again in a moment');
const SENDER_OK = answerOf(250, '2.1.0', 'Ok');
const RECIPIENT_OK = answerOf(250, '2.1.5', 'Ok');

export class SmtpServerTransaction<User> {
  readonly #parts: SessionParts<User>;
  readonly #wire: SmtpServerWire;
  #open: Open | null = null;
  #messages = 0;

  constructor(wire: SmtpServerWire, parts: SessionParts<User>) {
    this.#wire = wire;
    this.#parts = parts;
  }

  get isOpen(): boolean {
    return this.#open !== null;
  }

  reset(): void {
    this.#open = null;
  }

  async mail(argument: string): Promise<SmtpAnswer> {
    const { options, facts, limits, content, messages } = this.#parts;
    const refused = this.#refusesMail();
    if (refused !== null) return refused;
    const mail = readMail(argument, { dsn: options.offersDsn === true });
    if ('refused' in mail) return mail.refused;
    const sizeBytes = mail.sizeBytes ?? 0;
    const { sizeBytesMax, keptBytesMax } = options;
    if (keptBytesMax === undefined && sizeBytes > sizeBytesMax) return this.#tooLarge();
    if (!content.fits(Math.min(sizeBytes, keptBytesMax ?? sizeBytesMax))) return NO_CAPACITY;
    if (this.#messages >= limits.messagesPerSession) {
      return closing(421, '4.7.0', 'Too many messages in this session; open another');
    }
    if (!messages.add(facts.client, limits.messagesPerClientAndMinute)) {
      return answerOf(450, '4.7.1', 'Too many messages from your address; wait a minute');
    }
    const answer = (await options.handlers.onMail?.(facts, mail)) ?? null;
    if (answer !== null) return answer;
    this.#open = { envelope: { ...mail, recipients: [] }, wasRefused: false, excess: 0 };
    return SENDER_OK;
  }

  #refusesMail(): SmtpAnswer | null {
    const { options, facts } = this.#parts;
    if (facts.helo === '') return HELLO_FIRST;
    if (this.#open !== null) return answerOf(503, '5.5.1', 'A message is already open');
    if (options.logIn === undefined || facts.user !== null) return null;
    if (facts.tls === null) return answerOf(530, '5.7.0', 'Say STARTTLS first, then AUTH');
    return answerOf(530, '5.7.0', 'Say AUTH first: mail is accepted after log-in only');
  }

  #tooLarge(): SmtpAnswer {
    const { sizeBytesMax } = this.#parts.options;
    return answerOf(552, '5.3.4', `A message may have at most ${sizeBytesMax} bytes`);
  }

  async rcpt(argument: string): Promise<SmtpAnswer> {
    const { options, facts, limits } = this.#parts;
    const open = this.#open;
    if (open === null) return MAIL_FIRST;
    const answer = await this.#refusesRecipient(open, argument, { options, facts, limits });
    open.wasRefused ||= answer !== null;
    return answer ?? RECIPIENT_OK;
  }

  async #refusesRecipient(
    open: Open,
    argument: string,
    { options, facts, limits }: Pick<SessionParts<User>, 'options' | 'facts' | 'limits'>,
  ): Promise<SmtpAnswer | null> {
    const { envelope } = open;
    const { smtpUtf8 } = envelope;
    const read = readRcpt(argument, { smtpUtf8, dsn: options.offersDsn === true });
    if ('refused' in read) return read.refused;
    const max = limits.recipientsPerMessage;
    if (envelope.recipients.length >= max) {
      open.excess += 1;
      const why = `At most ${max} recipients for one message; send it to the others again`;
      return { ...answerOf(452, '4.5.3', why), isExcused: open.excess <= EXCUSED_EXCESS_MAX };
    }
    const answer = await options.handlers.onRcpt(facts, read.address);
    if (answer !== null) return answer;
    if (read.dsn !== undefined && !envelope.recipients.includes(read.address)) {
      envelope.recipientDsn ??= new Map();
      envelope.recipientDsn.set(read.address, read.dsn);
    }
    envelope.recipients.push(read.address);
    return null;
  }

  /** @returns the reply, or why no reply can be sent */
  async data(argument: string): Promise<SmtpAnswer | { kind: 'over' | 'timeout' }> {
    const { options, limits, content, facts } = this.#parts;
    const open = this.#open;
    if (argument !== '') return answerOf(501, '5.5.4', 'DATA has no arguments');
    if (open === null) return MAIL_FIRST;
    if (open.envelope.recipients.length === 0) {
      if (open.wasRefused) return answerOf(554, '5.5.1', 'No recipient was accepted');
      return answerOf(503, '5.5.1', 'Say RCPT first');
    }
    this.#open = null;
    this.#wire.reply(answerOf(354, null, 'Send the message, then a line with only a dot'));
    const { sizeBytesMax, keptBytesMax } = options;
    const received = await receiveContent(this.#wire, content, {
      client: facts.client,
      sizeBytesMax,
      keptBytesMax,
      spanMs: limits.dataTimeoutMs,
      timeoutMs: limits.messageTimeoutMs,
    });
    return this.#take(open.envelope, received);
  }

  #take(
    envelope: SmtpEnvelope,
    received: Received,
  ): SmtpAnswer | { kind: 'over' | 'timeout' } | Promise<SmtpAnswer> {
    switch (received.kind) {
      case 'message':
        return this.#handOver(envelope, received);
      case 'too_large':
        return this.#tooLarge();
      case 'no_capacity':
        return NO_CAPACITY;
      case 'endless':
        return { ...this.#tooLarge(), closes: true };
      case 'bare':
        return { ...BARE_LINE_END, code: 550 };
      case 'over':
      case 'timeout':
        return { kind: received.kind };
    }
  }

  async #handOver(
    envelope: SmtpEnvelope,
    { message, usedBytes }: Extract<Received, { kind: 'message' }>,
  ): Promise<SmtpAnswer> {
    const { options, facts, content, visit } = this.#parts;
    this.#messages += 1;
    visit.progressed();
    try {
      return await options.handlers.onMessage(facts, envelope, message);
    } finally {
      content.giveBack(usedBytes);
    }
  }
}

type Received =
  | { kind: 'message'; message: SmtpMessage; usedBytes: number }
  | { kind: 'too_large' | 'no_capacity' }
  /** Results that end the session. */
  | { kind: 'bare' | 'endless' | 'over' | 'timeout' };

/** Dropped content is read up to this multiple of the size limit. */
const FOLLOWED_TIMES = 2;
/** Limit on a message of which only the beginning is kept. */
const CUT_BYTES_MAX = 1024 ** 3;
/** Smaller pieces are joined: a buffer per octet would need a hundred times the memory. */
const PIECE_BYTES = 16 * 1024;

type ContentLimits = {
  client: string;
  sizeBytesMax: number;
  keptBytesMax: number | undefined;
  /** Milliseconds within which content must arrive again. */
  spanMs: number;
  timeoutMs: number;
};

/**
 * Receives the content of one message, within its size limit and the budget for all sessions. Content beyond them is
 * read to its end and dropped, so that the client gets the reply. A client that sends far more is disconnected. With
 * `keptBytesMax` only the beginning is kept, and the message is accepted.
 * @returns with the memory in use (`usedBytes`), which the caller must release after handling the message
 */
async function receiveContent(
  wire: SmtpServerWire,
  budget: ContentBudget,
  limits: ContentLimits,
): Promise<Received> {
  const reader = new SmtpContentReader();
  const pieces = new Pieces(budget, limits);
  budget.begin(pieces);
  const followedBytesMax =
    limits.keptBytesMax === undefined ? limits.sizeBytesMax * FOLLOWED_TIMES : CUT_BYTES_MAX;
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
  return { kind: 'message', message, usedBytes: pieces.usedBytes };
}

type Ended = Extract<ContentRead, { kind: 'end' | 'bare' }> | { kind: 'endless' };

class Pieces implements UnfinishedMessage {
  readonly client: string;
  seenBytes = 0;
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
    this.seenBytes += bytes.length;
    if (keptBytesMax === Infinity && this.seenBytes > sizeBytesMax) this.#refuse('too_large');
    if (this.problem !== null || this.usedBytes >= keptBytesMax) return;
    const piece = bytes.subarray(0, keptBytesMax - this.usedBytes);
    if (!this.#budget.take(this, piece.length)) return this.#refuse('no_capacity');
    this.usedBytes += piece.length;
    this.#pieces.push(piece);
    this.#joinSmall();
  }

  join(): Buffer {
    const [only, ...others] = this.#pieces;
    return others.length === 0 ? (only ?? Buffer.alloc(0)) : Buffer.concat(this.#pieces);
  }

  drop(): void {
    this.#budget.giveBack(this.usedBytes);
    this.usedBytes = 0;
    this.#pieces = [];
  }

  evict(): void {
    this.#refuse('no_capacity');
  }

  /** `too_large` wins, because it is permanent. */
  #refuse(problem: 'too_large' | 'no_capacity'): void {
    this.drop();
    if (this.problem !== 'too_large') this.problem = problem;
  }

  /** Joins neighbours of similar size, so that each octet is copied only a few times. */
  #joinSmall(): void {
    for (;;) {
      const [before, last] = this.#pieces.slice(-2);
      if (before === undefined || last === undefined) return;
      if (before.length >= PIECE_BYTES || before.length > 2 * last.length) return;
      this.#pieces.splice(-2, 2, Buffer.concat([before, last]));
    }
  }
}

/** `content`: decoded content. `rest`: the bytes after the end. */
type ContentRead =
  | { kind: 'more'; content: Buffer | null }
  | { kind: 'end'; content: Buffer | null; rest: Buffer }
  | { kind: 'bare' };

const CR = 13;
const LF = 10;
const DOT = 46;
const EMPTY = Buffer.alloc(0);
/** An unfinished line up to this length is kept until its end. Of a longer line only a final CR is kept. */
const CARRIED_MAX = 1_000;

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
class Unstuffed {
  readonly #bytes: Buffer;
  #copy: Buffer | null = null;
  #copied = 0;
  /** Everything before this offset was copied or skipped. */
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
