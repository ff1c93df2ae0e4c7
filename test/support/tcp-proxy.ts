/**
 * A TCP proxy in front of a server, for tests of network failures. It can refuse, stall, delay, slice and throttle,
 * cut or forget connections, and cut at a chosen moment. It never changes the bytes.
 */
import { once } from 'node:events';
import {
  type AddressInfo,
  connect,
  createServer,
  type NetConnectOpts,
  type Server,
  type Socket,
} from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** The fault of a connection whose client sends a text. */
export type Trap = {
  /** Bytes of the client that trigger it. */
  text: string;
  /** `sent`: cuts when all bytes of the client are forwarded. `answered`: cuts and drops the reply. */
  cutWhen: 'sent' | 'answered';
};

export type TcpProxy = AsyncDisposable & {
  readonly port: number;
  readonly open: number;
  /** Stops forwarding in both directions. New connections are accepted and receive nothing. */
  stall(): void;
  /** Delays everything in each direction, until healed. */
  slow(delayMs: number): void;
  /** Forwards pieces of so many bytes with pauses, until healed. */
  slice(sliceBytes: number): void;
  /** Limits the bytes per second in each direction of a connection, until healed. */
  narrow(bytesPerS: number): void;
  /** Cuts every connection. New ones are accepted. */
  cut(): void;
  /** Cuts every connection and refuses new ones. */
  refuse(): Promise<void>;
  /** Forwards again, first what has piled up. Listens again. */
  heal(): Promise<void>;
  /** Leaves current connections open and silent for ever. New ones work. */
  forget(): void;
  /**
   * Forgets the connection whose client sends this text, and drops the text. With `all`, other connections and new
   * ones are silent from then on, too. Resolves when it has happened.
   */
  forgetAt(text: string, options?: { all: boolean }): Promise<void>;
  /** Resolves when the trap was triggered, which happens once. */
  trap(trap: Trap): Promise<void>;
};

type Link = { client: Socket; server: Socket; isForgotten: boolean; losesReply: boolean };
type Pace = { pieceBytes: number; everyMs: number };
type Armed = Trap & { sprung: () => void };
type Oblivion = { text: string; all: boolean; happened: () => void };

/** The last message of a statement from PostgreSQL's clients: Sync. */
const SYNC = Buffer.from([0x53, 0, 0, 0, 4]);

const SLICE_EVERY_MS = 1;
const NARROW_EVERY_MS = 100;

export async function startTcpProxy(upstream: NetConnectOpts): Promise<TcpProxy> {
  const proxy = new Proxy(upstream);
  await proxy.listen(0);
  return proxy;
}

class Proxy implements TcpProxy {
  port = 0;
  readonly #upstream: NetConnectOpts;
  readonly #links = new Set<Link>();
  #server: Server | null = null;
  #isStalled = false;
  #delayMs = 0;
  #pace: Pace | null = null;
  /** Pending bytes of a slow link. */
  readonly #passing = new WeakMap<Socket, Promise<void>>();
  #armed: Armed | null = null;
  #oblivion: Oblivion | null = null;

  constructor(upstream: NetConnectOpts) {
    this.#upstream = upstream;
  }

