/**
 * Routes of the links of tracked emails: `/t/<token>`, outside of /v1 and without a key, for recipients and their mail
 * programs. A link redirects to its target. The pixel of an open is an image.
 *
 * Guarantees: only tokens of this installation get a response, so nobody can redirect to other targets. The response
 * does not need the database, because the visit is recorded in memory (visits.ts). No cookie is set, and the referrer
 * does not disclose the link to the target.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TrackedLink, TRACKING, TrackingTokens } from '../mail/links/tracking-link.ts';
import type { Visit } from './visits.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BAD_LINK_PAGE, PAGE_HEADERS, renderPage } from '../http/dashboard/recipient-page.ts';

const HEADERS = {
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-robots-tag': 'noindex, nofollow',
} as const;

const PIXEL = Buffer.from('R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7', 'base64');

export function registerTrackingRoutes(app: App, services: HttpServices): void {
  app.get('/t/:token', {
    config: { access: 'public', isForRecipients: true },
    schema: { hide: true },
    handler: (request, reply) => {
      const tokens = new TrackingTokens(services.secrets.deriveAll(TRACKING));
      const link = tokens.read((request.params as { token: string }).token);
      if (link === null) return sendBadLink(reply);
      services.visits.add(visitOf(request, link));
      reply.headers(HEADERS);
      if (link.target === null) return reply.type('image/gif').send(PIXEL);
      return reply.redirect(link.target, 302);
    },
  });
}

const PURPOSES = ['sec-purpose', 'purpose', 'x-moz'] as const;

function visitOf({ method, headers, ip }: FastifyRequest, link: TrackedLink): Visit {
  const purpose = PURPOSES.map((name) => headers[name]).find((value) => value !== undefined);
  return {
    link,
    ip,
    isHead: method === 'HEAD',
    userAgent: headers['user-agent'] ?? null,
    purpose: purpose === undefined ? null : String(purpose),
  };
}

function sendBadLink(reply: FastifyReply): FastifyReply {
  const page = { ...BAD_LINK_PAGE, status: 400 };
  return reply.code(page.status).headers(PAGE_HEADERS).send(renderPage(page));
}
