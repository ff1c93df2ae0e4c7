/**
 * The client of the identity provider (OpenID Connect Core 1.0, code flow). Every sign-in has PKCE, a state and a
 * nonce, and the signature of the ID token is verified. `openid-client` does this; it is loaded with the first sign-in,
 * so workers do not pay for it at their start.
 *
 * The provider is the operator's choice, so its address is not restricted. Each of its responses is at most 256 KiB,
 * within ten seconds, without redirects. A wrong response becomes a refusal with a sentence, and a line in the log.
 */
import type * as OpenIdClient from 'openid-client';
import type { Logger } from 'pino';
import type { OidcConfig } from '../../config/oidc.ts';
import type { Refusal } from '../../core/refusals.ts';
import type { World } from '../../lib/world.ts';
import { readBody } from '../../net/http/response-body.ts';
import { type Account, lacksClaims, readAccount } from './claims.ts';

/** Random values of a sign-in, which are remembered until the provider sends the browser back. */
export type Flow = { state: string; nonce: string; verifier: string };

/** The redirect URI to register with the provider, below the public URL. */
export const CALLBACK_PATH = '/auth/oidc/callback';

const TIMEOUT_S = 10;
const RESPONSE_BYTES_MAX = 256 * 1024;
/** The clocks of provider and service may differ by this much. */
const CLOCK_TOLERANCE_S = 60;
/** How long the provider's metadata is used. Its keys are read again whenever one is missing. */
const METADATA_VALID_MS = 60 * 60_000;
const LOGGED_CHARACTERS_MAX = 300;

type Options = {
  config: OidcConfig;
  redirectUri: string;
  world: Pick<World, 'monotonicMs'>;
  log: Pick<Logger, 'warn'>;
};

type Connection = { library: typeof OpenIdClient; client: OpenIdClient.Configuration };

export class IdentityProvider {
  readonly #options: Options;
  #connection: { atMs: number; promise: Promise<Connection> } | null = null;

  constructor(options: Options) {
    this.#options = options;
  }

  /** Returns the URL of the provider to which the browser goes. */
  async begin(): Promise<{ url: string; flow: Flow } | Refusal> {
    const { config, redirectUri } = this.#options;
    try {
      const { library, client } = await this.#connect();
      const flow = {
        state: library.randomState(),
        nonce: library.randomNonce(),
        verifier: library.randomPKCECodeVerifier(),
      };
      const url = library.buildAuthorizationUrl(client, {
        redirect_uri: redirectUri,
        scope: config.scope,
        state: flow.state,
        nonce: flow.nonce,
        code_challenge: await library.calculatePKCECodeChallenge(flow.verifier),
        code_challenge_method: 'S256',
      });
      return { url: url.href, flow };
    } catch (error) {
      return this.#refusalOf(error);
    }
  }

  /**
   * Exchanges the code for an ID token, and verifies it.
   * @param response the query with which the provider sent the browser back
   */
  async finish(response: string, { state, nonce, verifier }: Flow): Promise<Account | Refusal> {
    const { config, redirectUri } = this.#options;
    try {
      const { library, client } = await this.#connect();
      const url = new URL(redirectUri);
      url.search = response;
      const tokens = await library.authorizationCodeGrant(client, url, {
        expectedState: state,
        expectedNonce: nonce,
        pkceCodeVerifier: verifier,
        idTokenExpected: true,
      });
      const idToken = tokens.claims();
      if (idToken === undefined) return this.#invalidResponse('there is no ID token');
      const asksMore =
        client.serverMetadata().userinfo_endpoint !== undefined &&
        lacksClaims(idToken, config.roles === null ? null : config.groupsClaim);
      const userInfo = asksMore
        ? await library.fetchUserInfo(client, tokens.access_token, idToken.sub)
        : {};
      return readAccount({ idToken, userInfo }, config.groupsClaim);
    } catch (error) {
      return this.#refusalOf(error);
    }
  }

