/**
 * Limits the connections of one worker: their number, their number per client, the requests that are begun on each,
 * the time for each request, and the bytes of responses that clients have not read.
 *
 * A connection is known once a valid key was sent on it, and anonymous before. When a limit is reached, the oldest
 * anonymous connection is closed for the newest. So a flood cannot exclude clients with a key: it would have to
 * replace every anonymous connection in the milliseconds between connecting and sending the key. Shared addresses
 * (trusted proxies, this machine) count only towards the total.
 *
 * A client may pipeline requests. Node parses up to 64 KB of them at once, thousands, before any response is sent. So
 * a request begins only in its turn: on an anonymous connection when the response before it was sent, on a known one
 * while the client reads the responses. A client that does not read costs one response.
 *
 * Node itself limits headers, bodies, handshakes and idle connections (http/app.ts). This file limits the time for a
 * response and for reading it.
 */
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { Logger } from 'pino';
import { Overloaded } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import { clientOf } from '../../net/ip-addresses.ts';
import { isUpload } from './bodies.ts';
import { MIB } from '../../lib/units.ts';

export type ConnectionLimits = {
  connections: number;
  /** Anonymous connections per client. Half of all connections may be known ones of one project. */
  connectionsOfClient: number;
  /** Requests of one connection that have no complete response, begun or not. */
  pipelined: number;
  /** Bytes of responses that were sent and not read, for all anonymous and for all known connections. */
  unreadBytes: { anonymous: number; known: number };
  /** Requests without a key per client, until their responses are read. */
  requestsOfClient: number;
  /** Limit on the time from the complete head of a request to its response. */
  responseMs: number;
  /** Limit on a pause in reading. The whole response has this time plus its size divided by readBytesPerS. */
  readMs: number;
  readBytesPerS: number;
  /** Interval of the check of all connections, which is the precision of the time limits. */
  checkEveryMs: number;
};

export const CONNECTION_LIMITS: ConnectionLimits = {
  connections: 8_192,
  connectionsOfClient: 512,
  pipelined: 100,
  unreadBytes: { anonymous: 16 * MIB, known: 128 * MIB },
  requestsOfClient: 64,
  responseMs: 120_000,
  readMs: 20_000,
  readBytesPerS: 8_000,
  checkEveryMs: 1_000,
};

/** Responses up to this size are sent even above the limit for unread bytes, because the refusal itself is one. */
const SMALL_RESPONSE_BYTES = 4 * 1024;
/** A known connection with more unread bytes begins no further request. */
const UNREAD_AT_BEGIN_BYTES = 64 * 1024;
const WARN_EVERY_MS = 60_000;

type Connection = {
  socket: Socket;
  /** The client; null for a shared address. */
  client: string | null;
  /** The project of the key; null for an anonymous connection. */
  project: string | null;
  requestsInProgress: number;
  /** Parsed requests, in order, that begin when the responses before them allow it. */
  waiting: (() => void)[];
  unreadBytes: number;
  pool: Pool;
  deadlineMs: number;
  /** Queued bytes at the last check. `queuedSinceMs` is when their number last changed. */
  queuedBytes: number;
  queuedSinceMs: number;
};

type Pool = { usedBytes: number; maxBytes: number };

type CountedResponse = ServerResponse & { unreadBytes?: number };

type ClientConnectionsOptions = {
  limits: ConnectionLimits;
  isShared: (address: string) => boolean;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  /** Responds to a request whose handler took too long. */
  onTimeout: (socket: Socket) => void;
};

export class ClientConnections {
  readonly #options: ClientConnectionsOptions;
  readonly #limits: ConnectionLimits;
  readonly #open = new Set<Connection>();
  /** Oldest first, like the sets in `#anonymousOf`. */
  readonly #anonymous = new Set<Connection>();
  readonly #anonymousOf = new Map<string, Set<Connection>>();
  readonly #knownCountOf = new Map<string, number>();
  readonly #bySocket = new WeakMap<Socket, Connection>();
  readonly #requestCountOf = new Map<string, number>();
  readonly #pools: { anonymous: Pool; known: Pool };
  /** Connections of a pool that may be closed for others until the next check, most unread bytes last. */
  readonly #idleReaders = new Map<Pool, Connection[]>();
  readonly #timer: NodeJS.Timeout;
  /** Time of the last check, which saves reading the clock. */
  #nowMs: number;
  #closed = 0;
  #warnedAtMs = -Infinity;

