/**
 * The bytes of one session at an SMTP server: command lines, content, replies and TLS, with timeouts and memory
 * limits. server-session.ts executes the commands.
 *
 * Reads only while input is expected, so a client that sends ahead fills its own buffers. Replies are sent together
 * once no more input is available (RFC 2920 §3.2). While a client does not read its replies, nothing is read from
 * it.
 */
import type { Socket } from 'node:net';
import { type SecureContext, TLSSocket } from 'node:tls';
import type { ServerReply } from './server-types.ts';

/** `bare`: a CR or LF outside of a CRLF. `stopping`: `interrupt` was called. */
export type LineRead =
  | { kind: 'line'; line: Buffer }
  | { kind: 'bare' | 'too_long' | 'disconnected' | 'timeout' | 'stopping' };

type Wake = 'data' | 'disconnected' | 'timeout' | 'stopping';

/** RFC 4954 §4 needs more than the 512 octets of RFC 5321. A longer line is not a command. */
const LINE_OCTETS_MAX = 4_096;
const UNREAD_REPLIES_BYTES_MAX = 64 * 1024;
/** After closing, input is discarded for this time, because a reset would discard our reply. */
const LINGER_MS = 5_000;
/** Input beyond this stays in the buffers of the system, so that it costs this process no time. */
const DISCARDED_BYTES_MAX = 1024 ** 2;
const OCTETS_PER_S_MIN = 1_000;
const REPLY_CHARS_MAX = 1_600;
const LINE_CHARS_MAX = 400;
const CR = 13;
const LF = 10;
const EMPTY = Buffer.alloc(0);

export class SmtpServerWire {
  #socket: Socket;
  #input: Buffer = EMPTY;
  #replies = '';
  #hasEnded = false;
  #wake: ((reason: Wake) => void) | null = null;
  #waitsForLine = false;
  #handshakeSocket: TLSSocket | null = null;
  readonly #onData = (chunk: Buffer): void => {
    this.#input = this.#input.length === 0 ? chunk : Buffer.concat([this.#input, chunk]);
    if (this.#wake === null) this.#socket.pause();
    else this.#wakeUp('data');
  };
  readonly #onEnd = (): void => {
    this.#hasEnded = true;
    this.#wakeUp('disconnected');
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

  get hasInput(): boolean {
    return this.#input.length > 0;
  }

  /** Returns whether input has already arrived. Reading the socket takes two turns of the event loop. */
  async hasEarlyInput(): Promise<boolean> {
    this.#socket.resume();
    await new Promise(setImmediate);
    await new Promise(setImmediate);
    return this.hasInput;
  }

