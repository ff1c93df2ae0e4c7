/**
 * Routes of shared emails: `POST /v1/emails/:id/share` makes a public link to a rendered email; the other is its page.
 * The dashboard shows the same page in a frame, by a link that lasts a minute.
 *
 * The html is a customer's, so the page is sandboxed: it runs no script and has no origin. Viewing it does not count
 * as an open, because it shows the html of the request, not of the sent message.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { z } from 'zod';
import { type ColourScheme, COLOUR_SCHEMES, inScheme } from '../mail/html/colour-scheme.ts';
import { inertHtml } from '../mail/html/inert-html.ts';
import { isRefusal, type Refusal, refuseFields, noSuch } from '../core/refusals.ts';
import { makeShareToken, readShareToken, SHARE } from '../mail/links/share-link.ts';
import { emailToWire } from './wire.ts';
import { emailExists, type EmailDetail } from './email-store.ts';
import { callerOf } from '../http/access.ts';
import { respondWithEmail } from './inspection/http-content-reads.ts';
import { refuse } from '../http/errors.ts';
import { strangersPolicy } from '../http/dashboard/html-page.ts';
import { failures, idParams } from '../http/schemas.ts';
import { emailPreview, SHARED_FOR_S, sharedEmail, sharing } from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import { PAGE_HEADERS, renderPage } from '../http/dashboard/recipient-page.ts';
import { refOf } from './routes.ts';

const HEADERS = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-dns-prefetch-control': 'off',
  'x-robots-tag': 'noindex, nofollow',
} as const;

export function registerShareRoutes(app: App, services: HttpServices): void {
  registerSharing(app, services);
  registerPreview(app, services);
  registerPage(app, services);
}

function registerSharing(app: App, services: HttpServices): void {
  app.post('/v1/emails/:id/share', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Share an email by a link',
      description:
        'Creates a link to the content of an email as in the request, without scripts. Anyone with the link ' +
        'can see it. The link expires and cannot be revoked before. A sending-only key can share only emails ' +
        'that it sent.',
      operationId: 'shareEmail',
      tags: ['Emails'],
      params: idParams('email'),
      body: sharing,
      response: { 200: sharedEmail, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { expires_in: periodS = null } = request.body;
      const link = await share(services, request, { periodS, example: '86400' });
      if (isRefusal(link)) return refuse(reply, link);
      return { object: 'email' as const, ...link };
    },
  });
}

/** A GET, because nothing is stored, and a viewer can read the content by other routes. */
function registerPreview(app: App, services: HttpServices): void {
  app.get('/v1/emails/:id/preview', {
    config: { access: 'session' },
    schema: {
      summary: 'Create a preview link for one minute',
      description:
        'Creates a link that shows the email for one minute. The dashboard shows it in a frame.',
      operationId: 'previewEmail',
      tags: ['Emails'],
      security: BY_SESSION,
      params: idParams('email'),
      response: { 200: emailPreview, ...failures(404) },
    },
    handler: async (request, reply) => {
      if (request.caller === null) return refuse(reply, noSuch('email'));
      const wanted = { periodS: SHARED_FOR_S.min, example: '' };
      const link = await share(services, request, wanted);
      if (isRefusal(link)) return refuse(reply, link);
      return { object: 'email_preview' as const, ...link };
    },
  });
}

type Link = { id: string; url: string; expires_at: string };

/**
 * Makes a link to the email in the path.
 * @param wanted.periodS null: the longest; NaN: not a period
 * @param wanted.example a valid period in the request's format
 */
export async function share(
  { db, config, localUrl, secrets, world }: HttpServices,
  request: FastifyRequest<{ Params: { id: string } }>,
  wanted: { periodS: number | null; example: string },
): Promise<Link | Refusal> {
  const ref = refOf(request);
  if (!ref || !(await emailExists(db, ref))) return noSuch('email');
  const periodS = wanted.periodS ?? SHARED_FOR_S.max;
  if (!(periodS >= SHARED_FOR_S.min && periodS <= SHARED_FOR_S.max)) {
    const message = `must be 1 minute to 48 hours, like ${wanted.example}`;
    return refuseFields([{ field: 'expires_in', message }]);
  }
  const { projectId, environment } = callerOf(request);
  const expiresAtS = Math.floor(world.now() / 1000 + periodS);
  const token = makeShareToken(
    { projectId, environment, emailId: ref.id, expiresAtS },
    secrets.derive(SHARE),
  );
  const url = `${config.publicUrl ?? localUrl}/s/${token}`;
  return { id: ref.id, url, expires_at: new Date(expiresAtS * 1000).toISOString() };
}

function registerPage(app: App, { db, secrets, world }: HttpServices): void {
  app.get('/s/:token', {
    config: { access: 'public', isForRecipients: true },
    schema: {
      hide: true,
      params: z.object({ token: z.string() }),
      querystring: z.object({ remote: z.string().optional(), scheme: z.string().optional() }),
    },
    handler: async (request, reply) => {
      const shared = readShareToken(request.params.token, secrets.deriveAll(SHARE));
      if (shared === null || shared.expiresAtS * 1000 <= world.now()) return sendGone(reply);
      const { emailId: id, ...scope } = shared;
      const ref = { ...scope, id, keyId: null, domain: null };
      // Readers of links queue separately, so they do not delay the project's own reads.
      const owner = `links of ${scope.projectId}`;
      // ?remote=no blocks remote content, which would notify a stranger (the dashboard's frame). ?scheme=dark or
      // light renders the html like a mail program with that scheme.
      const remote = request.query.remote !== 'no';
      const scheme = COLOUR_SCHEMES.find((one) => one === request.query.scheme);
      const show = async (email: EmailDetail) => {
        const shown = await pageOf(email, { remote, scheme });
        if (shown)
          reply.headers({ ...HEADERS, 'content-security-policy': strangersPolicy({ remote }) });
        return shown;
      };
      const isSent = await respondWithEmail({ db, owner, reply }, ref, show);
      return isSent ? reply : sendGone(reply);
    },
  });
}

/** Returns null when there is nothing to show. */
async function pageOf(
  email: EmailDetail,
  { remote, scheme }: { remote: boolean; scheme: ColourScheme | undefined },
): Promise<{ type: string; text: string } | null> {
  const { html, text } = emailToWire(email);
  if (!html) return text ? { type: 'text/plain; charset=utf-8', text } : null;
  await nextTurn();
  const inert = inertHtml(html, { remote });
  await nextTurn();
  const shown = scheme ? inScheme(inert, scheme) : inert;
  return { type: 'text/html; charset=utf-8', text: shown };
}

function sendGone(reply: FastifyReply): FastifyReply {
  const text = ['It has expired, or the email was removed. Ask its sender for another link.'];
  const page = { status: 404, title: 'This link is no longer valid', text };
  return reply.code(page.status).headers(PAGE_HEADERS).send(renderPage(page));
}
