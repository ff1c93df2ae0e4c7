/**
 * Routes of signing in with the identity provider. The dashboard begins with `POST /v1/session/oidc/start`, and sends
 * the browser to the provider. The provider sends the browser back to CALLBACK_PATH, which passes the response on to
 * the dashboard. So the request that ends the sign-in comes from this site, like all others that begin a session.
 */
import { z } from 'zod';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import { refuse } from '../../http/errors.ts';
import { failures } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { session as sessionSchema, totpOrRecoveryCode } from '../sessions/schemas.ts';
import { CALLBACK_PATH } from './identity-provider.ts';
import { sendNewSession } from '../sessions/routes.ts';

const TAGS = ['Session'];
const RESPONSE_CHARACTERS_MAX = 8_192;

const NO_PROVIDER: Refusal = {
  refused: 'not_found',
  message: 'This installation has no identity provider; sign in with a password.',
};

export function registerOidcRoutes(app: App, services: HttpServices): void {
  registerStart(app, services);
  registerFinish(app, services);
  registerCallback(app);
}

function registerStart(app: App, { accounts }: HttpServices): void {
  app.post('/v1/session/oidc/start', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Begin to sign in with the identity provider',
      description:
        'Returns the URL of the identity provider to open in this browser, and sets a cookie for ten minutes. ' +
        'Returns 404 when the installation has no identity provider, and 503 while the provider does not respond.',
      operationId: 'startOidcSignIn',
      tags: TAGS,
      security: [],
      response: { 200: begun, ...failures(400, 404) },
    },
    handler: async (_request, reply) => {
      const { oidc, sessions } = accounts;
      if (oidc === null) return refuse(reply, NO_PROVIDER);
      const start = await oidc.begin();
      if (isRefusal(start)) return refuse(reply, start);
      sessions.setProgressCookie(reply, start.progress);
      return { object: 'oidc_sign_in' as const, url: start.url };
    },
  });
}

function registerFinish(app: App, services: HttpServices): void {
  app.post('/v1/session/oidc', {
    config: { access: 'sign_in' },
    schema: {
      summary: 'Sign in with the identity provider',
      description:
        'Ends a sign-in with the response of the identity provider, starts a session and sets its cookie. A 401 with ' +
        'the code `totp_required` means that the member has a second factor. Repeat the request with `code`.',
      operationId: 'signInWithOidc',
      tags: TAGS,
      security: [],
      body: oidcResponse,
      response: { 200: sessionSchema, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { oidc, sessions } = services.accounts;
      if (oidc === null) return refuse(reply, NO_PROVIDER);
      const origin = sessions.originOf(request);
      const finished = await oidc.finish(request.body, origin, sessions.readProgress(request));
      sessions.setProgressCookie(reply, finished.progress);
      return sendNewSession(finished.result, services, request, reply);
    },
  });
}

/** Without a check: what the provider sent is checked when the dashboard sends it. */
function registerCallback(app: App): void {
  app.get(CALLBACK_PATH, {
    config: { access: 'public' },
    schema: { hide: true },
    handler: (request, reply) => {
      const queryAt = request.url.indexOf('?');
      const query = queryAt === -1 ? '' : request.url.slice(queryAt + 1);
      reply.headers({ 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' });
      return reply.redirect(`/dashboard/sign-in#oidc=${encodeURIComponent(query)}`);
    },
  });
}

const begun = z
  .object({
    object: z.literal('oidc_sign_in'),
    url: z.string().meta({
      description: 'URL of the identity provider, for this browser only.',
      examples: ['https://login.example.com/authorize?client_id=letterhaus&state=…'],
    }),
  })
  .meta({ id: 'OidcSignInBegun' });

const oidcResponse = z
  .strictObject({
    response: z
      .string()
      .max(RESPONSE_CHARACTERS_MAX)
      .meta({
        description: `Query with which the provider opened ${CALLBACK_PATH}.`,
        examples: ['code=Ft3pVbGzvYk2wqS1&state=m0n8cJxHdR5aLuE7TiOQe9ZfK4A'],
      }),
    code: totpOrRecoveryCode.optional(),
  })
  .meta({ id: 'OidcResponse' });
