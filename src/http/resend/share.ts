/**
 * `POST /emails/:id/share`: a link to one rendered email, for whoever has it, and the page behind it.
 *
 * The html is a customer's: the page is sandboxed, so that it runs no script and has no origin. Nothing is
 * counted as an open, since the html is that of the request, not of the message that was sent.
 */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { type Refusal, refuseFields } from '../../core/refusals.ts';
import { makeShareToken, readShareToken, SHARE } from '../../mail/share-link.ts';
import { presentEmail } from '../../sending/present.ts';
import { emailExists, findEmail } from '../../store/emails.ts';
import { callerOf } from '../access.ts';
import { notFound, refuse } from '../errors.ts';
import { refOf } from '../routes/emails.ts';
import type { App, HttpServices } from '../services.ts';
import { PAGE_HEADERS, renderPage } from '../unsubscribe-page.ts';
import { readPeriodMs } from './email-wire.ts';
import { HIDDEN, idInPath } from './wire.ts';

const HOUR_MS = 3_600_000;
const BY_DEFAULT_MS = 24 * HOUR_MS;
const LONGEST_MS = 48 * HOUR_MS;
const SHORTEST_MS = 60_000;

const HEADERS = {
  'content-security-policy':
    "sandbox; default-src 'none'; img-src https: data:; font-src https:; style-src 'unsafe-inline' https:",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex, nofollow',
} as const;

export function registerResendShare(app: App, services: HttpServices): void {
  registerMaking(app, services);
  registerPage(app, services);
}

function registerMaking(app: App, services: HttpServices): void {
  const { db, config, localUrl, secrets, world } = services;
  app.post('/emails/:id/share', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath, body: sharing },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (!ref || !(await emailExists(db, ref))) return notFound(reply, 'email');
      const periodMs = periodOf(request.body.expires_in);
      if (typeof periodMs !== 'number') return refuse(reply, periodMs);
      const { projectId, environment } = callerOf(request);
      const expiresAtS = Math.floor((world.now() + periodMs) / 1000);
      const shared = { projectId, environment, emailId: ref.id, expiresAtS };
      const token = makeShareToken(shared, secrets.derive(SHARE));
      return { object: 'email', id: ref.id, url: `${config.publicUrl ?? localUrl}/s/${token}` };
    },
  });
}

const sharing = z.object({ expires_in: z.union([z.string(), z.number()]).nullish() });

/** Seconds as a number, or a text like `24h`. */
function periodOf(wanted: string | number | null | undefined): number | Refusal {
  if (wanted == null) return BY_DEFAULT_MS;
  const ms = typeof wanted === 'number' ? wanted * 1000 : readPeriodMs(wanted);
  if (ms !== null && ms >= SHORTEST_MS && ms <= LONGEST_MS) return ms;
  const message = 'must be 1 minute to 48 hours, like 24h';
  return refuseFields([{ field: 'expires_in', message }]);
}

function registerPage(app: App, { db, secrets, world }: HttpServices): void {
  app.get('/s/:token', {
    config: { access: 'public' },
    schema: { ...HIDDEN, params: z.object({ token: z.string() }) },
    handler: async (request, reply) => {
      const shared = readShareToken(request.params.token, secrets.deriveAll(SHARE));
      if (shared === null || shared.expiresAtS * 1000 <= world.now()) return sendGone(reply);
      const { emailId: id, ...scope } = shared;
      const found = await findEmail(db, { ...scope, id, keyId: null, domain: null });
      const content = found && presentEmail(found);
      const type = content?.html ? 'text/html' : 'text/plain';
      const shown = content?.html || content?.text;
      if (!shown) return sendGone(reply);
      return (reply as FastifyReply)
        .headers(HEADERS)
        .header('content-type', `${type}; charset=utf-8`)
        .send(shown);
    },
  });
}

function sendGone(reply: FastifyReply): FastifyReply {
  const text = ['It has expired, or the email was removed. Ask its sender for another link.'];
  const page = { status: 404, title: 'This link shows nothing', text };
  return reply.code(page.status).headers(PAGE_HEADERS).send(renderPage(page));
}
