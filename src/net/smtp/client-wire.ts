/**
 * The bytes of the SMTP client: replies, timeouts and connection failures.
 *
 * Each reply belongs to a command, by counting outstanding replies. An unrequested reply, or input that is not a
 * reply, ends the connection, because a later "250" could be assigned to another message. A 421 ends it, too.
 * Replies that were received before remain valid. The first line of a reply decides even if the rest is too long,
 * too late or lost; the connection then ends.
 */
import type { Socket } from 'node:net';
import {
  ReplyParser,
  type SmtpFailureCause,
  type SmtpReply,
} from '../../mail/replies/smtp-reply.ts';

/** Result types of TLS reports (RFC 8460 §4.3), or null for success. */
export type TlsResult =
  | 'starttls-not-supported'
  | 'certificate-host-mismatch'
  | 'certificate-expired'
  | 'certificate-not-trusted'
  | 'validation-failure'
  | null;

export type WireFailure = {
  cause: SmtpFailureCause;
  message: string;
  tlsResult?: TlsResult;
  isSourceProblem?: true;
};
export type ReplyOrFailure = SmtpReply | WireFailure;

/** Milliseconds that a reply may take after its first line. */
const REST_OF_REPLY_MS = 60_000;

export function isFailure(reply: ReplyOrFailure): reply is WireFailure {
  return 'cause' in reply;
}

export class SmtpWire {
  socket: Socket;
  /** Why the connection ended; null while it is open. */
  failure: WireFailure | null = null;
  /** The 421 that ended the connection, also one that no command caused. */
  endedBy: SmtpReply | null = null;
  /** Called once when the connection ends. */
  onEnd: (() => void) | null = null;

  #parser = new ReplyParser();
  /** Received replies to a pipelined batch that were not read yet. */
  #unreadReplies: SmtpReply[] = [];
  #outstandingReplies = 0;
  #waiter: ((reply: ReplyOrFailure) => void) | null = null;
  #timer: NodeJS.Timeout | null = null;
  /** The first line of a reply has arrived, and its rest is awaited. */
  #hasFirstLine = false;
  #timeoutMs = 0;
  #interruptChunk: (() => void) | null = null;

  readonly #onData = (chunk: Buffer): void => this.#read(chunk);
  readonly #onEnd = (): void => void this.fail('closed', 'The server closed the connection.');
  readonly #onClose = (): void => void this.fail('closed', 'The connection was lost.');
  readonly #onError = (error: NodeJS.ErrnoException): void =>
    void this.fail('closed', `The connection was lost (${error.code ?? error.message}).`);

  constructor(socket: Socket) {
    this.socket = socket;
    this.#listen();
  }

  /** True while a reply has arrived that nothing has read. */
  get hasReply(): boolean {
    return this.#unreadReplies.length > 0;
  }

  /**
   * Writes the pieces in as few system calls as possible.
   * @param replies number of replies that they cause
   */
  write(pieces: readonly (string | Buffer)[], replies: number): void {
    this.#outstandingReplies += replies;
    if (this.failure !== null) return;
    if (pieces.length === 1) {
      this.socket.write(pieces[0]!);
      return;
    }
    this.socket.cork();
    for (const piece of pieces) this.socket.write(piece);
    this.socket.uncork();
  }

  /** Counts the reply to the message that `writeChunk` writes next. */
  expectReply(): void {
    this.#outstandingReplies += 1;
  }

  /** Writes one chunk. Resolves when it is sent, a reply has arrived or the connection has ended. */
  async writeChunk(chunk: Buffer, timeoutMs: number): Promise<void> {
    if (this.failure !== null || this.hasReply) return;
    const timer = setTimeout(() => {
      this.fail('timeout', `The server read nothing for ${timeoutMs / 1000} s.`);
    }, timeoutMs);
    await new Promise<void>((resolve) => {
      this.#interruptChunk = resolve;
      this.socket.write(chunk, () => resolve());
    });
    this.#interruptChunk = null;
    clearTimeout(timer);
  }

  nextReply(timeoutMs: number): Promise<ReplyOrFailure> | ReplyOrFailure {
    const unread = this.#unreadReplies.shift();
    if (unread !== undefined) return unread;
    if (this.failure !== null) return this.failure;
    return new Promise((resolve) => {
      this.#waiter = resolve;
      this.#startTimer(timeoutMs);
      this.#shortenTimer();
    });
  }

  fail(cause: SmtpFailureCause, message: string): WireFailure {
    if (this.failure !== null) return this.failure;
    this.failure = { cause, message };
    this.socket.destroy();
    this.#endWait(this.failure);
    this.onEnd?.();
    return this.failure;
  }

  /** Detaches the plain socket so that TLS can read from it. */
  release(): Socket {
    return this.socket
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('close', this.#onClose)
      .off('error', this.#onError);
  }

  /** Continues on the encrypted socket and discards replies received in plain text (RFC 3207 §4.2). */
  adopt(socket: Socket): void {
    this.socket = socket;
    this.#parser = new ReplyParser();
    this.#listen();
  }

  #listen(): void {
    this.socket
      .on('data', this.#onData)
      .on('end', this.#onEnd)
      .on('close', this.#onClose)
      .on('error', this.#onError);
  }

  #read(chunk: Buffer): void {
    const { replies, error } = this.#parser.push(chunk);
    for (const reply of replies) {
      if (this.failure === null) this.#receive(reply);
    }
    if (error !== null) this.fail('garbage', `The server sent ${error}.`);
    else if (this.#outstandingReplies === 0 && this.#parser.isMidReply) {
      this.fail('garbage', 'The server sent data without a command.');
    }
    this.#shortenTimer();
  }

  #startTimer(timeoutMs: number): void {
    this.#timeoutMs = timeoutMs;
    this.#hasFirstLine = false;
    this.#timer = setTimeout(() => {
      this.fail('timeout', `The server did not reply for ${timeoutMs / 1000} s.`);
    }, timeoutMs);
  }

  #shortenTimer(): void {
    if (this.#timer === null || this.#hasFirstLine || !this.#parser.hasFirstLine) return;
    clearTimeout(this.#timer);
    this.#startTimer(Math.min(this.#timeoutMs, REST_OF_REPLY_MS));
    this.#hasFirstLine = true;
  }

  #receive(reply: SmtpReply): void {
    const wasExpected = this.#outstandingReplies > 0;
    if (wasExpected) {
      this.#outstandingReplies -= 1;
      if (!this.#resolveWaiter(reply)) this.#unreadReplies.push(reply);
      this.#interruptChunk?.();
    }
    if (reply.code === 421) {
      this.endedBy = reply;
      this.fail('closed', `The server ended the session: ${reply.message}`);
    } else if (!wasExpected) this.fail('garbage', 'The server sent an unrequested reply.');
  }

  /** Ends the wait for a reply without further input: the first line of an incomplete reply decides. */
  #endWait(failure: WireFailure): void {
    const incomplete = this.#outstandingReplies > 0 ? this.#parser.cut() : null;
    if (!this.#resolveWaiter(incomplete ?? failure) && incomplete !== null)
      this.#unreadReplies.push(incomplete);
  }

  #resolveWaiter(reply: ReplyOrFailure): boolean {
    const waiter = this.#waiter;
    if (waiter === null) return false;
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#timer = null;
    this.#waiter = null;
    waiter(reply);
    return true;
  }
}
