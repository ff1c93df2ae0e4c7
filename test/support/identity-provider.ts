/**
 * A real identity provider (OpenID Connect) on the loopback address: `oidc-provider`, a certified server.
 *
 *   await using idp = await startIdentityProvider();
 *   await using service = await startService({ env: idp.env });
 *   idp.serve(service.url);
 *   idp.accounts.set('jo', { email: 'jo@acme.test', email_verified: true, groups: ['engineering'] });
 *   const query = await idp.authorize(url, 'jo');   // signs in as a person would, and returns the response
 *
 * It is strict: it checks the client's secret, the redirect URI and PKCE, and takes each code once. `forge` changes the
 * claims of ID tokens, which are then signed with the provider's own key, as a provider with a fault would.
 */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { decodeJwt, exportJWK, generateKeyPair, SignJWT } from 'jose';
import { Provider } from 'oidc-provider';

export type ProviderAccount = {
  email?: string;
  email_verified?: boolean;
  name?: string;
  groups?: string[];
};

type Claims = Record<string, unknown>;

const CLIENT_ID = 'letterhaus';
const CLIENT_SECRET = 'secret-of-the-client';
const KEY_ID = 'first';
const REDIRECTS_MAX = 10;

export class TestIdentityProvider implements AsyncDisposable {
  readonly accounts = new Map<string, ProviderAccount>();
  readonly env: Record<string, string>;
  readonly #server = createServer((request, response) => this.#respond(request, response));
  readonly #key: CryptoKey;
  readonly #publicJwk: object;
  #handle: ((request: IncomingMessage, response: ServerResponse) => void) | null = null;
  #login = '';
  /** Changes the claims of each ID token. */
  forge: ((claims: Claims) => Claims) | null = null;
  /** Responds with 503 to every request. */
  isDown = false;
  /** Paths of requests that arrived. */
  readonly requests: string[] = [];

  constructor(key: CryptoKey, publicJwk: object) {
    this.#key = key;
    this.#publicJwk = publicJwk;
    this.#server.listen(0, '127.0.0.1');
    this.env = {};
  }

  get issuer(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async open(): Promise<void> {
    if (!this.#server.listening) await once(this.#server, 'listening');
    Object.assign(this.env, {
      LETTERHAUS_OIDC_ISSUER: this.issuer,
      LETTERHAUS_OIDC_CLIENT_ID: CLIENT_ID,
      LETTERHAUS_OIDC_CLIENT_SECRET: CLIENT_SECRET,
      LETTERHAUS_OIDC_NAME: 'Acme Login',
      LETTERHAUS_OIDC_SCOPES: 'openid email profile groups',
    });
  }

  /** Registers the client, whose redirect URI contains the service's port. */
  serve(serviceUrl: string): void {
    const provider = new Provider(this.issuer, {
      clients: [
        {
          client_id: CLIENT_ID,
          client_secret: CLIENT_SECRET,
          redirect_uris: [`${serviceUrl}/auth/oidc/callback`],
          id_token_signed_response_alg: 'ES256',
        },
      ],
      jwks: { keys: [this.#publicJwk] },
      cookies: { keys: ['a key for cookies'] },
      claims: {
        openid: ['sub'],
        email: ['email', 'email_verified'],
        profile: ['name'],
        groups: ['groups'],
      },
      features: { devInteractions: { enabled: false } },
      interactions: { url: (_context, { uid }) => `/interaction/${uid}` },
      findAccount: (_context, sub) => ({
        accountId: sub,
        claims: async () => ({ sub, ...this.accounts.get(sub) }),
      }),
      loadExistingGrant: async ({ oidc }) => {
        const grant = new oidc.provider.Grant({
          clientId: CLIENT_ID,
          accountId: oidc.session.accountId,
        });
        grant.addOIDCScope('openid email profile groups');
        await grant.save();
        return grant;
      },
    });
    provider.use(async (context, next) => {
      await next();
      const { body } = context;
      if (context.path === '/token' && this.forge !== null && body?.id_token !== undefined) {
        body.id_token = await this.#sign(this.forge(decodeJwt(body.id_token)));
      }
    });
    const callback = provider.callback();
    this.#handle = (request, response) => {
      if (!request.url?.startsWith('/interaction/')) return void callback(request, response);
      const login = { accountId: this.#login };
      void provider.interactionFinished(request, response, { login });
    };
  }

  /** Signs in at the provider as a person would. Returns the query with which it sends the browser back. */
  async authorize(url: string, login: string): Promise<string> {
    this.#login = login;
    const cookies = new Map<string, string>();
    let next = new URL(url);
    for (let n = 0; n < REDIRECTS_MAX; n += 1) {
      const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
      const response = await fetch(next, { redirect: 'manual', headers: { cookie } });
      await response.arrayBuffer();
      for (const line of response.headers.getSetCookie()) {
        const [name = '', value = ''] = line.split(';', 1)[0]!.split('=', 2);
        cookies.set(name, value);
      }
      const location = response.headers.get('location');
      if (location === null) throw new Error(`the provider responds with ${response.status}`);
      next = new URL(location, this.issuer);
      if (next.origin !== this.issuer) return next.search.slice(1);
    }
    throw new Error('the provider redirects in a circle');
  }

  /** The person who signs in next in a browser. */
  signInAs(login: string): void {
    this.#login = login;
  }

  #sign(claims: Claims): Promise<string> {
    const header = { alg: 'ES256', kid: KEY_ID };
    return new SignJWT(claims).setProtectedHeader(header).sign(this.#key);
  }

  #respond(request: IncomingMessage, response: ServerResponse): void {
    this.requests.push(request.url ?? '');
    if (!this.isDown && this.#handle !== null) return this.#handle(request, response);
    response.writeHead(503, { 'content-type': 'text/plain' }).end('down for maintenance');
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

export async function startIdentityProvider(): Promise<TestIdentityProvider> {
  const { privateKey } = await generateKeyPair('ES256', { extractable: true });
  const jwk = { ...(await exportJWK(privateKey)), kid: KEY_ID, use: 'sig', alg: 'ES256' };
  const provider = new TestIdentityProvider(privateKey, jwk);
  await provider.open();
  return provider;
}
