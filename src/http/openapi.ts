/**
 * The OpenAPI 3.1 document, generated from the zod schemas that check the requests. The service
 * serves the copy in docs/openapi.json: generating takes a quarter of a second, and a test shows
 * that the copy is what would be generated.
 */
import { STATUS_CODES } from 'node:http';
import swagger from '@fastify/swagger';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import { DEFAULT_LIMITS } from '../core/limits.ts';
import { buildApp } from './app.ts';
import { tidyOpenApi } from './openapi-schemas.ts';
import { FAILURES } from './schemas/common.ts';
import type { App, HttpServices } from './services.ts';

const DESCRIPTION = `Posthorn sends transactional email and tells what happened to each recipient.

Every request carries \`Authorization: Bearer <API key>\`. A key belongs to one project and one
environment; with a test key everything works the same and nothing is delivered. Every failure has
one shape, \`{"error": {"code", "message", "request_id"}}\`, and every response has X-Request-Id.`;

type Operation = { security?: object[]; responses: Record<string, Response> };
type Response = { description: string; headers?: object };
type Document = Parameters<typeof tidyOpenApi>[0];

export async function generateOpenApi(): Promise<object> {
  const app = buildApp(NO_SERVICES, { beforeRoutes: registerSwagger });
  await app.ready();
  const document = JSON.parse(JSON.stringify(app.swagger())) as Document;
  await app.close();
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const operation of Object.values(operations as object)) {
      describe(path, operation as Operation);
    }
  }
  return tidyOpenApi(document);
}

/** Routes are only registered here, never called. */
const NO_SERVICES = {
  config: { metricsToken: null, trustedProxies: [], limits: DEFAULT_LIMITS },
  log: { info: () => {} },
  world: { monotonicMs: () => 0 },
  certificate: null,
} as unknown as HttpServices;

function registerSwagger(app: App): void {
  void app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: { title: 'Posthorn', version: '1', description: DESCRIPTION },
      components: {
        securitySchemes: { apiKey: { type: 'http', scheme: 'bearer' } },
        headers: LIMIT_HEADERS,
      },
      security: [{ apiKey: [] }],
      tags: TAGS.map((name) => ({ name })),
    },
    transform: jsonSchemaTransform,
    transformObject: jsonSchemaTransformObject,
  });
}

const TAGS = ['Emails', 'Domains', 'Webhooks', 'Suppressions', 'API keys', 'Projects', 'Service'];

const seconds = { type: 'integer' } as const;
const LIMIT_HEADERS = {
  'RateLimit-Limit': { description: 'Requests per window.', schema: seconds },
  'RateLimit-Remaining': { description: 'Requests left in this window.', schema: seconds },
  'RateLimit-Reset': { description: 'Seconds until the window ends.', schema: seconds },
  'Retry-After': { description: 'Seconds to wait.', schema: seconds },
};

/** What every operation of its kind has, so that no route has to say it. */
function describe(path: string, operation: Operation): void {
  if (!path.startsWith('/v1/')) operation.security = [];
  for (const [status, response] of Object.entries(operation.responses)) {
    if (response.description === 'Default Response') {
      const known: Readonly<Record<string, string>> = FAILURES;
      response.description = known[status] ?? STATUS_CODES[status] ?? '';
    }
    const names = status === '429' ? Object.keys(LIMIT_HEADERS) : [];
    if (status === '503') names.push('Retry-After');
    if (names.length === 0) continue;
    response.headers = Object.fromEntries(
      names.map((name) => [name, { $ref: `#/components/headers/${name}` }]),
    );
  }
}
