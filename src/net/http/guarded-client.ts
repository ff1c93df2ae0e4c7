/**
 * HTTP to hosts that customers and recipients choose: webhooks, MTA-STS policies, and attachments by URL. It
 * protects against SSRF in these steps:
 *
 * - the URL: https, port 443, no credentials (`checkOutboundUrl` checks the same at registration);
 * - the addresses: all A and AAAA records, or the literal; one that is not public refuses the request;
 * - the connection: to the checked address only (`HttpAgents`); redirects are not followed;
 * - the response: no compression is requested, the body is read up to a limit, one timeout for all.
 *
 * A request ends within `timeoutMs` and never throws. It keeps at most `maxResponseBytes` in memory; a download
 * keeps what `take` accepts. `/etc/hosts` is not read; `localhost` works where private networks are permitted.
 */
import { isIP } from 'node:net';
import { LRUCache } from 'lru-cache';
import type * as Undici from 'undici';
import { Pieces } from '../../lib/pieces.ts';
import type { World } from '../../lib/world.ts';
import type { Resolver } from '../dns/resolver.ts';
import { type AddressGuard, isPublicAddress } from '../ip-addresses.ts';

export type GuardedRequest = RequestOptions & {
  method: 'GET' | 'POST';
  /** Headers except Host and Content-Length, which come from the URL and the body. */
  headers: Readonly<Record<string, string>>;
  body?: string | Buffer;
  /** At most 64 KiB. */
  maxResponseBytes: number;
};

export type GuardedDownload = RequestOptions & {
  /** Called for all bytes before they are kept; false: they are too many. */
  take: (bytes: number) => boolean;
  signal: AbortSignal;
};

