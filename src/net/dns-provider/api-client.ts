/**
 * Requests to the API of a DNS provider, with its failures as sentences.
 *
 * - The token goes only to the configured address: redirects are not followed. It is removed from every sentence.
 * - A request that the provider limits is repeated when the provider says so, for at most a minute. Requests that
 *   change nothing are repeated after other transient failures too.
 * - Every request ends: by a response of at most 4 MB, or after 30 seconds.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { ZodType } from 'zod';
import type { World } from '../../lib/world.ts';
import { parseJson } from '../../lib/json.ts';
import { MIB } from '../../lib/units.ts';
import { readBody } from '../http/response-body.ts';
import { DnsProviderProblem, type ProblemKind } from './dns-provider.ts';

export type ApiRequest = {
  method?: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Below the base URL, or a complete URL with the base URL in front, as links to the next page have it. */
  path: string;
  query?: Readonly<Record<string, string>>;
  body?: string;
  /** Statuses beside 2xx that are no failure. */
  expect?: readonly number[];
};

export type ApiResponse = { status: number; text: string; headers: Headers };

export type ApiClientOptions = {
  /** The provider's name. */
  name: string;
  baseUrl: string;
  /** Secrets that no sentence may contain. */
  secrets: readonly string[];
  /** Where the operator sets the token. */
  tokenVariable: string;
  /** The right that the token needs, in the provider's words. */
  rightNeeded: string;
  headers: (request: { method: string; url: string; body: string }) => Promise<Headers>;
  /** Reads the provider's own reason out of a failed response; null when there is none. */
  reason: (text: string) => string | null;
  /** Returns the meaning of a failed response when the status alone does not determine it. */
  kindOf?: (status: number, text: string) => ProblemKind | 'later' | null;
  world: Pick<World, 'now'>;
  timing?: ApiTiming | undefined;
};

export type ApiTiming = { timeoutMs: number; waitsMs: readonly number[]; limitWaitMaxMs: number };

export type ApiAccess = {
  baseUrl: string;
  world: Pick<World, 'now'>;
  timing?: ApiTiming | undefined;
};
export type TokenAccess = ApiAccess & { token: string };
export type KeyAccess = ApiAccess & {
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
};

const TIMING: ApiTiming = { timeoutMs: 30_000, waitsMs: [1_000, 4_000], limitWaitMaxMs: 60_000 };
const BYTES_MAX = 4 * MIB;
const REASON_CHARACTERS_MAX = 200;
/** More than any zone has; a provider that never ends its list is faulty. */
const PAGES_MAX = 1_000;

export class ApiClient {
  readonly #options: ApiClientOptions;
  readonly #timing: ApiTiming;

  constructor(options: ApiClientOptions) {
    this.#options = options;
    this.#timing = options.timing ?? TIMING;
  }

  async json<Body>(
    request: ApiRequest,
    schema: ZodType<Body>,
  ): Promise<{ status: number; body: Body; headers: Headers }> {
    const { status, text, headers } = await this.send(request);
    const read = schema.safeParse(parseJson(text));
    if (read.success) return { status, body: read.data, headers };
    const { name, baseUrl } = this.#options;
    const host = new URL(baseUrl).host;
    throw this.problem('unavailable', `${name} at ${host} returned an unknown response.`);
  }

  /** Collects all pages. @param load returns the request of the next page, null after the last one */
  async pages<Row>(
    first: ApiRequest,
    load: (request: ApiRequest) => Promise<{ rows: Row[]; next: ApiRequest | null }>,
  ): Promise<Row[]> {
    const rows: Row[] = [];
    let request: ApiRequest | null = first;
    for (let count = 0; request !== null; count += 1) {
      if (count === PAGES_MAX) {
        throw this.problem('unavailable', `${this.#options.name} returns a list without an end.`);
      }
      const page = await load(request);
      rows.push(...page.rows);
      request = page.next;
    }
    return rows;
  }

  /** @throws DnsProviderProblem */
  async send(request: ApiRequest): Promise<ApiResponse> {
    const { waitsMs, limitWaitMaxMs } = this.#timing;
    let limitWaitMs = 0;
    for (let failures = 0; ;) {
      const outcome = await this.#exchange(request);
      if (!('problem' in outcome)) return outcome;
      const isRead = (request.method ?? 'GET') === 'GET';
      if (outcome.retryAfterMs !== null) {
        limitWaitMs += outcome.retryAfterMs;
        if (limitWaitMs > limitWaitMaxMs) throw outcome.problem;
        await pause(outcome.retryAfterMs);
      } else {
        const waitMs = waitsMs[failures];
        if (outcome.problem.kind !== 'unavailable' || !isRead || waitMs === undefined) {
          throw outcome.problem;
        }
        failures += 1;
        await pause(waitMs);
      }
    }
  }

