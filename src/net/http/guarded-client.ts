/**
 * HTTP to hosts that customers and recipients choose: webhooks and MTA-STS policies. Protection against
 * SSRF, in the order of the steps below:
 *
 * - the URL: https, port 443, no credentials (`checkWebhookUrl` applies the same at registration);
 * - the addresses: all A and AAAA records, or the literal; one that is not public refuses the request;
 * - the connection: to the checked address only (`HttpAgents`); redirects are not followed;
 * - the response: no compression is requested, the body is read up to a limit, one timeout for all.
 *
 * A request ends within `timeoutMs`, never throws and holds at most `maxResponseBytes` in memory.
 * `/etc/hosts` is not read; `localhost` works where private networks are permitted.
 */
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import type * as Undici from 'undici';
import type { World } from '../../core/world.ts';
import type { Resolver } from '../dns/resolver.ts';
import { type AddressGuard, isPublicAddress } from '../addresses.ts';

export type GuardedRequest = {
  url: string;
  method: 'GET' | 'POST';
  /** Without Host and Content-Length, which come from the URL and the body. */
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer;
  guard: AddressGuard;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  world: Pick<World, 'monotonicMs'>;
  /** For DNS, connection, handshake, headers and body together. */
  timeoutMs: number;
  /** At most 64 KiB. */
  maxResponseBytes: number;
  /** Permits `http://`; otherwise it fails as `refused`. */
  allowHttp: boolean;
  /** Connections to reuse; without them each request opens its own. */
  agents?: HttpAgents;
};

type FailureReason =
  /** Not sent: the URL or one of its addresses is not permitted. */
  | 'refused'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  /** The connection was closed before the response's headers were complete. */
  | 'reset'
  /** The response is not valid HTTP. */
  | 'protocol';

export type GuardedAnswer =
  | {
      kind: 'answered';
      status: number;
      headers: { retryAfter: string | null; contentType: string | null };
      /** UTF-8 without NUL, which PostgreSQL cannot store. */
      bodyStart: string;
      /** False when the limit, the timeout or the peer ended the body. */
      bodyComplete: boolean;
      latencyMs: number;
    }
  /** `message`: one sentence for the owner of the URL. */
  | { kind: 'failed'; reason: FailureReason; message: string; latencyMs: number };

type Failed = { kind: 'failed'; reason: FailureReason; message: string };
type Answered = Omit<Extract<GuardedAnswer, { kind: 'answered' }>, 'latencyMs'>;

/** Loaded by the first request: a process that makes none, as most supervisors, saves 40 ms of CPU time. */
let undici: typeof Undici | null = null;

/** Before privileges are dropped, when the user that the process becomes cannot read the code. */
export async function loadUndici(): Promise<typeof Undici> {
  return (undici ??= await import('undici'));
}

const MAX_URL_CHARACTERS = 2_048;
const MAX_RESPONSE_BYTES = 65_536;
/** Addresses that are tried in turn until one connects. */
const MAX_ADDRESSES = 3;

/** Why a webhook URL cannot be registered, as a sentence; null when it can. */
export function checkWebhookUrl(text: string, options: { allowPrivate: boolean }): string | null {
  if (text.length > MAX_URL_CHARACTERS) {
    return `the URL is longer than ${MAX_URL_CHARACTERS} characters`;
  }
  const url = URL.parse(text);
  if (url === null) return 'not a URL: it must look like https://example.com/path';
  const problem = urlProblem(url, { ...options, allowHttp: options.allowPrivate });
  if (problem !== null) return problem;
  if (options.allowPrivate) return null;
  const host = hostOf(url);
  const reachable = isIP(host) === 0 ? host.includes('.') : isPublicAddress(host);
  return reachable ? null : `"${host}" cannot be reached from the internet: use a public host name`;
}

/** Sends one request and reads the start of the response. */
export async function guardedRequest(request: GuardedRequest): Promise<GuardedAnswer> {
  const { world, timeoutMs } = request;
  const startedMs = world.monotonicMs();
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), timeoutMs);
  const agents = request.agents ?? createHttpAgents();
  try {
    const answer = await checkedRequest(request, agents, timeout.signal);
    return { ...answer, latencyMs: Math.round(world.monotonicMs() - startedMs) };
  } finally {
    clearTimeout(timer);
    if (request.agents === undefined) await agents.close();
  }
}

