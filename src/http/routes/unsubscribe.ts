/**
 * Hosted unsubscribe links (RFC 8058): `/u/<token>`, outside of /v1 and without a key, for people and
 * for the mail programs that press the button for them.
 *
 * Promise: GET and HEAD change nothing and ask no database, however many scanners follow links. POST
 * suppresses only the address that the token names, as often as it comes; taken back it
 * is a few times a day. A token that
 * was not made here is refused before anything else happens.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Overloaded } from '../../core/refusals.ts';
import { UNSUBSCRIBE, type Unsubscriber, UnsubscribeTokens } from '../../mail/unsubscribe-link.ts';
import { DatabaseUnavailable } from '../../store/postgres/database.ts';
import { addSuppression, findSuppression, removeSuppression } from '../../store/suppressions.ts';
import type { App, HttpServices } from '../services.ts';
import { wholeBody } from '../bodies.ts';
import {
  askPage,
  AWAY_PAGE,
  BAD_LINK_PAGE,
  donePage,
  keptPage,
  type Page,
  PAGE_HEADERS,
  renderPage,
  stillDonePage,
  TOO_MUCH_PAGE,
  undonePage,
} from '../unsubscribe-page.ts';

/** `List-Unsubscribe=One-Click`, in whatever wrapping. */
const BODY_MAX_BYTES = 16 * 1024;
const RETRY_AFTER_S = 30;
/**
 * Of an address: each is an entry of the history, an event and webhooks. Unsubscribing is never
 * refused.
 */
const UNDONE_PER_DAY_MAX = 5;

type LinkParams = { token: string };

declare module 'fastify' {
  interface FastifyRequest {
    /** Who the link of this request names. */
    unsubscriber: Unsubscriber | null;
  }
}

export function registerUnsubscribeRoutes(app: App, services: HttpServices): void {
  const tokens = () => new UnsubscribeTokens(services.secrets.deriveAll(UNSUBSCRIBE));
  const config = { access: 'public' } as const;
  const schema = { hide: true };

  // A scope of its own: no other route takes such bodies, or answers in HTML.
  app.register(async (scope: App) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      '*',
      wholeBody((_request, bytes, done) => done(null, bytes)),
    );
    // Before the body is read: who made up a link has nothing to say.
    scope.decorateRequest('unsubscriber', null);
    scope.addHook('onRequest', (request, reply, done) => {
      request.unsubscriber = tokens().read((request.params as LinkParams).token);
      if (request.unsubscriber === null) return void sendPage(reply, BAD_LINK_PAGE);
      done();
    });
    scope.setErrorHandler((error: Error & { code?: string }, _request, reply) => {
      const page = pageOfError(error);
      // All others are bugs, answered as everywhere.
      if (page === null) throw error;
      return sendPage(reply, page);
    });

    scope.get('/u/:token', {
      config,
      schema,
      handler: (request, reply) => sendPage(reply, askPage(namedBy(request))),
    });

    scope.post('/u/:token', {
      config,
      schema,
      bodyLimit: BODY_MAX_BYTES,
      handler: async (request, reply) => {
        const who = namedBy(request);
        const page = wantsUndo(request) ? await undo(services, who) : await note(services, who);
        return sendPage(reply, page);
      },
    });
  });
}

function namedBy({ unsubscriber }: FastifyRequest): Unsubscriber {
  if (unsubscriber === null) throw new Error('a link without a valid token came through');
  return unsubscriber;
}

async function note({ db }: HttpServices, who: Unsubscriber): Promise<Page> {
  const { suppression } = await addSuppression(db, who, {
    address: who.address,
    reason: 'unsubscribe',
    sourceEmailId: who.emailId,
    expiresAt: null,
    by: 'recipient',
  });
  return donePage(who, { canUndo: suppression.reason === 'unsubscribe' });
}

/** Takes back what such a link did. What a server or the sender said is not the recipient's to undo. */
async function undo({ db }: HttpServices, who: Unsubscriber): Promise<Page> {
  const { address } = who;
  await removeSuppression(db, who, {
    address,
    by: 'recipient',
    reasons: ['unsubscribe'],
    perDayMax: UNDONE_PER_DAY_MAX,
  });
  const left = await findSuppression(db, who, address);
  if (left === null) return undonePage(who);
  return left.reason === 'unsubscribe' ? stillDonePage(who) : keptPage(who);
}

/** Only our own form says so; everything else that is posted here unsubscribes. */
function wantsUndo({ body, headers }: FastifyRequest): boolean {
  const isForm = /^application\/x-www-form-urlencoded\b/i.test(headers['content-type'] ?? '');
  if (!isForm || !Buffer.isBuffer(body)) return false;
  return new URLSearchParams(body.toString('utf8')).get('action') === 'undo';
}

function pageOfError(error: Error & { code?: string }): Page | null {
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return TOO_MUCH_PAGE;
  return error instanceof DatabaseUnavailable || error instanceof Overloaded ? AWAY_PAGE : null;
}

function sendPage(reply: FastifyReply, page: Page): FastifyReply {
  if (page.status === 503) reply.header('retry-after', RETRY_AFTER_S);
  return reply.code(page.status).headers(PAGE_HEADERS).send(renderPage(page));
}
