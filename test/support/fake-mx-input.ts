/**
 * What the scripted mail server reads (fake-mx-session.ts): bytes, handed out in commands and
 * messages. Null: the client has left.
 */
import type { Socket } from 'node:net';

const CRLF = Buffer.from('\r\n');
const END = Buffer.from('\r\n.\r\n');

export class FakeMxInput {
  readonly #socket: Socket;
  #chunks: Buffer[] = [];
  #isOver = false;
  #wake: (() => void) | null = null;
  #isEnough = false;
  readonly #pauseMs: number;
  readonly #onData = (chunk: Buffer): void => {
    this.#chunks.push(chunk);
    if (this.#isEnough) this.#socket.pause();
    else if (this.#pauseMs > 0) this.#rest();
    this.#wake?.();
  };
  readonly #onOver = (): void => {
    this.#isOver = true;
    this.#wake?.();
  };

  /** @param pauseMs how long nothing is read after each chunk */
  constructor(socket: Socket, pauseMs = 0) {
    this.#socket = socket;
    this.#pauseMs = pauseMs;
    socket.on('data', this.#onData).on('end', this.#onOver).on('close', this.#onOver);
    socket.on('error', this.#onOver);
  }

  release(): void {
    this.#socket.off('data', this.#onData);
  }

  line(): Promise<Buffer | null> {
    return this.#until(CRLF);
  }

  /** What comes before `mark`, which is swallowed. */
  async #until(mark: Buffer): Promise<Buffer | null> {
    let searched = 0;
    let tail = Buffer.alloc(0);
    for (;;) {
      for (; searched < this.#chunks.length; searched++) {
        const window = Buffer.concat([tail, this.#chunks[searched]!]);
        if (window.includes(mark)) return this.#cutAt(mark);
        tail = window.subarray(-(mark.length - 1));
      }
      if (await this.#more()) continue;
      // The rest of a message is no command.
      this.#chunks = [];
      return null;
    }
  }

  /** Joins the chunks only now: a message of 30 MB comes in thousands of them. */
  #cutAt(mark: Buffer): Buffer {
    const bytes = Buffer.concat(this.#chunks);
    const at = bytes.indexOf(mark);
    this.#chunks = [bytes.subarray(at + mark.length)];
    return bytes.subarray(0, at);
  }

  /** A message up to its end mark, dots unstuffed. */
  async message(): Promise<Buffer | null> {
    // The line end of DATA opens the first line, so that a lone dot is an end mark like others.
    this.#chunks.unshift(CRLF);
    const stuffed = await this.#until(END);
    if (stuffed === null) return null;
    const text = Buffer.concat([stuffed, CRLF]).toString('latin1').replaceAll('\r\n.', '\r\n');
    return Buffer.from(text.slice(2), 'latin1');
  }

  /**
   * Waits for a few bytes and reads no more: at once, because a receiver that reads fast for a
   * moment is given a buffer of many megabytes by the system.
   */
  async some(): Promise<void> {
    this.#isEnough = true;
    while (this.#chunks.every((chunk) => chunk.length === 0) && (await this.#more()));
  }

  /** Reads nothing more, so that the sender's window closes; resolves when it has left. */
  async never(): Promise<void> {
    this.#socket.pause();
    await new Promise<void>((resolve) => this.#socket.once('close', () => resolve()));
  }

  #rest(): void {
    this.#socket.pause();
    setTimeout(() => {
      if (!this.#isEnough) this.#socket.resume();
    }, this.#pauseMs);
  }

  async #more(): Promise<boolean> {
    if (this.#isOver) return false;
    await new Promise<void>((resolve) => (this.#wake = resolve));
    this.#wake = null;
    return !this.#isOver;
  }
}
