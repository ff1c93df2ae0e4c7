/**
 * The bytes of one session at an SMTP server: command lines, content, replies and TLS, with timeouts and memory
 * limits. server.ts executes the commands.
 *
 * Reads only while input is expected, so a client that sends ahead fills its own buffers. Replies are sent together
 * once no more input is available (RFC 2920 §3.2). While a client does not read its replies, nothing is read from
 * it.
 */
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { SmtpAnswer } from './server-types.ts';

/** `bare`: a CR or LF outside of a CRLF. `stopping`: `interrupt` was called. */
export type LineRead =
  | { kind: 'line'; line: Buffer }
  | { kind: 'bare' | 'too_long' | 'over' | 'timeout' | 'stopping' };

type Wake = 'data' | 'over' | 'timeout' | 'stopping';

/** RFC 4954 §4 needs more than the 512 octets of RFC 5321. A longer line is not a command. */
const LINE_OCTETS_MAX = 4_096;
const UNREAD_REPLIES_BYTES_MAX = 64 * 1024;
/** After closing, input is discarded for this time, because a reset would discard our reply. */
const LINGER_MS = 5_000;
const SENDS_AT_LEAST_PER_S = 1_000;
const CR = 13;
const LF = 10;
const EMPTY = Buffer.alloc(0);