  async #exchange(
    request: ApiRequest,
  ): Promise<ApiResponse | { problem: DnsProviderProblem; retryAfterMs: number | null }> {
    const { method = 'GET', body = '', expect = [] } = request;
    const url = this.#urlOf(request);
    let response: ApiResponse;
    try {
      const headers = await this.#options.headers({ method, url, body });
      const got = await fetch(url, {
        method,
        headers,
        ...(body !== '' && { body }),
        redirect: 'error',
        signal: AbortSignal.timeout(this.#timing.timeoutMs),
      });
      const text = (await readBody(got, BYTES_MAX)).toString();
      response = { status: got.status, headers: got.headers, text };
    } catch (error) {
      return { problem: this.#noResponse(error), retryAfterMs: null };
    }
    const { status, text } = response;
    if ((status >= 200 && status < 300) || expect.includes(status)) return response;
    return this.#failure(status, text, response.headers);
  }

  #urlOf({ path, query = {} }: ApiRequest): string {
    const { baseUrl, name } = this.#options;
    const url = new URL(path.startsWith('/') ? baseUrl + path : path);
    if (url.origin !== new URL(baseUrl).origin) {
      throw this.problem('unavailable', `${name} names another host for the next page.`);
    }
    for (const [key, value] of Object.entries(query)) url.searchParams.set(key, value);
    return url.href;
  }

  #failure(status: number, text: string, headers: Headers) {
    const { name, tokenVariable, rightNeeded } = this.#options;
    const reason = this.#reasonIn(text);
    const says = `HTTP ${status}${reason === '' ? '' : `: ${reason}`}`;
    const kind = this.#options.kindOf?.(status, text) ?? kindOf(status);
    const messages = {
      token: `${name} refuses the token (${says}). Create a token with ${rightNeeded}, and set ${tokenVariable}.`,
      refused: `${name} refuses the request (${says}).`,
      unavailable: `${name} fails (${says}). Repeat the command later.`,
      later: `${name} limits the rate of requests (${says}). Repeat the command later.`,
    };
    const problemKind = kind === 'later' ? 'unavailable' : kind;
    return {
      problem: this.problem(problemKind, messages[kind]),
      retryAfterMs: kind === 'later' ? this.#retryAfterMs(headers) : null,
    };
  }

  /** `ratelimit-reset` is a time in seconds since 1970. Without either header the wait is one second. */
  #retryAfterMs(headers: Headers): number {
    const after = Number(headers.get('retry-after') ?? Number.NaN);
    const resetMs = Number(headers.get('ratelimit-reset') ?? Number.NaN) * 1_000;
    const waitMs = Number.isFinite(after) ? after * 1_000 : resetMs - this.#options.world.now();
    return Number.isFinite(waitMs) ? Math.max(waitMs, 100) : 1_000;
  }

  #noResponse(error: unknown): DnsProviderProblem {
    if (error instanceof DnsProviderProblem) return error;
    const { name, baseUrl } = this.#options;
    const { cause, name: kind } = error as Error & { cause?: { code?: string; message?: string } };
    const why = kind === 'TimeoutError' ? 'no response in time' : (cause?.code ?? cause?.message);
    const message = `${name} cannot be reached at ${new URL(baseUrl).host} (${why ?? 'connection failed'}).`;
    return this.problem('unavailable', message);
  }

  #reasonIn(text: string): string {
    // The body of a failure may be anything, such as the page of a proxy.
    const reason = this.#options.reason(text);
    return (reason ?? '').replaceAll(/[\p{Cc}\s]+/gu, ' ').slice(0, REASON_CHARACTERS_MAX);
  }

  problem(kind: ProblemKind, message: string): DnsProviderProblem {
    const secrets = this.#options.secrets.filter((secret) => secret !== '');
    return new DnsProviderProblem(
      kind,
      secrets.reduce((text, secret) => text.replaceAll(secret, '(token)'), message),
    );
  }
}

function kindOf(status: number): ProblemKind | 'later' {
  if (status === 401 || status === 403) return 'token';
  if (status === 429) return 'later';
  return status >= 500 || status === 408 ? 'unavailable' : 'refused';
}

/** Returns a function that reads a value out of a text, null if the text is not JSON of this shape. */
export function jsonReader<Shape, Value>(schema: ZodType<Shape>, pick: (shape: Shape) => Value) {
  return (text: string): Value | null => {
    const read = schema.safeParse(parseJson(text));
    return read.success ? pick(read.data) : null;
  };
}

/** The headers of an API with a token and JSON. */
export function jsonHeaders(authorization: string): ApiClientOptions['headers'] {
  const headers = new Headers({ authorization, 'content-type': 'application/json' });
  return () => Promise.resolve(headers);
}
