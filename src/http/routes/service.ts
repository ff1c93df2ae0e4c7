/** What operators and machines ask about the service itself. No key is needed. */
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { JSON_TYPE, sendProblem } from '../errors.ts';
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
      summary: 'Can requests be served: is the database there and migrated?',
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

  // A buffer: all answers that are not read yet share its memory.
  let openApi: Buffer | null = null;
  app.get('/openapi.json', {
    config: { access: 'public' },
    schema: { hide: true },
    handler: async (_request, reply) => {
      openApi ??= await readFile(OPENAPI);
      return reply.header('content-type', JSON_TYPE).send(openApi);
    },
  });

  app.get('/metrics', {
    config: { access: 'public' },
    schema: { hide: true },
    handler: async (_request, reply) =>
      reply.header('content-type', PROMETHEUS_TEXT).send(await services.metricsText()),
  });
}