  async listen(port: number): Promise<void> {
    this.#server = createServer({ noDelay: true }, (client) => this.#link(client));
    this.#server.listen(port, '127.0.0.1');
    await once(this.#server, 'listening');
    this.port = (this.#server.address() as AddressInfo).port;
  }

  get open(): number {
    return this.#links.size;
  }

  stall(): void {
    this.#isStalled = true;
    for (const { client, server } of this.#links) for (const end of [client, server]) end.pause();
  }

  slow(delayMs: number): void {
    this.#delayMs = delayMs;
  }

  slice(sliceBytes: number): void {
    this.#pace = { pieceBytes: sliceBytes, everyMs: SLICE_EVERY_MS };
  }

  narrow(bytesPerS: number): void {
    this.#pace = {
      pieceBytes: Math.ceil((bytesPerS * NARROW_EVERY_MS) / 1_000),
      everyMs: NARROW_EVERY_MS,
    };
  }

  cut(): void {
    for (const link of this.#links) cutLink(link);
  }

  async refuse(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    const closed = server && once(server.close(), 'close');
    this.cut();
    await closed;
  }

  async heal(): Promise<void> {
    this.#isStalled = false;
    this.#delayMs = 0;
    this.#pace = null;
    for (const link of this.#links) if (!link.isForgotten) resume(link);
    if (this.#server === null) await this.listen(this.port);
  }

  forget(): void {
    for (const link of this.#links) forgetLink(link);
  }

  forgetAt(text: string, { all } = { all: false }): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#oblivion = { text, all, happened: resolve };
    return promise;
  }

  trap(trap: Trap): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#armed = { ...trap, sprung: resolve };
    return promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.refuse();
  }

  #link(client: Socket): void {
    const server = connect(this.#upstream);
    const link: Link = { client, server, isForgotten: false, losesReply: false };
    this.#links.add(link);
    client.on('data', (bytes: Buffer) => this.#fromClient(link, bytes));
    server.on('data', (bytes: Buffer) => this.#fromServer(link, bytes));
    client.on('end', () => server.end());
    server.on('end', () => client.end());
    for (const end of [client, server]) {
      end.on('error', () => {});
      end.on('close', () => {
        this.#links.delete(link);
        if (end === server) client.destroy();
        else server.end();
      });
    }
    if (this.#isStalled) for (const end of [client, server]) end.pause();
  }

  #fromClient(link: Link, bytes: Buffer): void {
    if (this.#oblivion !== null && bytes.includes(this.#oblivion.text)) {
      this.#forgetNow(link, this.#oblivion);
      return;
    }
    this.#pass(link.server, bytes);
    const armed = this.#armed;
    if (!armed || !bytes.includes(armed.text)) return;
    if (armed.cutWhen === 'answered') {
      link.losesReply = true;
    } else if (bytes.subarray(-SYNC.length).equals(SYNC)) {
      this.#spring(link);
    }
  }

  #fromServer(link: Link, bytes: Buffer): void {
    if (link.losesReply) this.#spring(link);
    else this.#pass(link.client, bytes);
  }

  /** Forwards in order. When the delay ends, nothing overtakes waiting bytes. */
  #pass(end: Socket, bytes: Buffer): void {
    const before = this.#passing.get(end);
    if (before === undefined && this.#delayMs === 0 && this.#pace === null) {
      end.write(bytes);
      return;
    }
    const passed = Promise.all([before, delay(this.#delayMs)]).then(async () => {
      await this.#writeAtPace(end, bytes);
      if (this.#passing.get(end) === passed) this.#passing.delete(end);
    });
    this.#passing.set(end, passed);
  }

  async #writeAtPace(end: Socket, bytes: Buffer): Promise<void> {
    let from = 0;
    while (from < bytes.length && end.writable) {
      const to = this.#pace === null ? bytes.length : from + this.#pace.pieceBytes;
      end.write(bytes.subarray(from, to));
      from = to;
      if (this.#pace !== null) await delay(this.#pace.everyMs);
    }
  }

  #forgetNow(link: Link, { all, happened }: Oblivion): void {
    this.#oblivion = null;
    forgetLink(link);
    if (all) {
      this.forget();
      this.stall();
    }
    happened();
  }

  #spring(link: Link): void {
    this.#armed?.sprung();
    this.#armed = null;
    cutLink(link);
  }
}

function forgetLink(link: Link): void {
  link.isForgotten = true;
  for (const end of [link.client, link.server]) end.pause();
}

function resume({ client, server }: Link): void {
  for (const end of [client, server]) end.resume();
}

/** Cuts like a crashed router: the client sees a reset, and the server reads what was sent. */
function cutLink({ client, server }: Link): void {
  // A socket that is shutting down cannot be reset: its handle would never close.
  if (client.writableEnded) client.destroy();
  else client.resetAndDestroy();
  server.end();
}
