/** Routes about the service itself: health, readiness, metrics. No API key is needed. */
import { createHash, timingSafeEqual } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { bearerToken } from '../access.ts';
import { type HttpProblem, JSON_TYPE, sendProblem } from '../errors.ts';
import { failure } from '../schemas/common.ts';
import type { App, HttpServices } from '../services.ts';

const PROMETHEUS_TEXT = 'text/plain; version=0.0.4; charset=utf-8';

const OPENAPI = new URL('../../../docs/openapi.json', import.meta.url);

const state = z.object({ status: z.literal('ok') });

export function registerServiceRoutes(app: App, services: HttpServices): void {
  app.get('/healthz', {
    config: { access: 'public' },
    schema: {
      summary: 'Is the process alive?',
      operationId: 'getHealth',
      tags: ['Service'],
      response: { 200: state },
    },
    handler: () => ({ status: 'ok' as const }),
  });

  app.get('/readyz', {
    config: { access: 'public' },
    schema: {
      summary: 'Can requests be served: is the database available and migrated?',
      operationId: 'getReadiness',
      tags: ['Service'],
      response: { 200: state, 503: failure },
    },
    handler: async (_request, reply) => {
      const problem = services.isStopping() ? 'The service is stopping.' : await services.isReady();
      if (problem === null) return { status: 'ok' as const };
      return sendProblem(reply, { status: 503, code: 'service_unavailable', message: problem });
    },
  });

  // One buffer, shared by all responses.
  let openApi: Buffer | null = null;
  app.get('/openapi.json', {
    config: { access: 'public' },
    schema: { hide: true },
    handler: async (_request, reply) => {
      openApi ??= await readFile(OPENAPI);
      return reply.header('content-type', JSON_TYPE).send(openApi);
    },
  });

  registerMetrics(app, services);
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
    'Metrics need their token; send POSTHORN_METRICS_TOKEN as Authorization: Bearer <token>.',
};

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
