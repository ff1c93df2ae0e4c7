/**
 * Sends requests to an ACME server (RFC 8555). Signs each with the account's key (ES256) and a nonce that the server
 * has issued. When the server no longer knows the nonce, signs the request again with a new one.
 *
 * The operator chooses the server, so its address is not restricted. The client reads at most 256 KiB of a response
 * within 30 seconds and follows no redirects. It shortens texts of the server before anyone reads them. Every failure
 * is an AcmeError.
 */
import { createHash, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { AcmeError, problemOfResponse, retryAfterMs, unreachable } from './acme-error.ts';

type AcmeResponse = { status: number; headers: Headers; text: string };

type AcmeRequest = {
  method: 'HEAD' | 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
};

type Directory = { newNonce: string; newAccount: string; newOrder: string };

export type AcmeClientOptions = {
  directoryUrl: string;
  /** On P-256. */
  accountKey: KeyObject;
  /** Aborted when the caller has no more time. */
  signal: AbortSignal;
};

const REQUEST_TIMEOUT_MS = 30_000;
const RESPONSE_BYTES_MAX = 256 * 1024;
/** Attempts of one request. Servers forget nonces when they restart, and all of ours at once. */
const NONCES_TRIED_MAX = 4;

export class AcmeClient {
  readonly #options: AcmeClientOptions;
  readonly #jwk: Readonly<Record<string, string>>;
  #directory: Directory | null = null;
  #accountUrl: string | null = null;
  #nonce: string | null = null;

  constructor(options: AcmeClientOptions) {
    this.#options = options;
    const {
      crv = '',
      kty = '',
      x = '',
      y = '',
    } = createPublicKey(options.accountKey).export({
      format: 'jwk',
    });
    this.#jwk = { crv, kty, x, y };
  }

  /** Returns the key authorization, which the URL of a challenge must return: token and account (RFC 8555 §8.1). */
  keyAuthorization(token: string): string {
    // The members of the key in the order of their names, without spaces (RFC 7638).
    const thumbprint = createHash('sha256').update(JSON.stringify(this.#jwk)).digest('base64url');
    return `${token}.${thumbprint}`;
  }

  /** Creates the account, or finds it: the server knows it by its key. */
  async openAccount({ email }: { email: string | null }): Promise<void> {
    const { newAccount } = await this.#readDirectory();
    const { headers } = await this.#post(newAccount, {
      termsOfServiceAgreed: true,
      ...(email === null ? {} : { contact: [`mailto:${email}`] }),
    });
    this.#accountUrl = urlOf(headers.get('location'), 'the URL of the account');
  }

  async newOrder(name: string): Promise<{ url: string; order: Record<string, unknown> }> {
    const { newOrder } = await this.#readDirectory();
    const { headers, text } = await this.#post(newOrder, {
      identifiers: [{ type: 'dns', value: name }],
    });
    return {
      url: urlOf(headers.get('location'), 'the URL of the order'),
      order: parseObject(text),
    };
  }

  /** Reads an order, an authorization or a challenge. With a payload, it asks the server to act on it. */
  async read(
    url: string,
    payload: object | null = null,
  ): Promise<{ body: Record<string, unknown>; retryAfterMs: number | null }> {
    const { headers, text } = await this.#post(url, payload);
    return { body: parseObject(text), retryAfterMs: retryAfterMs(headers) };
  }

  /** Returns the certificate and the certificates of its issuers, as PEM. */
  async download(url: string): Promise<string> {
    return (await this.#post(url, null)).text;
  }

  async #readDirectory(): Promise<Directory> {
    if (this.#directory !== null) return this.#directory;
    const { directoryUrl } = this.#options;
    const response = await this.#send(directoryUrl, { method: 'GET' });
    if (response.status !== 200) throw problemOfResponse(response);
    const body = parseObject(response.text);
    const find = (name: keyof Directory) => urlOf(body[name], `${name} in its directory`);
    this.#directory = {
      newNonce: find('newNonce'),
      newAccount: find('newAccount'),
      newOrder: find('newOrder'),
    };
    return this.#directory;
  }

  async #post(url: string, payload: object | null): Promise<AcmeResponse> {
    for (let tried = 1; ; tried += 1) {
      const body = this.#sign(url, payload, await this.#takeNonce());
      const headers = { 'content-type': 'application/jose+json' };
      const response = await this.#send(url, { method: 'POST', headers, body });
      if (response.status < 300) return response;
      const problem = problemOfResponse(response);
      if (problem.type !== 'badNonce' || tried === NONCES_TRIED_MAX) throw problem;
    }
  }

  #sign(url: string, payload: object | null, nonce: string): string {
    const key = this.#accountUrl === null ? { jwk: this.#jwk } : { kid: this.#accountUrl };
    const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url');
    const protectedPart = encode({ alg: 'ES256', ...key, nonce, url });
    const payloadPart = payload === null ? '' : encode(payload);
    const signature = sign('sha256', Buffer.from(`${protectedPart}.${payloadPart}`), {
      key: this.#options.accountKey,
      dsaEncoding: 'ieee-p1363',
    }).toString('base64url');
    return JSON.stringify({ protected: protectedPart, payload: payloadPart, signature });
  }

  /** Every response has a nonce for the next request. */
  async #takeNonce(): Promise<string> {
    const { newNonce } = await this.#readDirectory();
    if (this.#nonce === null) await this.#send(newNonce, { method: 'HEAD' });
    const nonce = this.#nonce;
    this.#nonce = null;
    if (nonce === null) throw new AcmeError('protocol', 'The server sent no nonce.');
    return nonce;
  }

  async #send(url: string, request: AcmeRequest): Promise<AcmeResponse> {
    const { signal } = this.#options;
    try {
      const response = await fetch(url, {
        ...request,
        headers: { 'user-agent': 'Letterhaus', ...request.headers },
        redirect: 'error',
        signal: AbortSignal.any([signal, AbortSignal.timeout(REQUEST_TIMEOUT_MS)]),
      });
      this.#nonce = response.headers.get('replay-nonce') ?? this.#nonce;
      const { status, headers } = response;
      return { status, headers, text: await readText(response) };
    } catch (error) {
      throw unreachable(url, error);
    }
  }
}

async function readText({ body }: Response): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of (body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length;
    if (bytes > RESPONSE_BYTES_MAX) throw new Error('the response is too long');
    chunks.push(Buffer.from(chunk));
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (typeof value === 'object' && value !== null) return value as Record<string, unknown>;
  } catch {
    // The same problem as a value of another kind.
  }
  throw new AcmeError('protocol', 'The response of the server is no JSON object.');
}

function urlOf(value: unknown, what: string): string {
  if (typeof value === 'string' && URL.canParse(value)) return value;
  throw new AcmeError('protocol', `The server does not send ${what}.`);
}
