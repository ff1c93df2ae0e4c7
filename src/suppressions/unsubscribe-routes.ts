/**
 * Routes of hosted unsubscribe links (RFC 8058): `/u/<token>`, outside of /v1 and without a key. Recipients open them,
 * and mail programs send the one-click request.
 *
 * RFC 8058 requires mail programs to POST to the link. Only its token counts: a body of any type and encoding, or
 * none, unsubscribes.
 *
 * Guarantees: GET and HEAD change nothing and do not use the database, because scanners follow links. POST suppresses
 * only the address in the token and may be repeated without limit. It can be undone a few times a day. Forged tokens
 * are refused first.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Overloaded } from '../core/refusals.ts';
import {
  UNSUBSCRIBE,
  type Unsubscriber,
  UnsubscribeTokens,
} from '../mail/links/unsubscribe-link.ts';
import { DatabaseUnavailable } from '../database/database.ts';
import { addUnsubscribed, findSuppression, removeSuppression } from './suppression-store.ts';
import type { App, HttpServices } from '../http/services.ts';
import { wholeBodyParser } from '../http/socket/bodies.ts';
import {
  confirmationPage,
  UNAVAILABLE_PAGE,
  unsubscribedPage,
  unchangedPage,
  stillUnsubscribedPage,
  TOO_LARGE_PAGE,
  resubscribedPage,
} from './http-unsubscribe-page.ts';
import {
  BAD_LINK_PAGE,
  PAGE_HEADERS,
  type RecipientPage,
  renderPage,
} from '../http/dashboard/recipient-page.ts';

/** In any encoding, `List-Unsubscribe=One-Click` is shorter. */
const BODY_MAX_BYTES = 16 * 1024;
const RETRY_AFTER_S = 30;
/** Limit for each address: each undoing adds a history entry, an event and webhooks. Unsubscribing is not limited. */
const UNDONE_PER_DAY_MAX = 5;

type LinkParams = { token: string };

declare module 'fastify' {
  interface FastifyRequest {
    unsubscriber: Unsubscriber | null;
    /** The body has the type of the page's form. */
    isUnsubscribeForm: boolean;
  }
}

export function registerUnsubscribeRoutes(app: App, services: HttpServices): void {
  const config = { access: 'public', isForRecipients: true, takesAnyBody: true } as const;
  const schema = { hide: true };

  // A scope of its own, because no other route accepts such bodies or responds in HTML.
  app.register(async (scope: App) => {
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      '*',
      wholeBodyParser((_request, bytes, done) => done(null, bytes)),
    );
    refuseForgedLinks(scope, services);
    scope.setErrorHandler((error: Error & { code?: string }, _request, reply) => {
      const page = pageOfError(error);
      // Other errors are bugs, handled as on every route.
      if (page === null) throw error;
      return sendPage(reply, page);
    });

    scope.get('/u/:token', {
      config,
      schema,
      handler: (request, reply) => sendPage(reply, confirmationPage(unsubscriberOf(request))),
    });

    scope.post('/u/:token', {
      config,
      schema,
      bodyLimit: BODY_MAX_BYTES,
      handler: async (request, reply) => {
        const unsubscriber = unsubscriberOf(request);
        const page = wantsUndo(request)
          ? await undo(services, unsubscriber)
          : await unsubscribe(services, unsubscriber);
        return sendPage(reply, page);
      },
    });
  });
}

/** Checks the token before the body is read, so that a forged link needs no memory. */
function refuseForgedLinks(scope: App, { secrets }: HttpServices): void {
  scope.decorateRequest('unsubscriber', null);
  scope.decorateRequest('isUnsubscribeForm', false);
  scope.addHook('onRequest', (request, reply, done) => {
    const tokens = new UnsubscribeTokens(secrets.deriveAll(UNSUBSCRIBE));
    request.unsubscriber = tokens.read((request.params as LinkParams).token);
    if (request.unsubscriber === null) return void sendPage(reply, BAD_LINK_PAGE);
    request.isUnsubscribeForm = replaceContentType(request);
    done();
  });
}

function unsubscriberOf({ unsubscriber }: FastifyRequest): Unsubscriber {
  if (unsubscriber === null) throw new Error('the token of the link was not checked');
  return unsubscriber;
}

async function unsubscribe(
  { db }: HttpServices,
  unsubscriber: Unsubscriber,
): Promise<RecipientPage> {
  const { suppression } = await addUnsubscribed(db, unsubscriber, unsubscriber);
  return unsubscribedPage(unsubscriber, { canUndo: suppression.reason === 'unsubscribe' });
}

/** Removes a suppression that such a link added. The recipient cannot undo one with another reason. */
async function undo({ db }: HttpServices, unsubscriber: Unsubscriber): Promise<RecipientPage> {
  const { address } = unsubscriber;
  await removeSuppression(db, unsubscriber, {
    address,
    by: 'recipient',
    reasons: ['unsubscribe'],
    perDayMax: UNDONE_PER_DAY_MAX,
  });
  const left = await findSuppression(db, unsubscriber, address);
  if (left === null) return resubscribedPage(unsubscriber);
  return left.reason === 'unsubscribe'
    ? stillUnsubscribedPage(unsubscriber)
    : unchangedPage(unsubscriber);
}

/**
 * Replaces the content type, because Fastify refuses invalid types (`text`, `;`).
 * @returns whether the body is a form
 */
function replaceContentType({ headers }: FastifyRequest): boolean {
  const { 'content-type': type, 'content-encoding': encoding } = headers;
  if (type === undefined) return false;
  headers['content-type'] = 'application/octet-stream';
  return encoding === undefined && /^application\/x-www-form-urlencoded\b/i.test(type);
}

/** Only the form of the page sends this. Every other POST unsubscribes. */
function wantsUndo({ body, isUnsubscribeForm }: FastifyRequest): boolean {
  if (!isUnsubscribeForm || !Buffer.isBuffer(body)) return false;
  return new URLSearchParams(body.toString('utf8')).get('action') === 'undo';
}

function pageOfError(error: Error & { code?: string }): RecipientPage | null {
  if (error.code === 'FST_ERR_CTP_BODY_TOO_LARGE') return TOO_LARGE_PAGE;
  return error instanceof DatabaseUnavailable || error instanceof Overloaded
    ? UNAVAILABLE_PAGE
    : null;
}

function sendPage(reply: FastifyReply, page: RecipientPage): FastifyReply {
  if (page.status === 503) reply.header('retry-after', RETRY_AFTER_S);
  return reply.code(page.status).headers(PAGE_HEADERS).send(renderPage(page));
}