type RequestOptions = {
  url: string;
  guard: AddressGuard;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  world: Pick<World, 'monotonicMs'>;
  /** Milliseconds for DNS, connection, handshake, headers and body together. */
  timeoutMs: number;
  /** Permits `http://`; without it, such a URL fails as `refused`. */
  allowHttp: boolean;
  /** Connections to reuse; without them each request opens its own. */
  agents?: HttpAgents;
  signal?: AbortSignal;
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
  | 'protocol'
  /** For a download: the response is not a file, is larger than accepted, or ended early. */
  | 'content';

export type GuardedResponse =
  | {
      kind: 'response';
      status: number;
      headers: { retryAfter: string | null; contentType: string | null };
      /** UTF-8 without NUL, which PostgreSQL cannot store. */
      bodyStart: string;
      /** False when the limit, the timeout or the peer ended the body. */
      bodyComplete: boolean;
      latencyMs: number;
    }
  | (Failed & { latencyMs: number });

export type Downloaded = { kind: 'downloaded'; bytes: Buffer };

type Failed = {
  kind: 'failed';
  reason: FailureReason;
  /** One sentence for operators. */
  message: string;
  /** The same for the owner of the URL, without addresses: they may belong to the operator's network. */
  publicMessage: string;
};
type ReceivedResponse = Omit<Extract<GuardedResponse, { kind: 'response' }>, 'latencyMs'>;

/** Loaded by the first request, which saves 40 ms of CPU time in processes without one, such as most supervisors. */
let undici: typeof Undici | null = null;

const URL_CHARACTERS_MAX = 2_048;
const RESPONSE_BYTES_MAX = 65_536;
/** Number of addresses that are tried until one connects. */
const ADDRESSES_MAX = 3;
/** Limit on responses with a status of 1xx before the final one. */
const INFORMATIONAL_MAX = 20;
const NO_FINAL_RESPONSE = `the server sent more than ${INFORMATIONAL_MAX} informational responses (1xx)`;
/** Limit on recently used pools. Eviction only closes the pool's idle connections. */
const POOLS_MAX = 256;
const POOL_OPTIONS = {
  // Callers limit their concurrency (webhooks/sending/endpoint-queue.ts); waiting here would use up the timeout.
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

/** Loads undici early, for a process that will drop privileges and then cannot read the code. */
export async function loadUndici(): Promise<typeof Undici> {
  return (undici ??= await import('undici'));
}

/** Returns why a customer's URL is refused before any look-up, as a sentence; null when it is not. */
export function checkOutboundUrl(text: string, options: { allowPrivate: boolean }): string | null {
  if (text.length > URL_CHARACTERS_MAX) {
    return `the URL is longer than ${URL_CHARACTERS_MAX} characters`;
  }
  const url = URL.parse(text);
  if (url === null) return 'not a URL: it must look like https://example.com/path';
  const problem = urlProblem(url, { ...options, allowHttp: options.allowPrivate });
  if (problem !== null) return problem;
  if (options.allowPrivate) return null;
  const host = hostOf(url);
  const isReachable = isIP(host) === 0 ? host.includes('.') : isPublicAddress(host);
  return isReachable
    ? null
    : `"${host}" cannot be reached from the internet: use a public host name`;
}

export async function guardedRequest(request: GuardedRequest): Promise<GuardedResponse> {
  const { world, maxResponseBytes } = request;
  const startedMs = world.monotonicMs();
  const result = await requestWithTimeout(request, request, (response) =>
    readResponse(response, Math.min(maxResponseBytes, RESPONSE_BYTES_MAX)),
  );
  return { ...result, latencyMs: Math.round(world.monotonicMs() - startedMs) };
}

/** Downloads a whole file: status 200, and a complete body without content coding. */
export async function guardedDownload(download: GuardedDownload): Promise<Downloaded | Failed> {
  const message = { method: 'GET', headers: { 'user-agent': 'Letterhaus' } } as const;
  return requestWithTimeout(download, message, (response) => readFile(response, download.take));
}

type RequestMessage = Pick<GuardedRequest, 'method' | 'headers' | 'body'>;
type ReadResponse<Result> = (response: Undici.Dispatcher.ResponseData) => Promise<Result | Failed>;

async function requestWithTimeout<Result>(
  request: RequestOptions,
  message: RequestMessage,
  read: ReadResponse<Result>,
): Promise<Result | Failed> {
  const timeout = new AbortController();
  const timer = setTimeout(() => timeout.abort(), request.timeoutMs);
  const agents = request.agents ?? createHttpAgents();
  const signal = AbortSignal.any([timeout.signal, ...(request.signal ? [request.signal] : [])]);
  try {
    return await requestAllowedHost(
      request,
      (target) => requestAt(target, { request, message, agents, signal, read }),
      signal,
    );
  } finally {
    clearTimeout(timer);
    if (request.agents === undefined) await agents.close();
  }
}

type Target = { url: URL; address: string };

async function requestAllowedHost<Result>(
  request: RequestOptions,
  send: (target: Target) => Promise<Result | Failed>,
  signal: AbortSignal,
): Promise<Result | Failed> {
  const url = URL.parse(request.url);
  if (url === null) return failed('refused', 'the address is not a URL');
  const { allowPrivate } = request.guard;
  const problem = urlProblem(url, { allowPrivate, allowHttp: request.allowHttp });
  if (problem !== null) return failed('refused', problem);
  const addresses = await waitForLookup(permittedAddresses(hostOf(url), request), signal);
  if ('kind' in addresses) return addresses;
  let outcome: Result | Failed = failed('dns', `${hostOf(url)} has no address`);
  for (const address of addresses.slice(0, ADDRESSES_MAX)) {
    outcome = await send({ url, address });
    if (!couldNotConnect(outcome)) break;
  }
  return outcome;
}

function couldNotConnect(outcome: unknown): boolean {
  return (outcome as Partial<Failed>).reason === 'connect';
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

async function permittedAddresses(
  host: string,
  { guard, resolver }: RequestOptions,
): Promise<readonly string[] | Failed> {
  const addresses = await lookUpAddresses(host, resolver);
  if ('kind' in addresses) return addresses;
  for (const address of addresses) {
    const reason = guard.refusalReason(address);
    if (reason !== null) {
      return failed('refused', {
        message: `${host} resolves to an address that is not public: ${reason}`,
        publicMessage: notPublic(host),
      });
    }
  }
  return addresses;
}

async function lookUpAddresses(
  host: string,
  resolver: RequestOptions['resolver'],
): Promise<readonly string[] | Failed> {
  if (isIP(host) !== 0) return [host];
  // RFC 6761 §6.3: `localhost` must not be looked up in DNS.
  if (/(^|\.)localhost$/.test(host)) return ['127.0.0.1', '::1'];
  const lookups = await Promise.all([resolver.a(host), resolver.aaaa(host)]);
  const addresses = lookups.flatMap((lookup) => (lookup.kind === 'records' ? lookup.records : []));
  if (addresses.length > 0) return addresses;
  const error = lookups.find((lookup) => lookup.kind === 'error');
  if (error !== undefined) {
    return failed('dns', {
      message: error.message,
      publicMessage: `the DNS look-up of ${host} failed`,
    });
  }
  const isMissing = lookups.every((lookup) => lookup.kind === 'nxdomain');
  return failed('dns', {
    message: isMissing ? `${host} does not exist in DNS` : `${host} has no address in DNS`,
    publicMessage: notPublic(host),
  });
}

/** Returns the same sentence for a missing and a private address, so that the sentence names no internal host. */
function notPublic(host: string): string {
  return isIP(host) === 0
    ? `${host} has no public address in DNS`
    : `${host} is not a public address`;
}

async function requestAt<Result>(
  { url, address }: Target,
  context: {
    request: RequestOptions;
    message: RequestMessage;
    agents: HttpAgents;
    signal: AbortSignal;
    read: ReadResponse<Result>;
  },
): Promise<Result | Failed> {
  const { request, message, agents, signal, read } = context;
  const library = undici ?? (await loadUndici());
  const tooManyInformational = new AbortController();
  let informational = 0;
  try {
    const response = await agents.pool(library, url.origin, address).request({
      path: `${url.pathname}${url.search}`,
      method: message.method,
      headers: { ...message.headers, 'accept-encoding': 'identity' },
      body: message.body ?? null,
      signal: AbortSignal.any([signal, tooManyInformational.signal]),
      onInfo: () => {
        informational += 1;
        if (informational > INFORMATIONAL_MAX) tooManyInformational.abort();
      },
    });
    return await read(response);
  } catch (error) {
    if (tooManyInformational.signal.aborted && !signal.aborted)
      return failed('protocol', NO_FINAL_RESPONSE);
    return failureOf(error as Error, library.errors, { signal, request, url, address });
  }
}

async function readResponse(
  response: Undici.Dispatcher.ResponseData,
  bytesMax: number,
): Promise<ReceivedResponse> {
  const headers = {
    retryAfter: headerOf(response, 'retry-after'),
    contentType: headerOf(response, 'content-type'),
  };
  const body = await readBodyStart(response.body, bytesMax);
  return { kind: 'response', status: response.statusCode, headers, ...body };
}

function headerOf({ headers }: Undici.Dispatcher.ResponseData, name: string): string | null {
  return [headers[name] ?? []].flat()[0] ?? null;
}

/** @throws when the body ends early or exceeds the timeout */
async function readFile(
  response: Undici.Dispatcher.ResponseData,
  take: GuardedDownload['take'],
): Promise<Downloaded | Failed> {
  const { statusCode, body } = response;
  const problem = fileProblem(statusCode, headerOf(response, 'content-encoding'));
  if (problem !== null) {
    body.on('error', () => {}).destroy();
    return failed('content', problem);
  }
  const pieces = new Pieces();
  // Leaving the loop closes the connection, so an endless body is not read.
  for await (const piece of body as AsyncIterable<Buffer>) {
    if (!take(piece.length)) return failed('content', 'the file is too large');
    pieces.add(piece);
    if (pieces.areTooTiny) {
      return failed('content', 'the server sends the file in pieces of a few bytes');
    }
  }
  return { kind: 'downloaded', bytes: pieces.take() };
}

function fileProblem(status: number, coding: string | null): string | null {
  if (status >= 300 && status < 400) {
    return `the server responded with ${status}, a redirection, which is not followed: use the URL of the file itself`;
  }
  if (status !== 200) return `the server responded with ${status} instead of 200`;
  if (coding === null || coding.toLowerCase() === 'identity') return null;
  return 'the server compressed the file (Content-Encoding), although none was accepted';
}

/** Reads up to the limit. The status is known, so it does not matter how the body ends. */
async function readBodyStart(
  body: Undici.Dispatcher.ResponseData['body'],
  bytesMax: number,
): Promise<{ bodyStart: string; bodyComplete: boolean }> {
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  let bodyComplete = false;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      sizeBytes += chunk.length;
      if (sizeBytes > bytesMax) break;
    }
    bodyComplete = sizeBytes <= bytesMax;
  } catch {
    bodyComplete = false;
  }
  const text = Buffer.concat(chunks).subarray(0, bytesMax).toString('utf8');
  return { bodyStart: text.replaceAll('\0', '\uFFFD'), bodyComplete };
}

type RequestContext = { signal: AbortSignal; request: RequestOptions; url: URL; address: string };

function failureOf(
  error: Error,
  errors: (typeof Undici)['errors'],
  { signal, request, url, address }: RequestContext,
): Failed {
  if (signal.aborted) return timeoutFailure(request.timeoutMs);
  const sentences = (sentence: string, suffix = '') => ({
    message: `${sentence.replace('HOST', address)}: ${error.message}`,
    publicMessage: `${sentence.replace('HOST', hostOf(url))}${suffix}`,
  });
  if (error instanceof ConnectError) {
    return failed(
      error.reason,
      sentences('no connection to HOST', error.code && ` (${error.code})`),
    );
  }
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError) {
    return failed('protocol', sentences('the response of HOST is not valid HTTP'));
  }
  return failed('reset', sentences('HOST closed the connection before its response was complete'));
}