export class SmtpServerWire {
  #socket: Socket;
  #rest: Buffer = EMPTY;
  #replies = '';
  #isOver = false;
  #wake: ((why: Wake) => void) | null = null;
  #waitsForLine = false;
  #securing: TLSSocket | null = null;
  readonly #onData = (chunk: Buffer): void => {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    if (this.#wake === null) this.#socket.pause();
    else this.#awake('data');
  };
  readonly #onOver = (): void => {
    this.#isOver = true;
    this.#awake('over');
  };

  readonly #onReply: (code: number) => void;

  constructor(socket: Socket, onReply: (code: number) => void = () => {}) {
    this.#socket = socket;
    this.#onReply = onReply;
    this.#listen();
  }

  get tls(): { version: string; cipher: string } | null {
    if (!(this.#socket instanceof TLSSocket)) return null;
    return {
      version: this.#socket.getProtocol() ?? '',
      cipher: this.#socket.getCipher().standardName,
    };
  }

  get hasMore(): boolean {
    return this.#rest.length > 0;
  }

  /** Returns whether input has already arrived. Reading the socket takes two turns of the event loop. */
  async hasEarlyInput(): Promise<boolean> {
    this.#socket.resume();
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    return this.hasMore;
  }

  /** Returns the next command. Sends the pending replies before it waits. */
  async line(timeoutMs: number): Promise<LineRead> {
    const ready = this.#takeLine();
    if (ready !== null) return ready;
    this.flush();
    const timer = setTimeout(() => this.#awake('timeout'), timeoutMs);
    this.#waitsForLine = true;
    try {
      if (!(await this.#repliesAreRead())) return { kind: this.#isOver ? 'over' : 'timeout' };
      for (;;) {
        const read = this.#takeLine();
        if (read !== null) return read;
        const why = await this.#more();
        if (why !== 'data') return { kind: why };
      }
    } finally {
      this.#waitsForLine = false;
      clearTimeout(timer);
    }
  }

  #takeLine(): LineRead | null {
    const rest = this.#rest;
    const cr = rest.indexOf(CR);
    const lf = rest.indexOf(LF);
    const first = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
    if (first > LINE_OCTETS_MAX || (first === -1 && rest.length > LINE_OCTETS_MAX)) {
      return { kind: 'too_long' };
    }
    if (first === -1) return null;
    if (first === lf) return { kind: 'bare' };
    if (cr + 1 === rest.length) return null;
    if (rest[cr + 1] !== LF) return { kind: 'bare' };
    this.#rest = rest.subarray(cr + 2);
    return { kind: 'line', line: rest.subarray(0, cr) };
  }

  /**
   * Passes input to `read` until it returns a result; null requests more.
   * @param spanMs interval in which input must arrive again, at 1,000 octets a second or more
   * @param timeoutMs milliseconds for the whole content
   * @returns `timeout` when the client was too slow, `over` when it has disconnected
   */
  async content<Result>(
    read: (chunk: Buffer) => Result | null,
    { spanMs, timeoutMs }: { spanMs: number; timeoutMs: number },
  ): Promise<Result | 'over' | 'timeout'> {
    this.flush();
    let octets = 0;
    const wholeTimer = setTimeout(() => this.#awake('timeout'), timeoutMs);
    const timer = setInterval(() => {
      if (octets < (spanMs / 1_000) * SENDS_AT_LEAST_PER_S) this.#awake('timeout');
      octets = 0;
    }, spanMs);
    try {
      for (;;) {
        const chunk = this.#rest;
        this.#rest = EMPTY;
        octets += chunk.length;
        const result = chunk.length === 0 ? null : read(chunk);
        if (result !== null) return result;
        const why = await this.#more();
        if (why !== 'data') return why === 'over' ? 'over' : 'timeout';
      }
    } finally {
      clearInterval(timer);
      clearTimeout(wholeTimer);
    }
  }

  giveBack(bytes: Buffer): void {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([bytes, this.#rest]);
  }

  reply(answer: SmtpAnswer): void {
    this.#onReply(answer.code);
    this.#replies += replyText(answer);
  }

  /** Queues a reply of several lines, unchanged. */
  replyLines(code: number, lines: readonly string[]): void {
    this.#onReply(code);
    const last = lines.length - 1;
    this.#replies += lines
      .map((line, index) => `${code}${index === last ? ' ' : '-'}${line}\r\n`)
      .join('');
  }

  flush(): void {
    if (this.#replies === '') return;
    if (!this.#isGone()) this.#socket.write(this.#replies, 'latin1');
    this.#replies = '';
  }

  /** Ends the wait for a command. A message in progress continues. */
  interrupt(): void {
    if (this.#waitsForLine) this.#awake('stopping');
  }

  /**
   * Starts TLS; false when the handshake fails or times out. Plain text is never read as a command: the caller
   * ensures that no input is pending, and later bytes belong to the handshake.
   */
  async secure(secureContext: SecureContext, timeoutMs: number): Promise<boolean> {
    this.flush();
    this.#socket.off('data', this.#onData).off('end', this.#onOver).off('close', this.#onOver);
    const socket = new TLSSocket(this.#socket, { isServer: true, secureContext });
    this.#securing = socket;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), timeoutMs);
    const failed = (): void => resolve(false);
    socket.once('secure', () => resolve(true)).on('error', failed);
    socket.once('close', failed).once('end', failed);
    const isSecure = await promise;
    clearTimeout(timer);
    this.#securing = null;
    this.#socket = socket;
    if (!isSecure) {
      this.#isOver = true;
      socket.destroy();
      return false;
    }
    socket.off('close', failed).off('end', failed);
    this.#listen();
    return true;
  }

  /** Sends the pending replies and closes. Further input is discarded for 5 s. */
  close(): void {
    this.flush();
    this.#isOver = true;
    const socket = this.#socket;
    socket.off('data', this.#onData);
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.once('end', () => socket.destroySoon());
    socket.end();
    socket.on('data', () => {}).resume();
    if (socket.readableEnded) socket.destroySoon();
  }

  /** Sends a last reply if possible, and closes at once, in any state of the session. */
  shut(answer: SmtpAnswer): void {
    const socket = this.#socket;
    this.#onReply(answer.code);
    if (this.#securing !== null) this.#securing.destroy();
    else if (this.#isGone() || socket.writableLength > 0) socket.destroy();
    else socket.write(this.#replies + replyText(answer), 'latin1', () => socket.destroy());
    this.#replies = '';
    this.#isOver = true;
    this.#awake('over');
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #listen(): void {
    const socket = this.#socket;
    socket.on('data', this.#onData).on('end', this.#onOver).on('close', this.#onOver);
    socket.on('error', this.#onOver).pause();
  }

  #more(): Promise<Wake> {
    if (this.#isOver) return Promise.resolve('over');
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#socket.resume();
    });
  }

  #awake(why: Wake): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.(why);
  }

  /** Returns false when the client does not read its replies in time. */
  async #repliesAreRead(): Promise<boolean> {
    if (this.#socket.writableLength <= UNREAD_REPLIES_BYTES_MAX) return true;
    this.#socket.pause();
    const drained = (): void => this.#awake('data');
    const why = await new Promise<Wake>((resolve) => {
      this.#wake = resolve;
      this.#socket.once('drain', drained);
    });
    this.#socket.off('drain', drained);
    return why === 'data';
  }

  #isGone(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }
}

const TEXT_MAX = 1_600;
const TEXT_PER_LINE_MAX = 400;

/** Returns the text as printable ASCII, in reply lines within 512 octets (RFC 5321 §4.5.3.1.5). */
export function replyText({ code, enhanced, before = '', text }: SmtpAnswer): string {
  const printable = text.slice(0, TEXT_MAX).replace(/[^ -~]+/g, '?') || 'Ok';
  const wrapped =
    printable.match(new RegExp(`.{1,${TEXT_PER_LINE_MAX}}(?: |$)|.{1,400}`, 'g')) ?? [];
  const lines = before === '' ? wrapped : [before, ...wrapped];
  const status = enhanced === null ? '' : `${enhanced} `;
  return lines
    .map((line, index) => {
      const mark = index === lines.length - 1 ? ' ' : '-';
      return `${code}${mark}${status}${line.trimEnd()}\r\n`;
    })
    .join('');
}