  /** Returns the next command. Sends the pending replies before it waits. */
  async readLine(timeoutMs: number): Promise<LineRead> {
    const ready = this.#takeLine();
    if (ready !== null) return ready;
    this.flush();
    const timer = setTimeout(() => this.#wakeUp('timeout'), timeoutMs);
    this.#waitsForLine = true;
    try {
      if (!(await this.#waitUntilRepliesAreRead()))
        return { kind: this.#hasEnded ? 'disconnected' : 'timeout' };
      for (;;) {
        const read = this.#takeLine();
        if (read !== null) return read;
        const reason = await this.#waitForInput();
        if (reason !== 'data') return { kind: reason };
      }
    } finally {
      this.#waitsForLine = false;
      clearTimeout(timer);
    }
  }

  #takeLine(): LineRead | null {
    const input = this.#input;
    const cr = input.indexOf(CR);
    const lf = input.indexOf(LF);
    const first = cr === -1 || (lf !== -1 && lf < cr) ? lf : cr;
    if (first > LINE_OCTETS_MAX || (first === -1 && input.length > LINE_OCTETS_MAX)) {
      return { kind: 'too_long' };
    }
    if (first === -1) return null;
    if (first === lf) return { kind: 'bare' };
    if (cr + 1 === input.length) return null;
    if (input[cr + 1] !== LF) return { kind: 'bare' };
    this.#input = input.subarray(cr + 2);
    return { kind: 'line', line: input.subarray(0, cr) };
  }

  /**
   * Passes input to `read` until it returns a result; null requests more.
   * @param options.intervalMs interval in which input must arrive again, at 1,000 octets a second or more
   * @param options.timeoutMs milliseconds for the whole content
   * @returns `timeout` when the client was too slow
   */
  async readContent<Result>(
    read: (chunk: Buffer) => Result | null,
    { intervalMs, timeoutMs }: { intervalMs: number; timeoutMs: number },
  ): Promise<Result | 'disconnected' | 'timeout'> {
    this.flush();
    let octets = 0;
    const totalTimer = setTimeout(() => this.#wakeUp('timeout'), timeoutMs);
    const timer = setInterval(() => {
      if (octets < (intervalMs / 1_000) * OCTETS_PER_S_MIN) this.#wakeUp('timeout');
      octets = 0;
    }, intervalMs);
    try {
      for (;;) {
        const chunk = this.#input;
        this.#input = EMPTY;
        octets += chunk.length;
        const result = chunk.length === 0 ? null : read(chunk);
        if (result !== null) return result;
        const reason = await this.#waitForInput();
        if (reason !== 'data') return reason === 'disconnected' ? 'disconnected' : 'timeout';
      }
    } finally {
      clearInterval(timer);
      clearTimeout(totalTimer);
    }
  }

  unread(bytes: Buffer): void {
    this.#input = this.#input.length === 0 ? bytes : Buffer.concat([bytes, this.#input]);
  }

  reply(reply: ServerReply): void {
    this.#onReply(reply.code);
    this.#replies += formatReply(reply);
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
    if (!this.#isClosed()) this.#socket.write(this.#replies, 'latin1');
    this.#replies = '';
  }

  /** Ends the wait for a command. A message in progress continues. */
  interrupt(): void {
    if (this.#waitsForLine) this.#wakeUp('stopping');
  }

  /**
   * Starts TLS; false when the handshake fails or times out. Plain text is never read as a command: the caller
   * ensures that no input is pending, and later bytes belong to the handshake.
   */
  async secure(secureContext: SecureContext, timeoutMs: number): Promise<boolean> {
    this.flush();
    this.#socket.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onEnd);
    const socket = new TLSSocket(this.#socket, { isServer: true, secureContext });
    this.#handshakeSocket = socket;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const timer = setTimeout(() => resolve(false), timeoutMs);
    const failed = (): void => resolve(false);
    socket.once('secure', () => resolve(true)).on('error', failed);
    socket.once('close', failed).once('end', failed);
    const succeeded = await promise;
    clearTimeout(timer);
    this.#handshakeSocket = null;
    this.#socket = socket;
    if (!succeeded) {
      this.#hasEnded = true;
      socket.destroy();
      return false;
    }
    socket.off('close', failed).off('end', failed);
    this.#listen();
    return true;
  }

  /** Sends the pending replies and closes. Up to 1 MiB of further input is discarded, for at most 5 s. */
  close(): void {
    this.flush();
    this.#hasEnded = true;
    const socket = this.#socket;
    socket.off('data', this.#onData);
    if (socket.destroyed) return;
    const timer = setTimeout(() => socket.destroy(), LINGER_MS);
    socket.once('close', () => clearTimeout(timer));
    socket.once('end', () => socket.destroySoon());
    socket.end();
    let discardedBytes = 0;
    socket.on('data', (chunk: Buffer) => {
      discardedBytes += chunk.length;
      if (discardedBytes > DISCARDED_BYTES_MAX) socket.pause();
    });
    socket.resume();
    if (socket.readableEnded) socket.destroySoon();
  }

  /** Sends a last reply if possible, and closes at once, in any state of the session. */
  closeNow(reply: ServerReply): void {
    const socket = this.#socket;
    this.#onReply(reply.code);
    if (this.#handshakeSocket !== null) this.#handshakeSocket.destroy();
    else if (this.#isClosed() || socket.writableLength > 0) socket.destroy();
    else socket.write(this.#replies + formatReply(reply), 'latin1', () => socket.destroy());
    this.#replies = '';
    this.#hasEnded = true;
    this.#wakeUp('disconnected');
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #listen(): void {
    const socket = this.#socket;
    socket.on('data', this.#onData).on('end', this.#onEnd).on('close', this.#onEnd);
    socket.on('error', this.#onEnd).pause();
  }

  #waitForInput(): Promise<Wake> {
    if (this.#hasEnded) return Promise.resolve('disconnected');
    return new Promise((resolve) => {
      this.#wake = resolve;
      this.#socket.resume();
    });
  }

  #wakeUp(reason: Wake): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.(reason);
  }

  /** Waits until few replies are unread. Returns false when the client does not read them in time. */
  async #waitUntilRepliesAreRead(): Promise<boolean> {
    if (this.#socket.writableLength <= UNREAD_REPLIES_BYTES_MAX) return true;
    this.#socket.pause();
    const drained = (): void => this.#wakeUp('data');
    const reason = await new Promise<Wake>((resolve) => {
      this.#wake = resolve;
      this.#socket.once('drain', drained);
    });
    this.#socket.off('drain', drained);
    return reason === 'data';
  }

  #isClosed(): boolean {
    return this.#socket.destroyed || this.#socket.writableEnded;
  }
}

/** Returns the text as printable ASCII, in reply lines within 512 octets (RFC 5321 §4.5.3.1.5). */
export function formatReply({ code, enhanced, firstLine = '', text }: ServerReply): string {
  const printable = text.slice(0, REPLY_CHARS_MAX).replace(/[^ -~]+/g, '?') || 'Ok';
  const wrapped =
    printable.match(new RegExp(`.{1,${LINE_CHARS_MAX}}(?: |$)|.{1,${LINE_CHARS_MAX}}`, 'g')) ?? [];
  const lines = firstLine === '' ? wrapped : [firstLine, ...wrapped];
  const status = enhanced === null ? '' : `${enhanced} `;
  return lines
    .map((line, index) => {
      const separator = index === lines.length - 1 ? ' ' : '-';
      return `${code}${separator}${status}${line.trimEnd()}\r\n`;
    })
    .join('');
}
