/** Routes of the service itself: health, readiness, metrics, the API reference. They need no API key. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { type Unready, UNREADY_CODES, unreadySentence } from '../core/unready.ts';
import { bearerToken } from './access.ts';
import { type HttpFailure, JSON_TYPE, sendFailure } from './errors.ts';
import { type BuiltFile, compressedFile, sendBuiltFile } from './dashboard/built-files.ts';
import { Handbook, registerHandbookRoutes } from './dashboard/handbook-routes.ts';
import { type ReferenceSource, renderLlmsText } from './openapi/reference-page.ts';
import { doc, failure } from './schemas.ts';
import type { App, HttpServices } from './services.ts';

const PLAIN_TEXT = 'text/plain; charset=utf-8';
const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

const OPENAPI_FILE = new URL('../../docs/openapi.json', import.meta.url);

const healthSchema = z.object({ status: z.literal('ok') }).meta({ id: 'Health' });
const readinessSchema = z
  .object({
    status: z.literal('ok'),
    warnings: doc(
      z.array(z.string()).optional(),
      'Problems that do not prevent service. Absent when there are none.',
    ),
    on_hold: z.literal(true).optional().meta({
      description:
        'True for a restored installation before its release. It accepts mail and sends none.',
    }),
  })
  .meta({ id: 'Readiness' });

const unreadySchema = failure
  .extend({
    status: z.literal('unready'),
    reasons: doc(
      z.array(
        z.object({
          code: z.enum(UNREADY_CODES).describe('Stable code of the reason.'),
          message: z.string().meta({
            description: 'One sentence that says what is wrong and what to do.',
            examples: ['The disk is nearly full; free some disk space.'],
          }),
        }),
      ),
      'All reasons, each with its own code.',
    ),
  })
  .meta({ id: 'Unready', description: 'Reasons why no mail is accepted.' });

export function registerServiceRoutes(app: App, services: HttpServices): void {
  app.get('/healthz', {
    config: { access: 'public' },
    schema: {
      summary: 'Is the process alive?',
      description:
        'Returns 200 while the process serves requests. It does not depend on the database.',
      operationId: 'getHealth',
      tags: ['Service'],
      response: { 200: healthSchema },
    },
    handler: () => ({ status: 'ok' as const }),
  });

  app.get('/readyz', {
    config: { access: 'public' },
    schema: {
      summary: 'Would an email be accepted?',
      description:
        'Returns 200 while an email would be accepted and sent, and otherwise 503 with all reasons. The ' +
        'state is checked in the background and is at most a few seconds old, so the response does not wait ' +
        'for the database.',
      operationId: 'getReadiness',
      tags: ['Service'],
      response: { 200: readinessSchema, 503: unreadySchema },
    },
    handler: async (_request, reply) => {
      const reasons = services.unready();
      if (reasons.length > 0) return sendUnready(reply, reasons);
      const warnings = services.readyWarnings();
      return {
        status: 'ok' as const,
        ...(warnings.length > 0 && { warnings: [...warnings] }),
        ...(services.isOnHold() && { on_hold: true as const }),
      };
    },
  });

  const handbook = new Handbook();
  registerHandbookRoutes(app, handbook);
  registerReference(app, handbook);
  registerMetrics(app, services);
}

function sendUnready(reply: FastifyReply, unready: readonly Unready[]): FastifyReply {
  const reasons = unready.map((cause) => ({ code: cause.code, message: unreadySentence(cause) }));
  const isAccepting = unready.every((cause) => cause.isAccepting === true);
  const message = `No mail is ${isAccepting ? 'sent' : 'accepted'}: ${unready.map(({ reason }) => reason).join('; ')}.`;
  const notReady: HttpFailure = { status: 503, code: 'service_unavailable', message };
  return sendFailure(reply, { ...notReady, extraFields: { status: 'unready', reasons } });
}

/** The API for programs and language models. */
function registerReference(app: App, handbook: Handbook): void {
  const publicRoute = { config: { access: 'public' }, schema: { hide: true } } as const;
  // One of each, which all responses share.
  let openApi: BuiltFile | null = null;
  let llmsText: BuiltFile | null = null;
  app.get('/openapi.json', {
    ...publicRoute,
    handler: async (_request, reply) => {
      openApi ??= await compressedFile(JSON_TYPE, await readFile(OPENAPI_FILE));
      return sendBuiltFile(reply, openApi);
    },
  });
  app.get('/llms.txt', {
    ...publicRoute,
    handler: async (_request, reply) => {
      llmsText ??= await compressedFile(PLAIN_TEXT, await renderLlms(handbook));
      return sendBuiltFile(reply, llmsText);
    },
  });
}

/** The operations of the API, and the pages of the handbook if it is built. */
async function renderLlms(handbook: Handbook): Promise<Buffer> {
  const source = JSON.parse(await readFile(OPENAPI_FILE, 'utf8')) as ReferenceSource;
  const pages = await handbook.file('llms.txt');
  const texts = [renderLlmsText(source), ...(pages === null ? [] : [pages.content.toString()])];
  return Buffer.from(texts.join('\n'));
}

/** Serves metrics to clients with the token. Without a configured token the path does not exist. */
function registerMetrics(app: App, { config, metricsText }: HttpServices): void {
  if (config.metricsToken === null) return;
  const expected = digest(config.metricsToken);
  app.get('/metrics', {
    config: { access: 'public' },
    schema: { hide: true },
    handler: async (request, reply) => {
      const token = bearerToken(request.headers.authorization);
      // Digests have equal length, so the comparison discloses nothing about the token.
      const isExpected = token !== null && timingSafeEqual(digest(token), expected);
      if (!isExpected) return sendFailure(reply, WRONG_TOKEN);
      return reply.header('content-type', PROMETHEUS_TEXT).send(await metricsText());
    },
  });
}

const WRONG_TOKEN: HttpFailure = {
  status: 401,
  code: 'authentication_error',
  message:
    'The token for metrics is missing or wrong. Send LETTERHAUS_METRICS_TOKEN as Authorization: Bearer ' +
    '<token>.',
};

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