/** Waits for a look-up, which cannot be canceled, or for the timeout. A late result is dropped. */
async function waitForLookup<T>(lookup: Promise<T>, signal: AbortSignal): Promise<T | Failed> {
  const { promise, resolve } = Promise.withResolvers<Failed>();
  const onAbort = () => resolve(failed('timeout', 'DNS did not respond in time'));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    return await Promise.race([lookup, promise]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

function timeoutFailure(timeoutMs: number): Failed {
  return failed(
    'timeout',
    `no complete response within ${Number((timeoutMs / 1000).toFixed(1))} s`,
  );
}

/** @param text one sentence for both readers, or one for each */
function failed(
  reason: FailureReason,
  text: string | Pick<Failed, 'message' | 'publicMessage'>,
): Failed {
  const sentences = typeof text === 'string' ? { message: text, publicMessage: text } : text;
  return { kind: 'failed', reason, ...sentences };
}

/** Returns the host in lower case, an IPv6 address without brackets and a name without a trailing dot. */
function hostOf(url: URL): string {
  return url.hostname.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');
}

type ConnectReason = 'connect' | 'tls' | 'timeout';

/** Thrown when no byte of the request was sent, so another address may be tried. */
class ConnectError extends Error {
  readonly reason: ConnectReason;
  readonly code: string | undefined;

  constructor(reason: ConnectReason, cause: Error & { code?: string }) {
    super(cause.message, { cause });
    this.reason = reason;
    this.code = cause.code;
  }
}

/**
 * HTTP connections that are pinned to a checked address. A pool belongs to one origin and one address and resolves
 * no names, so a DNS response that changes after the check (rebinding) has no effect. Host header, SNI and certificate
 * check use the name in the URL.
 */
export type HttpAgents = {
  /** Returns the pool for `https://host:port` at this address; creates it if missing. */
  pool(library: typeof Undici, origin: string, address: string): Undici.Pool;
  /** Closes every connection. Requests in progress fail. */
  close(): Promise<void>;
};

export function createHttpAgents(): HttpAgents {
  const pools = new LRUCache<string, Undici.Pool>({
    max: POOLS_MAX,
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

/** Maps error codes: system codes concern the connection, codes of OpenSSL and X.509 the handshake. */
function connectReason(error: Error & { code?: string }): ConnectReason {
  const code = error.code ?? '';
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT') return 'timeout';
  // A server without TLS on this port resets the connection or responds in plain text.
  if (code === 'ECONNRESET' || code === 'EPROTO') return 'tls';
  return /^E[A-Z]+$/.test(code) ? 'connect' : 'tls';
}
