/**
 * A connection pooler in front of a database: real connections to the server, lent to clients for a session or for a
 * transaction. Like pgBouncer, it authenticates clients itself, gives them its own process numbers, and refuses
 * settings in the first message.
 */
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import pg from 'pg';
import type { DatabaseAddress } from '../../src/database/server/connect.ts';

export type Pooler = AsyncDisposable & { port: number };

type PoolerOptions = {
  /** When a client returns a connection to the server. */
  mode: 'session' | 'transaction';
  /** The idle connection that is lent next. */
  lends: 'newest' | 'oldest';
};

type Backend = { client: pg.Client; stream: Socket };

const SETTINGS_OF_POSTGRES = new Set(['user', 'database', 'client_encoding', 'application_name']);

export async function startPooler(
  address: DatabaseAddress,
  options: PoolerOptions,
): Promise<Pooler> {
  const pool = new BackendPool(address, options.lends);
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    new Visitor(socket, pool, options.mode);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await pool.end();
    },
  };
}

class BackendPool {
  readonly #address: DatabaseAddress;
  readonly #lends: PoolerOptions['lends'];
  readonly #idle: Backend[] = [];
  readonly #all: Backend[] = [];

  constructor(address: DatabaseAddress, lends: PoolerOptions['lends']) {
    this.#address = address;
    this.#lends = lends;
  }

  async lend(): Promise<Backend> {
    const idle = this.#lends === 'newest' ? this.#idle.pop() : this.#idle.shift();
    if (idle) return idle;
    const client = new pg.Client(this.#address);
    client.on('error', () => {});
    await client.connect();
    // pg has logged in. From here on the bytes belong to the visitor.
    const stream = client.connection.stream as Socket;
    stream.removeAllListeners('data');
    stream.on('error', () => {});
    const backend = { client, stream };
    this.#all.push(backend);
    return backend;
  }

  giveBack(backend: Backend): void {
    this.#idle.push(backend);
  }

  async end(): Promise<void> {
    for (const { stream } of this.#all) stream.destroy();
    const open = this.#all.filter(({ stream }) => !stream.closed);
    await Promise.all(open.map(({ stream }) => once(stream, 'close')));
  }
}

class Visitor {
  readonly #socket: Socket;
  readonly #pool: BackendPool;
  readonly #mode: PoolerOptions['mode'];
  #isGreeted = false;
  #said = Buffer.alloc(0);
  #backend: Backend | null = null;
  #answering = Buffer.alloc(0);
  #working: Promise<void> = Promise.resolve();

  constructor(socket: Socket, pool: BackendPool, mode: PoolerOptions['mode']) {
    this.#socket = socket;
    this.#pool = pool;
    this.#mode = mode;
    socket.on('data', (bytes: Buffer) => {
      this.#working = this.#working.then(() => this.#receive(bytes));
    });
    // The end of a session closes its connection, so that no other client gets its settings.
    socket.on('close', () => this.#backend?.stream.destroy());
  }

  async #receive(bytes: Buffer): Promise<void> {
    this.#said = Buffer.concat([this.#said, bytes]);
    if (!this.#isGreeted) this.#greet();
    if (!this.#isGreeted || this.#said.length === 0) return;
    const said = this.#said;
    this.#said = Buffer.alloc(0);
    if (said[0] === 'X'.charCodeAt(0)) return void this.#socket.end();
    this.#backend ??= await this.#borrow();
    this.#backend.stream.write(said);
  }

  #greet(): void {
    const length = this.#said.length < 4 ? Infinity : this.#said.readInt32BE(0);
    if (this.#said.length < length) return;
    const names = this.#said.toString('utf8', 8, length).split('\0');
    this.#said = this.#said.subarray(length);
    const strange = names.find((name, i) => i % 2 === 0 && name && !SETTINGS_OF_POSTGRES.has(name));
    if (strange !== undefined) return this.#refuse(`unsupported startup parameter: ${strange}`);
    this.#isGreeted = true;
    const key = Buffer.alloc(8);
    key.writeInt32BE(randomInt(1, 2 ** 31), 0);
    this.#socket.write(message('R', Buffer.alloc(4)));
    this.#socket.write(message('K', key));
    this.#socket.write(message('Z', Buffer.from('I')));
  }

  #refuse(reason: string): void {
    const fields = `SFATAL\0VFATAL\0C08P01\0M${reason}\0\0`;
    this.#socket.end(message('E', Buffer.from(fields)));
  }

  async #borrow(): Promise<Backend> {
    const backend = await this.#pool.lend();
    backend.stream.on('data', (bytes: Buffer) => this.#answer(backend, bytes));
    return backend;
  }

  /** Forwards the result. Returns the connection to the pool when no transaction is open. */
  #answer(backend: Backend, bytes: Buffer): void {
    this.#answering = Buffer.concat([this.#answering, bytes]);
    let end = 0;
    let isOver = false;
    while (this.#answering.length >= end + 5) {
      const next = end + 1 + this.#answering.readInt32BE(end + 1);
      if (this.#answering.length < next) break;
      const [type, status] = [this.#answering[end], this.#answering[next - 1]];
      isOver = type === 'Z'.charCodeAt(0) && status === 'I'.charCodeAt(0);
      end = next;
    }
    const whole = this.#answering.subarray(0, end);
    this.#answering = this.#answering.subarray(end);
    if (isOver && this.#mode === 'transaction') {
      backend.stream.removeAllListeners('data');
      this.#backend = null;
      this.#pool.giveBack(backend);
    }
    this.#socket.write(whole);
  }
}

function message(type: string, body: Buffer): Buffer {
  const head = Buffer.alloc(5);
  head.write(type);
  head.writeInt32BE(4 + body.length, 1);
  return Buffer.concat([head, body]);
}
