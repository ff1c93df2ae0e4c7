/** A socket without a network. It returns the given bytes in their pieces, and keeps what the server writes. */
import type { Socket } from 'node:net';
import { Duplex } from 'node:stream';

export class MemorySocket extends Duplex {
  readonly #pieces: readonly Buffer[];
  #next = 0;
  written = '';

  constructor(pieces: readonly Buffer[]) {
    super({ allowHalfOpen: true });
    this.#pieces = pieces;
  }

  override _read(): void {
    this.push(this.#pieces[this.#next++] ?? null);
  }

  override _write(bytes: Buffer, _encoding: string, done: () => void): void {
    this.written += bytes.toString('latin1');
    done();
  }

  destroySoon(): void {
    if (this.writableFinished) return void this.destroy();
    this.once('finish', () => this.destroy());
    this.end();
  }

  /** Returns this as a socket. It has every member that a server uses. */
  asSocket(): Socket {
    return this as unknown as Socket;
  }
}
