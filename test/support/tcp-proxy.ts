/**
 * A TCP proxy in front of a server, for tests of what happens when the network fails: it can
 * refuse, stall, slow down, slice, narrow, cut, forget connections, and cut at a chosen moment of the
 * conversation. Nothing it passes on is changed.
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

/** What happens to the connection whose client sends a text. */
export type Trap = {
  /** Bytes of the client that spring it. */
  text: string;
  /**
   * `sent`: cut as soon as everything the client had to say has been passed on. `answered`: cut
   * when the server answers, and the answer is lost.
   */
  cutWhen: 'sent' | 'answered';
};

export type TcpProxy = AsyncDisposable & {
  readonly port: number;
  /** Connections that are open now. */
  readonly open: number;
  /** Nothing passes in either direction; new connections are accepted and receive nothing. */
  stall(): void;
  /** Everything takes so much longer in each direction, until healed. */
  slow(delayMs: number): void;
  /** Everything comes in pieces of so many bytes, a moment apart, until healed. */
  slice(sliceBytes: number): void;
  /** So many bytes a second get through in each direction of a connection, until healed. */
  narrow(bytesPerS: number): void;
  /** Cuts every connection; new ones are still taken. */
  cut(): void;
  /** Cuts every connection and refuses new ones. */
  refuse(): Promise<void>;
  /** Passes on again, what piled up first; listens again. */
  heal(): Promise<void>;
  /** The connections of now stay open and silent for ever; new ones work. */
  forget(): void;
  /**
   * The connection whose client sends this text is forgotten at that moment, and the text with it; with `all` the
   * network is gone from then on, for other connections and new ones, too. Resolves when it has happened.
   */
  forgetAt(text: string, options?: { all: boolean }): Promise<void>;
  /** Resolves when the trap has sprung, which it does once. */
  trap(trap: Trap): Promise<void>;
};

type Link = { client: Socket; server: Socket; isForgotten: boolean; losesAnswer: boolean };
type Pace = { pieceBytes: number; everyMs: number };
type Armed = Trap & { sprung: () => void };
type Oblivion = { text: string; all: boolean; happened: () => void };

/** The last message of a statement, as PostgreSQL's clients send it: Sync. */
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
  /** What a slow link still has to pass on. */
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
    const link: Link = { client, server, isForgotten: false, losesAnswer: false };
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
      link.losesAnswer = true;
    } else if (bytes.subarray(-SYNC.length).equals(SYNC)) {
      this.#spring(link);
    }
  }

  #fromServer(link: Link, bytes: Buffer): void {
    if (link.losesAnswer) this.#spring(link);
    else this.#pass(link.client, bytes);
  }

  /** In order, also when the delay ends: nothing overtakes what still waits for its time. */
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

/** As a crashed router would: the client sees a reset; the server reads what had been sent. */
function cutLink({ client, server }: Link): void {
  // A socket that is being shut down cannot be reset any more: its handle would never close.
  if (client.writableEnded) client.destroy();
  else client.resetAndDestroy();
  server.end();
}