  /** Requests at once share one discovery. A failed one is not kept. */
  #connect(): Promise<Connection> {
    const nowMs = this.#options.world.monotonicMs();
    const known = this.#connection;
    if (known !== null && nowMs - known.atMs < METADATA_VALID_MS) return known.promise;
    const promise = connect(this.#options.config);
    const connection = { atMs: nowMs, promise };
    this.#connection = connection;
    promise.catch(() => {
      if (this.#connection === connection) this.#connection = null;
    });
    return promise;
  }

  #refusalOf(error: unknown): Refusal {
    const { name } = this.#options.config;
    const { code, cause, error: oauthError } = error as Error & { code?: string; error?: string };
    if (code === 'OAUTH_AUTHORIZATION_RESPONSE_ERROR') {
      const reason = oauthError === 'access_denied' ? 'denied access' : 'did not sign you in';
      return refusal(`${name} ${reason}. Begin again, or ask the administrator of ${name}.`);
    }
    if (isOutage(error)) {
      this.#logProblem(error);
      const message = `${name} does not respond. Try again in a moment, or sign in with your password.`;
      return { refused: 'service_unavailable', message };
    }
    if (code === 'OAUTH_JWT_TIMESTAMP_CHECK_FAILED') {
      this.#logProblem(error);
      return refusal(
        `The clocks of ${name} and of this service differ by more than ${CLOCK_TOLERANCE_S} seconds; ask the operator to set them.`,
      );
    }
    return this.#invalidResponse(error ?? cause);
  }

  #invalidResponse(problem: unknown): Refusal {
    this.#logProblem(problem);
    const { name } = this.#options.config;
    return refusal(
      `The response of ${name} is not valid for this sign-in. Begin again; the service's log has the reason.`,
    );
  }

  /** Names codes and messages of the library and the provider. Neither contains a token. */
  #logProblem(problem: unknown): void {
    const { issuer } = this.#options.config;
    const reason = reasonsOf(problem).join(': ').slice(0, LOGGED_CHARACTERS_MAX);
    this.#options.log.warn(
      { event: 'oidc.failed', issuer, reason, remedy: 'docs/sign-in.md lists the reasons' },
      'a sign-in with the identity provider failed',
    );
  }
}

function refusal(message: string): Refusal {
  return { refused: 'authentication_error', message };
}

async function connect(config: OidcConfig): Promise<Connection> {
  const library = await import('openid-client');
  const issuer = new URL(config.issuer);
  const isClear = issuer.protocol === 'http:';
  const client = await library.discovery(
    issuer,
    config.clientId,
    { [library.clockTolerance]: CLOCK_TOLERANCE_S },
    clientAuthentication(library, config.clientSecret),
    {
      execute: [
        library.enableNonRepudiationChecks,
        ...(isClear ? [library.allowInsecureRequests] : []),
      ],
      timeout: TIMEOUT_S,
      [library.customFetch]: boundedFetch,
    },
  );
  return { library, client };
}

/** Sends the secret as the provider wants it: in a header unless it only takes the body (OpenID Connect Core §9). */
function clientAuthentication(
  library: typeof OpenIdClient,
  secret: string | null,
): OpenIdClient.ClientAuth {
  if (secret === null) return library.None();
  const [basic, post] = [library.ClientSecretBasic(secret), library.ClientSecretPost(secret)];
  return (server, ...request) => {
    const methods = server.token_endpoint_auth_methods_supported ?? ['client_secret_basic'];
    return (methods.includes('client_secret_basic') ? basic : post)(server, ...request);
  };
}

async function boundedFetch(
  url: string,
  options: OpenIdClient.CustomFetchOptions,
): Promise<Response> {
  const response = await fetch(url, { ...options, redirect: 'manual' } as RequestInit);
  const { status, headers } = response;
  const body = await readBody(response, RESPONSE_BYTES_MAX);
  return new Response(body.length === 0 ? null : body, { status, headers });
}

/** Returns whether the provider could not be reached, or fails itself: no token was refused. */
function isOutage(error: unknown): boolean {
  const { name, cause, code } = error as Error & { code?: string };
  if (name === 'TimeoutError' || error instanceof TypeError) return true;
  if (code === 'OAUTH_TIMEOUT' || code === 'OAUTH_ABORT') return true;
  return cause instanceof Response && cause.status >= 500;
}

function reasonsOf(problem: unknown): string[] {
  if (typeof problem === 'string') return [problem];
  if (!(problem instanceof Error)) return [];
  const { error, error_description: description } = problem as Error & {
    error?: string;
    error_description?: string;
  };
  const own = [problem.message, error, description].filter((text) => typeof text === 'string');
  return [...own, ...reasonsOf(problem.cause)];
}