  constructor(options: ClientConnectionsOptions) {
    this.#options = options;
    this.#limits = options.limits;
    this.#nowMs = options.world.monotonicMs();
    const { anonymous, known } = options.limits.unreadBytes;
    this.#pools = {
      anonymous: { usedBytes: 0, maxBytes: anonymous },
      known: { usedBytes: 0, maxBytes: known },
    };
    this.#timer = setInterval(() => this.#checkAll(), options.limits.checkEveryMs).unref();
  }

  /** Limits the connections of a server that has its request listener. */
  observe(server: Server): void {
    // Runs first, so that a refused connection needs no handshake.
    server.prependListener('connection', (socket: Socket) => this.#add(socket));
    server.on('secureConnection', (socket: TLSSocket) => this.#replaceByTls(socket));
    const listeners = server.listeners('request');
    server.removeAllListeners('request');
    server.on('request', (request: IncomingMessage, response: ServerResponse) => {
      this.#take({ request, response }, () => {
        for (const listener of listeners) listener.call(server, request, response);
      });
    });
  }

  /** Makes a connection known, because a valid key of this project was sent on it. */
  markKnown(socket: Socket, project: string): void {
    const connection = this.#bySocket.get(socket);
    if (connection === undefined || connection.project !== null) return;
    const knownCount = this.#knownCountOf.get(project) ?? 0;
    if (knownCount >= this.#limits.connections / 2 || !this.#anonymous.has(connection)) return;
    this.#removeAnonymous(connection);
    connection.project = project;
    connection.pool.usedBytes -= connection.unreadBytes;
    connection.pool = this.#pools.known;
    connection.pool.usedBytes += connection.unreadBytes;
    this.#knownCountOf.set(project, knownCount + 1);
  }

  /** Counts a request without a key until its response is read. Returns false when its client has too many. */
  admitAnonymous(address: string, response: ServerResponse): boolean {
    if (this.#options.isShared(address)) return true;
    const client = clientOf(address);
    const count = this.#requestCountOf.get(client) ?? 0;
    if (count >= this.#limits.requestsOfClient) return false;
    this.#requestCountOf.set(client, count + 1);
    response.once('close', () => {
      const remaining = (this.#requestCountOf.get(client) ?? 0) - 1;
      if (remaining === 0) this.#requestCountOf.delete(client);
      else this.#requestCountOf.set(client, remaining);
    });
    return true;
  }

  /**
   * Counts a response until it is read.
   * @param bytes null for a stream, which buffers little
   * @throws Overloaded when too many bytes are unread and no other connection can be closed. The connection ends after
   *   the response.
   */
  countResponse(response: ServerResponse, bytes: number | null): void {
    const connection = this.#bySocket.get(response.req.socket);
    // A response on a closed connection is dropped; counting it would never be undone.
    if (connection === undefined || !this.#open.has(connection)) return;
    if (bytes === null) {
      connection.deadlineMs = Infinity;
      return;
    }
    const { pool } = connection;
    const isTooMuch =
      pool.usedBytes + bytes > pool.maxBytes && !this.#closeIdleReaders(pool, bytes);
    if (isTooMuch && bytes > SMALL_RESPONSE_BYTES) {
      // Ends the connection after the refusal: the requests that follow would be refused for the same reason.
      response.shouldKeepAlive = false;
      throw new Overloaded('too many responses have not been read');
    }
    const isFirst = connection.unreadBytes === 0;
    if (isFirst) connection.deadlineMs = this.#nowMs + this.#limits.readMs;
    connection.deadlineMs += (bytes * 1_000) / this.#limits.readBytesPerS;
    (response as CountedResponse).unreadBytes = bytes;
    connection.unreadBytes += bytes;
    pool.usedBytes += bytes;
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #add(socket: Socket): void {
    const { remoteAddress = '' } = socket;
    const client = this.#options.isShared(remoteAddress) ? null : clientOf(remoteAddress);
    const connection: Connection = {
      socket,
      client,
      project: null,
      requestsInProgress: 0,
      waiting: [],
      unreadBytes: 0,
      pool: this.#pools.anonymous,
      deadlineMs: Infinity,
      queuedBytes: 0,
      queuedSinceMs: 0,
    };
    if (!this.#makeRoom(client)) return void socket.destroy();
    this.#bySocket.set(socket, connection);
    this.#open.add(connection);
    this.#anonymous.add(connection);
    if (client !== null) {
      const clientConnections = this.#anonymousOf.get(client);
      if (clientConnections) clientConnections.add(connection);
      else this.#anonymousOf.set(client, new Set([connection]));
    }
    socket.once('close', () => this.#remove(connection));
  }

  /** Counts the TLS connection instead of its TCP connection from now on. */
  #replaceByTls(socket: TLSSocket): void {
    const raw = rawSocketOf(socket);
    const connection = raw === null ? undefined : this.#bySocket.get(raw);
    if (connection === undefined) return void socket.destroy();
    connection.socket = socket;
    this.#bySocket.set(socket, connection);
    socket.once('close', () => this.#remove(connection));
  }

  /** Closes the oldest anonymous connection if there are too many. Returns whether one more may connect. */
  #makeRoom(client: string | null): boolean {
    const clientConnections = client === null ? undefined : this.#anonymousOf.get(client);
    const isClientAtLimit =
      clientConnections !== undefined && clientConnections.size >= this.#limits.connectionsOfClient;
    if (!isClientAtLimit && this.#open.size < this.#limits.connections) return true;
    const [oldest] = isClientAtLimit ? clientConnections : this.#anonymous;
    if (oldest === undefined) return false;
    this.#close(oldest);
    return true;
  }

  #remove(connection: Connection): void {
    if (!this.#open.delete(connection)) return;
    this.#removeAnonymous(connection);
    connection.pool.usedBytes -= connection.unreadBytes;
    connection.waiting = [];
    const { project } = connection;
    if (project === null) return;
    const knownCount = (this.#knownCountOf.get(project) ?? 0) - 1;
    if (knownCount === 0) this.#knownCountOf.delete(project);
    else this.#knownCountOf.set(project, knownCount);
  }

  #removeAnonymous(connection: Connection): void {
    this.#anonymous.delete(connection);
    const { client } = connection;
    const clientConnections = client === null ? undefined : this.#anonymousOf.get(client);
    if (clientConnections?.delete(connection) && clientConnections.size === 0)
      this.#anonymousOf.delete(client!);
  }

  #close(connection: Connection): void {
    this.#closed += 1;
    connection.socket.destroy();
    this.#remove(connection);
  }

  /** Begins a request in its turn. A request on a closed connection is dropped. */
  #take(
    { request, response }: { request: IncomingMessage; response: ServerResponse },
    serve: () => void,
  ): void {
    const connection = this.#bySocket.get(request.socket);
    if (connection === undefined) return serve();
    if (!this.#open.has(connection)) return;
    const { waiting, requestsInProgress } = connection;
    if (requestsInProgress + waiting.length >= this.#limits.pipelined) {
      return this.#close(connection);
    }
    waiting.push(() => {
      if (connection.requestsInProgress === 0) {
        connection.deadlineMs = this.#nowMs + this.#limits.responseMs;
      }
      connection.requestsInProgress += 1;
      response.on('close', () => this.#endRequest(connection, response));
      serve();
    });
    this.#beginWaiting(connection);
  }

  #beginWaiting(connection: Connection): void {
    while (this.#mayBegin(connection)) connection.waiting.shift()?.();
  }

  #mayBegin(connection: Connection): boolean {
    const { waiting, socket, project, requestsInProgress, unreadBytes } = connection;
    // A response with `Connection: close` has ended the socket.
    if (waiting.length === 0 || !socket.writable || !this.#open.has(connection)) return false;
    return requestsInProgress === 0 || (project !== null && unreadBytes < UNREAD_AT_BEGIN_BYTES);
  }

  #endRequest(connection: Connection, { unreadBytes = 0 }: CountedResponse): void {
    connection.requestsInProgress -= 1;
    // Bytes of a closed connection are no longer counted.
    if (!this.#open.has(connection)) return;
    connection.unreadBytes -= unreadBytes;
    connection.pool.usedBytes -= unreadBytes;
    if (connection.requestsInProgress === 0) connection.deadlineMs = Infinity;
    else if (connection.unreadBytes === 0) {
      connection.deadlineMs = this.#nowMs + this.#limits.responseMs;
    }
    this.#beginWaiting(connection);
  }

  /** Closes connections of a pool that read nothing since the last check, most unread bytes first. */
  #closeIdleReaders(pool: Pool, bytes: number): boolean {
    // A connection becomes idle only by a check, so a flood of responses does not search all of them each time.
    const idle = this.#idleReaders.get(pool) ?? this.#findIdleReaders(pool);
    this.#idleReaders.set(pool, idle);
    while (pool.usedBytes + bytes > pool.maxBytes) {
      const connection = idle.pop();
      if (connection === undefined) return false;
      if (isIdleReader(connection) && this.#open.has(connection)) this.#close(connection);
    }
    return true;
  }

  #findIdleReaders(pool: Pool): Connection[] {
    return [...this.#open]
      .filter((connection) => connection.pool === pool && isIdleReader(connection))
      .toSorted((a, b) => a.unreadBytes - b.unreadBytes);
  }

  #checkAll(): void {
    this.#nowMs = this.#options.world.monotonicMs();
    this.#idleReaders.clear();
    for (const connection of this.#open) this.#check(connection);
    if (this.#closed === 0 || this.#nowMs - this.#warnedAtMs < WARN_EVERY_MS) return;
    this.#options.log.warn(
      { closed: this.#closed, open: this.#open.size },
      'this worker closed HTTP connections: there were too many, or clients read too slowly',
    );
    this.#warnedAtMs = this.#nowMs;
    this.#closed = 0;
  }

  #check(connection: Connection): void {
    const { socket } = connection;
    const queuedBytes = queuedBytesOf(socket);
    if (queuedBytes !== connection.queuedBytes) {
      connection.queuedBytes = queuedBytes;
      connection.queuedSinceMs = this.#nowMs;
    } else if (queuedBytes > 0 && this.#nowMs - connection.queuedSinceMs > this.#limits.readMs) {
      return this.#close(connection);
    }
    if (this.#nowMs < connection.deadlineMs) return;
    const pending = pendingResponseOn(socket);
    if (pending === null || isUpload(pending.req)) return;
    if (pending.headersSent) return this.#close(connection);
    connection.deadlineMs = Infinity;
    this.#options.onTimeout(socket);
  }
}

/** Whether a client has read nothing of what waits for it since the last check. */
function isIdleReader({ socket, queuedBytes }: Connection): boolean {
  return queuedBytes > 0 && queuedBytesOf(socket) === queuedBytes;
}

/** Returns the bytes that wait to be sent. Node's own timeouts also use the second number. */
function queuedBytesOf(socket: Socket): number {
  const { _handle: handle } = socket as { _handle?: { writeQueueSize?: number } | null };
  return socket.writableLength + (handle?.writeQueueSize ?? 0);
}

/** Returns the response that is being sent on a connection; null between two requests. */
export function pendingResponseOn(socket: object): ServerResponse | null {
  return (socket as { _httpMessage?: ServerResponse | null })._httpMessage ?? null;
}

export function rawSocketOf(socket: TLSSocket): Socket | null {
  return (socket as { _parent?: Socket })._parent ?? null;
}