async function checkedRequest(
  request: GuardedRequest,
  agents: HttpAgents,
  signal: AbortSignal,
): Promise<Answered | Failed> {
  const url = URL.parse(request.url);
  if (url === null) return failed('refused', 'the address is not a URL');
  const { allowPrivate } = request.guard;
  const problem = urlProblem(url, { allowPrivate, allowHttp: request.allowHttp });
  if (problem !== null) return failed('refused', problem);
  const addresses = await orTimeout(checkedAddresses(hostOf(url), request), signal);
  if ('kind' in addresses) return addresses;
  let outcome: Answered | Failed = failed('dns', `${hostOf(url)} has no address`);
  for (const address of addresses.slice(0, MAX_ADDRESSES)) {
    outcome = await requestAt({ url, address, request, agents, signal });
    if (outcome.kind === 'answered' || outcome.reason !== 'connect') break;
  }
  return outcome;
}

function urlProblem(
  url: URL,
  { allowPrivate, allowHttp }: { allowPrivate: boolean; allowHttp: boolean },
): string | null {
  if (url.protocol !== 'https:' && !(allowHttp && url.protocol === 'http:')) {
    return 'the URL must start with https://';
  }
  if (url.username !== '' || url.password !== '') {
    return 'the URL must not contain a user name or password';
  }
  if (allowPrivate) return null;
  if (url.port !== '') return `port ${url.port} is not allowed: use 443, the port of https`;
  const host = hostOf(url);
  if (isIP(host) === 0 && /(^|\.)(localhost|local|internal)$/.test(host)) {
    return `"${host}" is a name of a private network: use a public host name`;
  }
  return null;
}

/** All addresses of the host; refused if one of them is not permitted. */
async function checkedAddresses(
  host: string,
  { guard, resolver }: GuardedRequest,
): Promise<readonly string[] | Failed> {
  const addresses = await addressesOf(host, resolver);
  if ('kind' in addresses) return addresses;
  for (const address of addresses) {
    const reason = guard.refuses(address);
    if (reason !== null) {
      return failed('refused', `${host} resolves to an address that is not public: ${reason}`);
    }
  }
  return addresses;
}

async function addressesOf(
  host: string,
  resolver: GuardedRequest['resolver'],
): Promise<readonly string[] | Failed> {
  if (isIP(host) !== 0) return [host];
  // RFC 6761 §6.3: `localhost` must not be looked up in DNS.
  if (/(^|\.)localhost$/.test(host)) return ['127.0.0.1', '::1'];
  const answers = await Promise.all([resolver.a(host), resolver.aaaa(host)]);
  const found = answers.flatMap((answer) => (answer.kind === 'records' ? answer.records : []));
  if (found.length > 0) return found;
  const error = answers.find((answer) => answer.kind === 'error');
  if (error !== undefined) return failed('dns', error.message);
  const missing = answers.every((answer) => answer.kind === 'nxdomain');
  return failed('dns', missing ? `${host} does not exist in DNS` : `${host} has no address in DNS`);
}

async function requestAt(at: {
  url: URL;
  address: string;
  request: GuardedRequest;
  agents: HttpAgents;
  signal: AbortSignal;
}): Promise<Answered | Failed> {
  const { url, address, request, agents, signal } = at;
  const library = undici ?? (await loadUndici());
  try {
    const response = await agents.pool(library, url.origin, address).request({
      path: `${url.pathname}${url.search}`,
      method: request.method,
      headers: { ...request.headers, 'accept-encoding': 'identity' },
      body: request.body ?? null,
      signal,
    });
    const limit = Math.min(request.maxResponseBytes, MAX_RESPONSE_BYTES);
    const header = (name: string) => [response.headers[name] ?? []].flat()[0] ?? null;
    const headers = { retryAfter: header('retry-after'), contentType: header('content-type') };
    const body = await startOf(response.body, limit);
    return { kind: 'answered', status: response.statusCode, headers, ...body };
  } catch (error) {
    return failureOf(error as Error, library.errors, { signal, request, address });
  }
}

/**
 * Reads up to the limit and closes the connection if there is more. A body that ends early or exceeds
 * the timeout does not change the outcome, because the status is already known.
 */
async function startOf(
  body: Undici.Dispatcher.ResponseData['body'],
  limitBytes: number,
): Promise<{ bodyStart: string; bodyComplete: boolean }> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  let bodyComplete = false;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      sizeBytes += chunk.length;
      if (sizeBytes > limitBytes) break;
    }
    bodyComplete = sizeBytes <= limitBytes;
  } catch {
    bodyComplete = false;
  }
  const text = Buffer.concat(chunks).subarray(0, limitBytes).toString('utf8');
  return { bodyStart: text.replaceAll('\0', '\uFFFD'), bodyComplete };
}

