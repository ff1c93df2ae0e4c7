/**
 * Signed requests to one bucket of an S3-compatible object store, for backups. bucket.ts contains the operations, and
 * upload.ts writes objects of any size.
 *
 * Guarantees: a request ends. It is retried, after growing waits, when it fails on the way, takes too long, or
 * the store asks for that. A final failure throws an S3Problem, whose message is a sentence for the operator
 * (problems.ts) without credentials. Redirects are not followed, so a signature is only sent to the endpoint. The
 * signature covers a hash of the body, so the store refuses bytes that changed on the way.
 */
import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type * as Undici from 'undici';
import type { World } from '../../lib/world.ts';
import { problemFor, type S3Failure, type S3Problem } from './problems.ts';
import { MIB } from '../../lib/units.ts';

export type S3Access = {
  /** The URL of the store, with buckets in its path, or null for AWS, with buckets in the host name. */
  endpoint: string | null;
  region: string;
  accessKeyId: string;
  secretAccessKey: string;
  sessionToken: string | null;
};

export type S3Request = {
  method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** '': the bucket itself. */
  key: string;
  query?: Readonly<Record<string, string>>;
  headers?: Readonly<Record<string, string>>;
  body?: Buffer;
  /** Expected statuses beside 2xx. */
  expect?: readonly number[];
  bytesMax?: number;
  /** Allows ten times the time for its size. */
  isSlow?: true;
  signal?: AbortSignal;
};

type Signaled = S3Request & { signal: AbortSignal };

export type S3Response = {
  status: number;
  header: (name: string) => string | null;
  body: Buffer;
  /** Number of times it was sent. If more than 1, an earlier request may have had its effect. */
  attempts: number;
};

/** Limits on the time of a request, and the waits before it is retried. */
export type S3Timing = { baseMs: number; bytesPerSecondMin: number; waitsMs: readonly number[] };

export type S3TransportOptions = {
  access: S3Access;
  bucket: string;
  world: Pick<World, 'now' | 'random'>;
  timing?: S3Timing;
  signal?: AbortSignal;
};

const TIMING: S3Timing = {
  baseMs: 30_000,
  bytesPerSecondMin: 50_000,
  waitsMs: [500, 1_000, 2_000, 5_000, 10_000, 20_000],
};
/** Number of retries until the store has responded once, so that a wrong address is reported soon. */
const RETRIES_BEFORE_FIRST_RESPONSE = 2;
const BYTES_MAX = 4 * MIB;

/** Loaded by the first request, because most processes make none. */
async function load() {
  const [undici, { AwsV4Signer }] = await Promise.all([import('undici'), import('aws4fetch')]);
  // The timeout of the request ends a stalled request, because it depends on the size.
  const agent = new undici.Agent({ headersTimeout: 0, bodyTimeout: 0, connections: 8 });
  return { undici, AwsV4Signer, agent };
}
let loaded: ReturnType<typeof load> | null = null;

export class S3Transport {
  readonly #options: S3TransportOptions;
  readonly #timing: S3Timing;
  readonly #baseUrl: string;
  #hasResponded = false;

  constructor(options: S3TransportOptions) {
    this.#options = options;
    this.#timing = options.timing ?? TIMING;
    this.#baseUrl = baseUrlOf(options);
  }

  /** @throws S3Problem, or the abort reason of `signal` */
  async send(options: S3Request): Promise<S3Response> {
    const signals = [this.#options.signal, options.signal].filter((signal) => signal !== undefined);
    const request = { ...options, signal: AbortSignal.any(signals) };
    for (let attempts = 1; ; attempts += 1) {
      const outcome = await this.#attempt(request, attempts);
      if ('body' in outcome) return outcome;
      request.signal.throwIfAborted();
      const { waitsMs } = this.#timing;
      const retriesMax = this.#hasResponded ? waitsMs.length : RETRIES_BEFORE_FIRST_RESPONSE;
      const waitMs = waitsMs[attempts - 1];
      if (!isTransient(outcome) || attempts > retriesMax || waitMs === undefined) {
        throw this.#problem(request, outcome);
      }
      const jitteredMs = waitMs * (0.5 + this.#options.world.random() / 2);
      // The caller gets the reason of the abort, as during a request.
      await pause(jitteredMs, null, { signal: request.signal }).catch(() =>
        request.signal.throwIfAborted(),
      );
    }
  }

  async #attempt(request: Signaled, attempts: number): Promise<S3Response | S3Failure> {
    const timeout = new AbortController();
    const timer = setTimeout(() => timeout.abort(), this.#timeoutMs(request));
    const signal = AbortSignal.any([timeout.signal, request.signal]);
    try {
      const response = await this.#exchange(request, signal);
      this.#hasResponded = true;
      return failureIn(request, response) ?? { ...response, attempts };
    } catch (error) {
      return { kind: 'broken', code: timeout.signal.aborted ? 'ETIMEDOUT' : codeOf(error) };
    } finally {
      clearTimeout(timer);
    }
  }

  #timeoutMs({ isSlow, body, bytesMax = 0 }: S3Request): number {
    const { baseMs, bytesPerSecondMin } = this.#timing;
    const bytes = (body?.length ?? 0) + bytesMax;
    return (baseMs + (bytes / bytesPerSecondMin) * 1_000) * (isSlow === true ? 10 : 1);
  }

  async #exchange(request: S3Request, signal: AbortSignal): Promise<Omit<S3Response, 'attempts'>> {
    const { undici, agent } = await (loaded ??= load());
    const { method, body = null, bytesMax = BYTES_MAX } = request;
    const { url, headers } = await this.#sign(request);
    const response = await undici.request(url, {
      method,
      headers,
      body,
      signal,
      dispatcher: agent,
    });
    return {
      status: response.statusCode,
      header: (name) => headerOf(response.headers, name),
      body: await readBody(response.body, bytesMax),
    };
  }

