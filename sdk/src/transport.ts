/**
 * Sends requests to the service, and repeats them where that is safe.
 *
 * A 429 is always repeated, because nothing happened. A missing response, a 408 or a 5xx is repeated only if a second
 * request changes nothing more: reading, replacing, deleting, and sending, which always has an idempotency key. The
 * wait is the Retry-After of the response, or doubles from half a second.
 */
import { OPERATIONS, type Operations } from './api.ts';
import { ConnectionError, failureOf, LetterhausError, RedirectError } from './errors.ts';

export type OperationId = keyof Operations;
export type Result<Id extends OperationId> = Operations[Id]['result'];
export type Body<Id extends OperationId> = Operations[Id]['body'];
export type Query<Id extends OperationId> = Operations[Id]['query'];

export type LetterhausOptions = {
  /** Default: the variable LETTERHAUS_API_KEY. */
  apiKey?: string | undefined;
  /** Address of the service, such as `https://mail.acme.com`. Default: the variable LETTERHAUS_URL. */
  baseUrl?: string | undefined;
  /** How often a failed request is repeated. Default: 3. */
  maxRetries?: number | undefined;
  /** Milliseconds for each attempt, until its complete response. Default: 30,000. */
  timeoutMs?: number | undefined;
  /** Renders an email's `react` element to html, for example `render` of `@react-email/render`. */
  renderReact?(element: unknown): string | Promise<string>;
  /** Default: the global `fetch`. */
  fetch?: typeof fetch | undefined;
};

/** Options of a single call. */
export type CallOptions = { signal?: AbortSignal | undefined };

export type Call = CallOptions & {
  path?: Record<string, string | number> | undefined;
  query?: object | undefined;
  /** Sent as JSON; a string or a stream is sent as CSV. */
  body?: unknown;
  headers?: Record<string, string> | undefined;
};

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8_000;
/** The caller must handle a longer Retry-After. */
const LONGEST_RETRY_AFTER_S = 60;

export class Transport {
  /** Without the key, because printing or serialising the client would show it. */
  readonly options: Omit<LetterhausOptions, 'apiKey'>;
  readonly #apiKey: string;
  readonly #baseUrl: string;
  readonly #fetch: typeof fetch;

  constructor(options: LetterhausOptions) {
    const env = environment();
    const { apiKey: given, ...others } = options;
    const apiKey = (given ?? env['LETTERHAUS_API_KEY'])?.trim();
    const baseUrl = options.baseUrl ?? env['LETTERHAUS_URL'];
    if (!apiKey)
      throw new TypeError('An API key is needed: give apiKey or set LETTERHAUS_API_KEY.');
    if (!baseUrl)
      throw new TypeError(
        'The address of the service is needed: give baseUrl or set LETTERHAUS_URL.',
      );
    // Checked here, because errors of fetch quote what they refuse.
    if (!/^[!-~]+$/.test(apiKey))
      throw new TypeError('The API key has characters that are not allowed in a key.');
    const url = new URL(baseUrl);
    if (url.username || url.password)
      throw new TypeError('baseUrl must have no user and password.');
    this.options = others;
    this.#apiKey = apiKey;
    this.#baseUrl = url.href.replace(/\/+$/, '');
    this.#fetch = options.fetch ?? globalThis.fetch.bind(globalThis);
  }

  /** @throws LetterhausError, ConnectionError */
  async json<Id extends OperationId>(id: Id, call: Call = {}): Promise<Result<Id>> {
    return this.#complete(id, call, async (response) => (await response.json()) as Result<Id>);
  }

