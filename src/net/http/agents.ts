/**
 * HTTP connections that are pinned to one checked address. A pool belongs to an origin *and* an
 * address, its sockets connect to that address and nowhere else: nothing below guarded-http.ts ever
 * resolves a name, so a DNS answer that changes between check and connect (rebinding) changes
 * nothing. Host header, SNI and certificate check keep the name of the URL.
 */
import { Pool, buildConnector } from 'undici';

export type ConnectReason = 'connect' | 'tls' | 'timeout';

/** No byte of the request was sent: another address may be tried. */
export class ConnectError extends Error {
  readonly reason: ConnectReason;

  constructor(reason: ConnectReason, cause: Error) {
    super(cause.message, { cause });
    this.reason = reason;
  }
}

export type HttpAgents = {
  /** The pool for `https://host:port` at this address; made when there is none. */
  pool(origin: string, address: string): Pool;
  /** Cuts every connection; requests under way fail. */
  close(): Promise<void>;
};

/** Endpoints that were used lately; one that is evicted only loses its open connections. */
const MAX_POOLS = 256;
const POOL_OPTIONS = {
  // Callers bound what they send at once (webhooks/endpoint-turns.ts): waiting here would use up the timeout.
  connections: 64,
  pipelining: 1,
  allowH2: false,
  maxHeaderSize: 16_384,
  // Shorter than the 5 s after which common servers close an idle connection under our feet.
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 4_000,
  // The caller's one timeout covers the whole request, also a body that trickles.
  headersTimeout: 0,
  bodyTimeout: 0,
};
const CONNECT_TIMEOUT_MS = 15_000;

export function createHttpAgents(): HttpAgents {
  const pools = new Map<string, Pool>();
  return {
    pool(origin, address) {
      const key = `${origin} ${address}`;
      const known = pools.get(key);
      const pool = known ?? new Pool(origin, { ...POOL_OPTIONS, connect: pinnedTo(address) });
      pools.delete(key);
      pools.set(key, pool);
      const [oldest] = pools.keys();
      if (pools.size > MAX_POOLS && oldest !== undefined) {
        void pools.get(oldest)?.close();
        pools.delete(oldest);
      }
      return pool;
    },
    async close() {
      const closing = [...pools.values()].map((pool) => pool.destroy());
      pools.clear();
      await Promise.all(closing);
    },
  };
}

function pinnedTo(address: string): buildConnector.connector {
  const connect = buildConnector({ allowH2: false, timeout: CONNECT_TIMEOUT_MS });
  return (options, done) =>
    connect({ ...options, hostname: address }, (...[error, socket]) => {
      if (error === null) done(null, socket);
      else done(new ConnectError(connectReason(error), error), null);
    });
}

/** System errors are about the connection; the handshake's have names of OpenSSL and of X.509. */
function connectReason(error: Error & { code?: string }): ConnectReason {
  const code = error.code ?? '';
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') return 'timeout';
  // A server without TLS on this port resets or answers in clear.
  if (code === 'ECONNRESET' || code === 'EPROTO') return 'tls';
  return /^E[A-Z]+$/.test(code) ? 'connect' : 'tls';
}