  async #sign({ method, key, query = {}, headers = {}, body }: S3Request) {
    const { AwsV4Signer } = await (loaded ??= load());
    const { endpoint: _, sessionToken, ...access } = this.#options.access;
    const url = new URL(`${this.#baseUrl}/${key}`);
    for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
    const sha256 = createHash('sha256')
      .update(body ?? '')
      .digest('hex');
    const signer = new AwsV4Signer({
      ...access,
      ...(sessionToken !== null && { sessionToken }),
      service: 's3',
      method,
      url: url.href,
      headers: { ...headers, 'x-amz-content-sha256': sha256 },
      datetime: new Date(this.#options.world.now()).toISOString().replaceAll(/[:-]|\.\d{3}/g, ''),
    });
    const signed = await signer.sign();
    return { url: signed.url, headers: Object.fromEntries(signed.headers) };
  }

  #problem({ method, key }: S3Request, failure: S3Failure): S3Problem {
    const { access, bucket, world } = this.#options;
    const { host } = new URL(this.#baseUrl);
    const location = `s3://${bucket}/${key}`;
    const { region, endpoint } = access;
    const facts = { host, bucket, location, method, region, isAws: endpoint === null };
    return problemFor(failure, { ...facts, nowMs: world.now() });
  }
}

/** A bucket with a dot in its name is in the path: the certificate would not match it in the host name. */
function baseUrlOf({ access: { endpoint, region }, bucket }: S3TransportOptions): string {
  if (endpoint !== null) return `${endpoint}/${bucket}`;
  return bucket.includes('.')
    ? `https://s3.${region}.amazonaws.com/${bucket}`
    : `https://${bucket}.s3.${region}.amazonaws.com`;
}

/** Returns the failure in a response, also of a 200 whose body reports one, as the completion of an upload may. */
function failureIn(
  { method, expect = [] }: S3Request,
  { status, header, body }: Omit<S3Response, 'attempts'>,
): S3Failure | null {
  const isSuccess = status < 300 || expect.includes(status);
  const text = isSuccess && method !== 'POST' ? '' : body.toString('utf8');
  const isError = /^\s*(?:<\?xml[^>]*>)?\s*<Error>/.test(text);
  if (isSuccess && !(isError && status < 300)) return null;
  const code = /<Code>(\w{1,60})<\/Code>/.exec(text)?.[1] ?? null;
  const statedRegion =
    header('x-amz-bucket-region') ?? /<Region>([\w-]{1,40})<\/Region>/.exec(text)?.[1];
  const dateMs = Date.parse(header('date') ?? '');
  return {
    kind: 'refused',
    status: status < 300 ? 500 : status,
    code,
    region: statedRegion !== undefined && /^[\w-]{1,40}$/.test(statedRegion) ? statedRegion : null,
    dateMs: Number.isNaN(dateMs) ? null : dateMs,
  };
}

function isTransient(failure: S3Failure): boolean {
  if (failure.kind === 'broken')
    return !/CERT|^ERR_TLS|SIGNED|RESPONSE_TOO_LARGE/.test(failure.code);
  const { status, code } = failure;
  if (code === 'RequestTimeout' || status === 408 || status === 429) return true;
  // The response to HEAD has no reason.
  if (status === 400 && code === null) return true;
  return status >= 500 && status !== 501 && status !== 507 && !/Full$|Quota/.test(code ?? '');
}

function codeOf(error: unknown): string {
  const { code, cause } = error as { code?: unknown; cause?: { code?: unknown } };
  // undici's own codes say less than the codes of the system.
  const systemCode = [cause?.code, code].find((one) => typeof one === 'string' && one !== '');
  return typeof systemCode === 'string' ? systemCode : 'closed';
}

async function readBody(body: AsyncIterable<Buffer>, bytesMax: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += chunk.length;
    if (bytes > bytesMax)
      throw Object.assign(new Error('too large'), { code: 'RESPONSE_TOO_LARGE' });
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function headerOf(headers: Undici.Dispatcher.ResponseData['headers'], name: string): string | null {
  const value = headers[name];
  return (Array.isArray(value) ? value[0] : value) ?? null;
}