  /** @throws LetterhausError, ConnectionError */
  async bytes(id: OperationId, call: Call = {}): Promise<Uint8Array> {
    return this.#complete(
      id,
      call,
      async (response) => new Uint8Array(await response.arrayBuffer()),
    );
  }

  /**
   * A request or a response whose body is a stream; it has no time limit and is not repeated.
   * @throws LetterhausError, ConnectionError
   */
  async stream(id: OperationId, call: Call): Promise<Response> {
    const response = await this.#fetchOnce(id, { ...call, ...sentOf(call.body) }, call.signal);
    if (!response.ok) throw await failureOf(response);
    return response;
  }

  async #complete<T>(id: OperationId, call: Call, read: (response: Response) => Promise<T>) {
    const { maxRetries = 3 } = this.options;
    // Serialised once: if the caller changes the object, a repeat must not send another body with the same
    // idempotency key.
    const sent = sentOf(call.body);
    for (let attempt = 0; ; attempt += 1) {
      try {
        return await this.#attempt(id, { ...call, ...sent }, read);
      } catch (error) {
        const waitMs =
          attempt < maxRetries ? waitBeforeRetry(error, attempt, isSafe(id, call)) : null;
        if (waitMs === null) throw error;
        await pause(waitMs, call.signal);
      }
    }
  }

  async #attempt<T>(id: OperationId, call: SentCall, read: (response: Response) => Promise<T>) {
    const { timeoutMs = 30_000 } = this.options;
    const limit = AbortSignal.timeout(timeoutMs);
    const signal = call.signal ? AbortSignal.any([call.signal, limit]) : limit;
    const response = await this.#fetchOnce(id, call, signal);
    try {
      if (response.ok) return await read(response);
      throw await failureOf(response);
    } catch (error) {
      throw error instanceof LetterhausError ? error : noResponse(error, call.signal);
    }
  }

  async #fetchOnce(id: OperationId, call: SentCall, signal: AbortSignal | undefined) {
    const [method, path] = OPERATIONS[id];
    const init: RequestInit = {
      method,
      headers: {
        authorization: `Bearer ${this.#apiKey}`,
        'user-agent': 'letterhaus-sdk/0.2.1',
        ...(call.contentType !== null && { 'content-type': call.contentType }),
        ...call.headers,
      },
      // A redirect would send the key to another server. Cloudflare Workers do not support 'error'.
      redirect: 'manual',
      ...(call.body !== undefined && { body: call.body }),
      // What a stream as a body needs (Fetch standard), and types do not know yet.
      ...(call.body instanceof ReadableStream && { duplex: 'half' }),
      ...(signal && { signal }),
    };
    const url = `${this.#baseUrl}${filled(path, call.path ?? {})}${queryOf(call.query ?? {})}`;
    // Not called as a method: browsers and Workers refuse a fetch whose `this` is another object.
    const send = this.#fetch;
    try {
      return await refusingRedirects(await send(url, init));
    } catch (error) {
      throw error instanceof RedirectError ? error : noResponse(error, call.signal);
    }
  }
}

const REDIRECTS = new Set([301, 302, 303, 307, 308]);

/** Browsers show a redirect as an opaque response. Other runtimes show its status and target. */
async function refusingRedirects(response: Response): Promise<Response> {
  const isRedirect = response.type === 'opaqueredirect' || REDIRECTS.has(response.status);
  if (!isRedirect) return response;
  await response.body?.cancel();
  throw new RedirectError(response.headers.get('location'));
}

/** A call with its serialised body. */
type SentCall = Omit<Call, 'body'> & {
  body: string | ReadableStream<Uint8Array> | undefined;
  contentType: string | null;
};

function sentOf(body: unknown): Pick<SentCall, 'body' | 'contentType'> {
  if (body === undefined) return { body, contentType: null };
  if (typeof body === 'string' || body instanceof ReadableStream) {
    return { body, contentType: 'text/csv' };
  }
  return { body: JSON.stringify(body), contentType: 'application/json' };
}

/** Returns whether a second request changes nothing more. */
function isSafe(id: OperationId, { headers }: Call): boolean {
  const [method] = OPERATIONS[id];
  return method !== 'POST' || headers?.['idempotency-key'] !== undefined;
}

/**
 * @param attempt counted from 0
 * @returns milliseconds, or null when the request must not be repeated
 */
function waitBeforeRetry(error: unknown, attempt: number, isSafeToRepeat: boolean): number | null {
  const retryAfter = error instanceof LetterhausError ? error.retry_after : null;
  if (!mayRepeat(error, isSafeToRepeat) || (retryAfter ?? 0) > LONGEST_RETRY_AFTER_S) return null;
  if (retryAfter !== null) return retryAfter * 1_000;
  const waitMs = Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt);
  return waitMs * (0.5 + Math.random() / 2);
}

function mayRepeat(error: unknown, isSafeToRepeat: boolean): boolean {
  if (error instanceof RedirectError) return false;
  if (error instanceof ConnectionError) return isSafeToRepeat;
  if (!(error instanceof LetterhausError)) return false;
  return error.status === 429 || (isSafeToRepeat && (error.status >= 500 || error.status === 408));
}

/** The reason of the caller's own signal is not a failure of the connection. */
function noResponse(error: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted) return signal.reason;
  const reason = error instanceof Error ? error.message : String(error);
  return new ConnectionError(`There was no response from the service: ${reason}`, { cause: error });
}

export async function pause(waitMs: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', onAbort);
      resolve();
    }, waitMs);
    signal?.addEventListener('abort', onAbort, { once: true });
  });
}

function filled(path: string, values: Record<string, string | number>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_, name: string) => {
    const value = values[name];
    if (value === undefined || value === '') throw new TypeError(`${name} is needed.`);
    return encodeURIComponent(value);
  });
}

function queryOf(query: object): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  if (given.length === 0) return '';
  return `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}`;
}

/** Returns the variables of Node, Deno and Bun, and none in other runtimes. */
function environment(): Record<string, string | undefined> {
  const { process } = globalThis as { process?: { env?: Record<string, string | undefined> } };
  return process?.env ?? {};
}