function failureOf(
  error: Error,
  errors: (typeof Undici)['errors'],
  { signal, request, address }: { signal: AbortSignal; request: GuardedRequest; address: string },
): Failed {
  if (signal.aborted) return timedOut(request.timeoutMs);
  if (error instanceof ConnectError) {
    return failed(error.reason, `no connection to ${address}: ${error.message}`);
  }
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) {
    return failed('protocol', `the response of ${address} is not valid HTTP: ${error.message}`);
  }
  return failed('reset', `${address} closed the connection before it answered: ${error.message}`);
}

/** A look-up cannot be canceled; a late answer is dropped. */
async function orTimeout<T>(looking: Promise<T>, signal: AbortSignal): Promise<T | Failed> {
  const { promise, resolve } = Promise.withResolvers<Failed>();
  const onAbort = () => resolve(failed('timeout', 'DNS did not answer in time'));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([looking, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function timedOut(timeoutMs: number): Failed {
  return failed('timeout', `no complete answer within ${timeoutMs / 1000} s`);
}

function failed(reason: FailureReason, message: string): Failed {
  return { kind: 'failed', reason, message };
}

/** In lower case; an IPv6 address without brackets, a name without a trailing dot. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

type ConnectReason = 'connect' | 'tls' | 'timeout';

/** No byte of the request was sent, so another address may be tried. */
class ConnectError extends Error {
  readonly reason: ConnectReason;

  constructor(reason: ConnectReason, cause: Error) {
    super(cause.message, { cause });
    this.reason = reason;
  }
}

/**
 * HTTP connections that are pinned to a checked address. A pool belongs to one origin and one address
 * and resolves no names, so a DNS answer that changes between check and connection (rebinding) has no
 * effect. Host header, SNI and certificate check use the name in the URL.
 */
export type HttpAgents = {
  /** The pool for `https://host:port` at this address; created if missing. */
  pool(library: typeof Undici, origin: string, address: string): Undici.Pool;
  /** Closes every connection; requests in progress fail. */
  close(): Promise<void>;
};

/** Recently used pools; eviction only closes the pool's idle connections. */
const MAX_POOLS = 256;
const POOL_OPTIONS = {
  // Callers limit their concurrency (webhooks/fair-queue.ts); waiting here would use up the timeout.
  connections: 64,
  pipelining: 1,
  allowH2: false,
  maxHeaderSize: 16_384,
  // Below the 5 s after which common servers close an idle connection.
  keepAliveTimeout: 4_000,
  keepAliveMaxTimeout: 4_000,
  // The caller's timeout covers the whole request, including a slow body.
  headersTimeout: 0,
  bodyTimeout: 0,
};
const CONNECT_TIMEOUT_MS = 15_000;

export function createHttpAgents(): HttpAgents {
  const pools = new LRUCache<string, Undici.Pool>({
    max: MAX_POOLS,
    dispose: (pool, _key, reason) => {
      if (reason === 'evict') void pool.close();
    },
  });
  return {
    pool(library, origin, address) {
      const key = `${origin} ${address}`;
      const known = pools.get(key);
      if (known !== undefined) return known;
      const connect = pinnedTo(address, library);
      const pool = new library.Pool(origin, { ...POOL_OPTIONS, connect });
      pools.set(key, pool);
      return pool;
    },
    async close() {
      const closing = [...pools.values()].map((pool) => pool.destroy());
      pools.clear();
      await Promise.all(closing);
    },
  };
}

function pinnedTo(address: string, library: typeof Undici): Undici.buildConnector.connector {
  const connect = library.buildConnector({ allowH2: false, timeout: CONNECT_TIMEOUT_MS });
  return (options, done) =>
    connect({ ...options, hostname: address }, (...[error, socket]) => {
      if (error === null) done(null, socket);
      else done(new ConnectError(connectReason(error), error), null);
    });
}

/** System error codes concern the connection; codes of the handshake have names of OpenSSL and X.509. */
function connectReason(error: Error & { code?: string }): ConnectReason {
  const code = error.code ?? '';
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') return 'timeout';
  // A server without TLS on this port resets the connection or answers in plain text.
  if (code === 'ECONNRESET' || code === 'EPROTO') return 'tls';
  return /^E[A-Z]+$/.test(code) ? 'connect' : 'tls';
}
