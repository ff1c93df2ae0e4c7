/** Splits the input of the scripted mail server into commands and messages; null: the client has disconnected. */
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

  /** @param pauseMs pause after each chunk, in milliseconds */
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

  /** Returns the input before `mark`, and drops the mark. */
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
      // The rest of a message must not become a command.
      this.#chunks = [];
      return null;
    }
  }

  /** Joins the chunks late, because a message of 30 MB has thousands. */
  #cutAt(mark: Buffer): Buffer {
    const bytes = Buffer.concat(this.#chunks);
    const at = bytes.indexOf(mark);
    this.#chunks = [bytes.subarray(at + mark.length)];
    return bytes.subarray(0, at);
  }

  /** Returns a message up to its end mark, with dots unstuffed. */
  async message(): Promise<Buffer | null> {
    // The line end of DATA begins the first line, so that a lone dot is a normal end mark.
    this.#chunks.unshift(CRLF);
    const stuffed = await this.#until(END);
    if (stuffed === null) return null;
    const text = Buffer.concat([stuffed, CRLF]).toString('latin1').replaceAll('\r\n.', '\r\n');
    return Buffer.from(text.slice(2), 'latin1');
  }

  /** Waits for a few bytes, then stops at once: the system gives fast readers a buffer of many megabytes. */
  async some(): Promise<void> {
    this.#isEnough = true;
    while (this.#chunks.every((chunk) => chunk.length === 0) && (await this.#more()));
  }

  /** Stops reading, so that the sender's window closes. Resolves when the sender has disconnected. */
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
