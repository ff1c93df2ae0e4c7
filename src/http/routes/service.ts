/** Routes about the service itself: health, readiness, metrics, the API reference. No API key is needed. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { bearerToken } from '../access.ts';
import { type HttpProblem, JSON_TYPE, sendProblem } from '../errors.ts';
import {
  REFERENCE_HEADERS,
  type ReferenceSource,
  renderLlmsText,
  renderReference,
} from '../reference-page.ts';
import { failure } from '../schemas/common.ts';
import type { App, HttpServices } from '../services.ts';

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

const OPENAPI = new URL('../../../docs/openapi.json', import.meta.url);

const state = z.object({ status: z.literal('ok') });
const readyState = state.extend({
  warnings: z
    .array(z.string())
    .optional()
    .describe('What is wrong although requests can be served; absent: nothing.'),
});

export function registerServiceRoutes(app: App, services: HttpServices): void {
  app.get('/healthz', {
    config: { access: 'public' },
    schema: {
      summary: 'Is the process alive?',
      description: 'Answers as long as the process serves requests, whatever the database does.',
      operationId: 'getHealth',
      tags: ['Service'],
      response: { 200: state },
    },
    handler: () => ({ status: 'ok' as const }),
  });

  app.get('/readyz', {
    config: { access: 'public' },
    schema: {
      summary: 'Can requests be served?',
      description:
        'Whether the database can be reached and has the schema of this version, the clock of this machine is right, ' +
        'and the secret key opens the DKIM key of a live domain, if there is one.',
      operationId: 'getReadiness',
      tags: ['Service'],
      response: { 200: readyState, 503: failure },
    },
    handler: async (_request, reply) => {
      const problem = services.isStopping() ? 'The service is stopping.' : await services.isReady();
      if (problem === null) {
        const warnings = await services.readyWarnings();
        return { status: 'ok' as const, ...(warnings.length > 0 && { warnings }) };
      }
      return sendProblem(reply, { status: 503, code: 'service_unavailable', message: problem });
    },
  });

  registerReference(app);
  registerMetrics(app, services);
}

type Page = { headers: Readonly<Record<string, string>>; make: (openApi: Buffer) => Buffer };

/** What the API is: for programs, for people, for language models. Made when it is first asked for. */
const REFERENCE: Readonly<Record<string, Page>> = {
  '/openapi.json': { headers: { 'content-type': JSON_TYPE }, make: (openApi) => openApi },
  '/docs': {
    headers: REFERENCE_HEADERS,
    make: (openApi) => Buffer.from(renderReference(parsed(openApi))),
  },
  '/llms.txt': {
    headers: { 'content-type': 'text/plain; charset=utf-8' },
    make: (openApi) => Buffer.from(renderLlmsText(parsed(openApi))),
  },
};

function registerReference(app: App): void {
  for (const [path, { headers, make }] of Object.entries(REFERENCE)) {
    // One buffer, shared by all responses.
    let page: Buffer | null = null;
    app.get(path, {
      config: { access: 'public' },
      schema: { hide: true },
      handler: async (_request, reply) => {
        page ??= make(await readFile(OPENAPI));
        return reply.headers(headers).send(page);
      },
    });
  }
}

function parsed(openApi: Buffer): ReferenceSource {
  return JSON.parse(openApi.toString('utf8')) as ReferenceSource;
}

/** Requires the token; without a configured token the path does not exist. */
function registerMetrics(app: App, { config, metricsText }: HttpServices): void {
  if (config.metricsToken === null) return;
  const expected = digest(config.metricsToken);
  app.get('/metrics', {
    config: { access: 'public' },
    schema: { hide: true },
    handler: async (request, reply) => {
      const token = bearerToken(request.headers.authorization);
      // Digests have equal length, so that the comparison discloses nothing about the token.
      const isIt = token !== null && timingSafeEqual(digest(token), expected);
      if (!isIt) return sendProblem(reply, NO_TOKEN);
      return reply.header('content-type', PROMETHEUS_TEXT).send(await metricsText());
    },
  });
}

const NO_TOKEN: HttpProblem = {
  status: 401,
  code: 'authentication_error',
  message:
    'Metrics need their token; send LETTERHAUS_METRICS_TOKEN as Authorization: Bearer <token>.',
};

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
