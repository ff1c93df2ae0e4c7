/**
 * An ACME server (RFC 8555) on the loopback address, with a certificate authority of its own:
 *
 *   await using acme = await startAcmeServer({ challengePort: 8080 });
 *   acme.fail('/order', { type: 'rateLimited', retryAfterS: 60 });
 *
 * It is as strict as a real one: it verifies each signature, accepts each nonce once, fetches the challenge over HTTP
 * and compares the key authorization, and issues only what a signed request asks for. Signatures are checked by a
 * library (`jose`), not by the code under test. It only resolves names in its own way: all are this machine.
 */
import { createHash, randomBytes } from 'node:crypto';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import {
  calculateJwkThumbprint,
  type FlattenedJWS,
  flattenedVerify,
  importJWK,
  type JWK,
} from 'jose';
import { CertificateAuthority, readRequest } from './certificate-authority.ts';

type Status = 'pending' | 'ready' | 'processing' | 'valid' | 'invalid';
type Order = {
  id: string;
  account: string;
  name: string;
  status: Status;
  token: string;
  authorization: Status;
  challengeError: object | null;
  chain: string | null;
};
type Identifier = { type: string; value: string };
type Account = { url: string; jwk: JWK; contact: string[] };
type AccountPayload = {
  termsOfServiceAgreed?: boolean;
  contact?: string[];
  onlyReturnExisting?: boolean;
  externalAccountBinding?: FlattenedJWS;
};
type Call = { url: string; account: Account; payload: Record<string, unknown> | null };

/** `drop`: the connection ends without a response. `later`: the order stays in progress until `release`. */
export type AcmeFault =
  | { type: string; retryAfterS?: number; status?: number; detail?: string }
  | 'drop'
  | 'later';

type Path =
  | '/renewal-info'
  | '/directory'
  | '/nonce'
  | '/account'
  | '/order'
  | '/authz'
  | '/challenge'
  | '/finalize';

const DAY_MS = 86_400_000;

export async function startAcmeServer(options: { challengePort: number }): Promise<AcmeServer> {
  const acme = new AcmeServer(options);
  await acme.listen();
  return acme;
}

export class AcmeServer implements AsyncDisposable {
  readonly #options: { challengePort: number };
  readonly #authority = new CertificateAuthority();
  readonly #server = createServer((incoming, response) => void this.#respond(incoming, response));
  readonly #nonces = new Set<string>();
  readonly #faults = new Map<Path, AcmeFault[]>();
  readonly #waiting: (() => void)[] = [];
  readonly accounts: Account[] = [];
  readonly orders: Order[] = [];
  /** Number of validations that were asked for. */
  validations = 0;
  /** Number of certificates that were sent. */
  downloads = 0;
  /** Validity of issued certificates, from now. */
  validForMs = 90 * DAY_MS;
  issuedBeforeMs = 60_000;
  /** The time in which certificates should be renewed, by RFC 9773; null: the server does not say. */
  renewalWindow: { start: string; end: string } | null = null;
  /** The only external account whose owner may have an account; null: everybody may. */
  externalAccount: { keyId: string; macKey: string } | null = null;
  /** Looks up the TXT records of a name, for the challenge DNS-01. */
  lookUpTxt: (name: string) => readonly string[] = () => [];
  /** Certificates that orders said they replace. */
  readonly replaced: string[] = [];
  #base = '';

  constructor(options: { challengePort: number }) {
    this.#options = options;
  }

  async listen(): Promise<void> {
    this.#server.listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#base = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  get directoryUrl(): string {
    return `${this.#base}/directory`;
  }

  /** Certificate of the authority, PEM. */
  get root(): string {
    return this.#authority.root;
  }

  /** The next requests to this path fail like that, one after the other. */
  fail(path: Path, ...faults: AcmeFault[]): void {
    this.#faults.set(path, [...(this.#faults.get(path) ?? []), ...faults]);
  }

