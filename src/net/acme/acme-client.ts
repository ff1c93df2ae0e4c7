/**
 * Sends requests to an ACME server (RFC 8555). Signs each with the account's key (ES256) and a nonce that the server
 * has issued. When the server no longer knows the nonce, signs the request again with a new one.
 *
 * The operator chooses the server, so its address is not restricted. The client reads at most 256 KiB of a response
 * within 30 seconds and follows no redirects. It shortens texts of the server before anyone reads them. Every failure
 * is an AcmeError.
 */
import { createHash, createHmac, createPublicKey, type KeyObject, sign } from 'node:crypto';
import { readBody } from '../http/response-body.ts';
import { AcmeError, problemOfResponse, retryAfterMs, unreachable } from './acme-error.ts';

type AcmeResponse = { status: number; headers: Headers; text: string };

type AcmeRequest = {
  method: 'HEAD' | 'GET' | 'POST';
  headers?: Record<string, string>;
  body?: string;
};

/** @property renewalInfo null: the server does not say when a certificate should be renewed (RFC 9773) */
type Directory = {
  newNonce: string;
  newAccount: string;
  newOrder: string;
  renewalInfo: string | null;
};

/** The key of an account that the operator has made at the authority (RFC 8555 §7.3.4). */
export type ExternalAccount = { keyId: string; macKey: string };

/** When the authority wants a certificate to be renewed. */
export type RenewalWindow = { fromMs: number; untilMs: number; retryAfterMs: number | null };

export type AcmeClientOptions = {
  directoryUrl: string;
  /** On P-256. */
  accountKey: KeyObject;
  /** Aborted when the caller has no more time. */
  signal: AbortSignal;
};

type AccountOptions = { email: string | null; externalAccount?: ExternalAccount | null };
type Body = Record<string, unknown>;

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
  async openAccount({ email, externalAccount = null }: AccountOptions): Promise<void> {
    const { newAccount } = await this.#readDirectory();
    const { headers } =
      (externalAccount === null ? null : await this.#findAccount(newAccount)) ??
      (await this.#post(newAccount, {
        termsOfServiceAgreed: true,
        ...(email === null ? {} : { contact: [`mailto:${email}`] }),
        ...(externalAccount && {
          externalAccountBinding: this.#bindingOf(newAccount, externalAccount),
        }),
      }));
    this.#accountUrl = urlOf(headers.get('location'), 'the URL of the account');
  }

  /** Keys of external accounts may be used once, so an account that exists is not bound again. */
  async #findAccount(newAccount: string): Promise<AcmeResponse | null> {
    try {
      return await this.#post(newAccount, { onlyReturnExisting: true });
    } catch (error) {
      if (error instanceof AcmeError && error.type === 'accountDoesNotExist') return null;
      throw error;
    }
  }

  #bindingOf(url: string, { keyId, macKey }: ExternalAccount): object {
    const protectedPart = encodeJson({ alg: 'HS256', kid: keyId, url });
    const payload = encodeJson(this.#jwk);
    const signature = createHmac('sha256', Buffer.from(macKey, 'base64url'))
      .update(`${protectedPart}.${payload}`)
      .digest('base64url');
    return { protected: protectedPart, payload, signature };
  }

  /** @param replaces the id of the certificate that this order renews, for servers that know renewal information */
  async newOrder(
    name: string,
    replaces: string | null = null,
  ): Promise<{ url: string; order: Record<string, unknown> }> {
    const { newOrder, renewalInfo } = await this.#readDirectory();
    const { headers, text } = await this.#post(newOrder, {
      identifiers: [{ type: 'dns', value: name }],
      ...(replaces !== null && renewalInfo !== null && { replaces }),
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

  /**
   * Returns when the server wants the certificate to be renewed (RFC 9773 §4); null when it does not say.
   * @param id the certificate's, of renewal-id.ts
   */
  async readRenewalWindow(id: string): Promise<RenewalWindow | null> {
    const { renewalInfo } = await this.#readDirectory();
    if (renewalInfo === null) return null;
    const response = await this.#send(`${renewalInfo}/${id}`, { method: 'GET' });
    if (response.status !== 200) throw problemOfResponse(response);
    const { start, end } = (parseObject(response.text)['suggestedWindow'] ?? {}) as Body;
    const [fromMs, untilMs] = [Date.parse(String(start)), Date.parse(String(end))];
    if (!(fromMs <= untilMs))
      throw new AcmeError('protocol', 'The server suggests no valid time of renewal.');
    return { fromMs, untilMs, retryAfterMs: retryAfterMs(response.headers) };
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
      renewalInfo: body['renewalInfo'] === undefined ? null : find('renewalInfo'),
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
    const protectedPart = encodeJson({ alg: 'ES256', ...key, nonce, url });
    const payloadPart = payload === null ? '' : encodeJson(payload);
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
      const body = await readBody(response, RESPONSE_BYTES_MAX);
      return { status, headers, text: body.toString() };
    } catch (error) {
      throw unreachable(url, error);
    }
  }
}

function encodeJson(value: object): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
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