  /** Completes orders that are `later`. */
  release(): void {
    for (const complete of this.#waiting.splice(0)) complete();
  }

  /** Forgets all nonces, like a server that was restarted. */
  forgetNonces(): void {
    this.#nonces.clear();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #respond(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const path = `/${(incoming.url ?? '').split('/')[1]}` as Path;
    const fault = this.#faults.get(path)?.shift();
    if (fault === 'drop') return void incoming.socket.destroy();
    const nonce = randomBytes(16).toString('base64url');
    this.#nonces.add(nonce);
    response.setHeader('replay-nonce', nonce);
    response.setHeader('content-type', 'application/json');
    try {
      if (fault !== undefined && fault !== 'later') throw new Refusal(fault);
      await this.#route(incoming, response, { path, isLater: fault === 'later' });
    } catch (error) {
      const refusal = error instanceof Refusal ? error : new Refusal({ type: 'serverInternal' });
      const { type, status = 400, retryAfterS, detail = String(error) } = refusal.fault;
      if (retryAfterS !== undefined) response.setHeader('retry-after', retryAfterS);
      response.setHeader('content-type', 'application/problem+json');
      response.writeHead(status).end(JSON.stringify({ type: ERROR + type, detail, status }));
    }
  }

  async #route(
    incoming: IncomingMessage,
    response: ServerResponse,
    { path, isLater }: { path: Path; isLater: boolean },
  ): Promise<void> {
    const send = (body: object, status = 200) =>
      void response.writeHead(status).end(JSON.stringify(body));
    const url = (to: string) => `${this.#base}${to}`;
    if (path === '/directory') {
      const at = { newNonce: url('/nonce'), newAccount: url('/account'), newOrder: url('/order') };
      return send({ ...at, ...(this.renewalWindow && { renewalInfo: url('/renewal-info') }) });
    }
    if (path === '/renewal-info') {
      response.setHeader('retry-after', 21_600);
      return send({ suggestedWindow: this.renewalWindow });
    }
    if (path === '/nonce') return void response.writeHead(200).end();
    const call = await this.#verify(incoming, path === '/account');
    if (path === '/account') {
      response.setHeader('location', call.account.url);
      return send({ status: 'valid' }, 201);
    }
    if (incoming.url === '/order') {
      const order = this.#newOrder(call);
      response.setHeader('location', url(`/order/${order.id}`));
      return send(this.#orderBody(order), 201);
    }
    const id = (incoming.url ?? '').split('/')[2];
    const order = this.orders.find((one) => one.id === id && one.account === call.account.url);
    if (order === undefined) throw new Refusal({ type: 'malformed', status: 404 });
    const isByDns = incoming.url?.endsWith('/dns') === true;
    if (path === '/challenge') await this.#validate(order, call.account, isByDns);
    if (path === '/finalize') this.#finalize(order, call, isLater);
    if (incoming.url?.startsWith('/cert/')) {
      this.downloads += 1;
      response.setHeader('content-type', 'application/pem-certificate-chain');
      return void response.writeHead(200).end(order.chain);
    }
    send(
      path === '/authz' || path === '/challenge' ? this.#authzBody(order) : this.#orderBody(order),
    );
  }

  /** Verifies signature, nonce, URL and account of a request (RFC 8555 §6). */
  async #verify(incoming: IncomingMessage, isNewAccount: boolean): Promise<Call> {
    const url = `${this.#base}${incoming.url}`;
    if (incoming.headers['content-type'] !== 'application/jose+json' || incoming.method !== 'POST')
      throw new Refusal({ type: 'malformed', status: 415 });
    const jws = JSON.parse(await text(incoming));
    let jwk: JWK | undefined;
    const { payload, protectedHeader } = await flattenedVerify(
      jws,
      (header: { kid?: string; jwk?: JWK; alg?: string }) => {
        const known = this.accounts.find((one) => one.url === header.kid);
        jwk = isNewAccount ? header.jwk : known?.jwk;
        if (jwk === undefined) throw new Refusal({ type: 'accountDoesNotExist' });
        return importJWK(jwk, header.alg);
      },
      { algorithms: ['ES256'] },
    ).catch((error: unknown) => {
      throw error instanceof Refusal ? error : new Refusal({ type: 'malformed' });
    });
    if (!this.#nonces.delete(String(protectedHeader?.['nonce'])))
      throw new Refusal({ type: 'badNonce' });
    if (protectedHeader?.['url'] !== url) throw new Refusal({ type: 'unauthorized' });
    const body = payload.length === 0 ? null : JSON.parse(Buffer.from(payload).toString());
    return { url, payload: body, account: await this.#accountOf(jwk!, body) };
  }

  async #accountOf(jwk: JWK, payload: AccountPayload): Promise<Account> {
    const known = this.accounts.find((one) => one.jwk.x === jwk.x && one.jwk.y === jwk.y);
    if (known !== undefined) return known;
    if (payload.onlyReturnExisting === true) throw new Refusal({ type: 'accountDoesNotExist' });
    await this.#verifyBinding(jwk, payload.externalAccountBinding);
    if (payload.termsOfServiceAgreed !== true) throw new Refusal({ type: 'userActionRequired' });
    const url = `${this.#base}/acct/${this.accounts.length + 1}`;
    const account = { url, jwk, contact: payload.contact ?? [] };
    this.accounts.push(account);
    return account;
  }

  /** RFC 8555 §7.3.4: the owner of the external account has signed the key of this account, for this URL. */
  async #verifyBinding(jwk: JWK, binding: FlattenedJWS | undefined): Promise<void> {
    const { externalAccount: external } = this;
    if (external === null) return;
    if (binding === undefined) throw new Refusal({ type: 'externalAccountRequired', status: 403 });
    const key = Buffer.from(external.macKey, 'base64url');
    const { payload, protectedHeader } = await flattenedVerify(binding, key, {
      algorithms: ['HS256'],
    }).catch(() => {
      throw new Refusal({ type: 'unauthorized', status: 403, detail: 'wrong key' });
    });
    const { kid, url } = protectedHeader as { kid?: string; url?: string };
    const isSame = Buffer.from(payload).toString() === JSON.stringify(jwk);
    if (kid !== external.keyId || url !== `${this.#base}/account` || !isSame)
      throw new Refusal({ type: 'unauthorized', status: 403, detail: 'wrong binding' });
  }

  #newOrder({ payload, account }: Call): Order {
    const replaces = payload?.['replaces'];
    if (typeof replaces === 'string') {
      if (this.replaced.includes(replaces))
        throw new Refusal({ type: 'alreadyReplaced', status: 409 });
      this.replaced.push(replaces);
    }
    const [identifier, ...others] = (payload?.['identifiers'] ?? []) as Identifier[];
    if (identifier?.type !== 'dns' || others.length > 0) throw new Refusal({ type: 'malformed' });
    const order: Order = {
      id: randomBytes(8).toString('hex'),
      account: account.url,
      name: identifier.value,
      status: 'pending',
      token: randomBytes(24).toString('base64url'),
      authorization: 'pending',
      challengeError: null,
      chain: null,
    };
    this.orders.push(order);
    return order;
  }

  async #validate(order: Order, { jwk }: Account, isByDns: boolean): Promise<void> {
    this.validations += 1;
    const expected = `${order.token}.${await calculateJwkThumbprint(jwk)}`;
    const digest = createHash('sha256').update(expected).digest('base64url');
    const texts = isByDns ? this.lookUpTxt(`_acme-challenge.${order.name}`) : [];
    const found = isByDns
      ? texts.join(' ')
      : await this.#fetchChallenge(order).catch((error: Error) => error);
    const isRight = isByDns ? texts.includes(digest) : found === expected;
    order.authorization = isRight ? 'valid' : 'invalid';
    order.status = isRight ? 'ready' : 'invalid';
    if (isRight) return;
    order.challengeError =
      found instanceof Error
        ? { type: `${ERROR}connection`, detail: `${order.name}: ${found.message}` }
        : { type: `${ERROR}unauthorized`, detail: `${order.name} answered ${found}` };
  }

  async #fetchChallenge({ name, token }: Order): Promise<string> {
    const path = `/.well-known/acme-challenge/${token}`;
    const port = this.#options.challengePort;
    const call = request({ host: '127.0.0.1', port, path, headers: { host: name } });
    call.end();
    const [response] = (await once(call, 'response')) as [IncomingMessage];
    const body = await text(response);
    return response.statusCode === 200 ? body.trimEnd() : `status ${response.statusCode}`;
  }

  #finalize(order: Order, { payload }: Call, isLater: boolean): void {
    if (order.status !== 'ready') throw new Refusal({ type: 'orderNotReady', status: 403 });
    const wanted = readRequest(Buffer.from(String(payload?.['csr']), 'base64url'));
    if (wanted.name !== order.name) throw new Refusal({ type: 'badCSR' });
    const nowMs = Date.now();
    const validity = { fromMs: nowMs - this.issuedBeforeMs, untilMs: nowMs + this.validForMs };
    const chain = this.#authority.issue(wanted, validity) + this.root;
    const complete = (): void => void Object.assign(order, { status: 'valid', chain });
    order.status = 'processing';
    if (isLater) this.#waiting.push(complete);
    else complete();
  }

  #orderBody({ id, status, name, chain }: Order): object {
    return {
      status,
      identifiers: [{ type: 'dns', value: name }],
      authorizations: [`${this.#base}/authz/${id}`],
      finalize: `${this.#base}/finalize/${id}`,
      ...(chain === null ? {} : { certificate: `${this.#base}/cert/${id}` }),
    };
  }

  #authzBody({ id, authorization, token, challengeError }: Order): object {
    const error = challengeError === null ? {} : { error: challengeError };
    const url = `${this.#base}/challenge/${id}`;
    const http = { type: 'http-01', url, token, status: authorization, ...error };
    const dns = { ...http, type: 'dns-01', url: `${url}/dns` };
    return { status: authorization, challenges: [dns, http] };
  }
}

const ERROR = 'urn:ietf:params:acme:error:';

class Refusal extends Error {
  readonly fault: Exclude<AcmeFault, string>;

  constructor(fault: Exclude<AcmeFault, string>) {
    super(fault.type);
    this.fault = fault;
  }
}
