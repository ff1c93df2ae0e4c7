/**
 * Generates the OpenAPI 3.1 document from the zod schemas of the routes. The service serves the copy in
 * docs/openapi.json, because generating takes a quarter of a second; a test compares the two.
 */
import { STATUS_CODES } from 'node:http';
import { isDeepStrictEqual } from 'node:util';
import swagger from '@fastify/swagger';
import { jsonSchemaTransform, jsonSchemaTransformObject } from 'fastify-type-provider-zod';
import type { ZodType } from 'zod';
import { createHttpAccounts } from '../../accounts/http-accounts.ts';
import { DEFAULT_LIMITS } from '../../core/limits.ts';
import { DEFAULT_RETENTION } from '../../core/retention.ts';
import { buildApp } from '../app.ts';
import {
  isNull,
  isObject,
  type Json,
  type JsonObject,
  mapValues,
  simplifySchema,
} from './simplify-schema.ts';
import { KEY_ONLY_OPERATIONS } from '../roles.ts';
import { FAILURES } from '../schemas.ts';
import type { App, HttpServices } from '../services.ts';

const DESCRIPTION = `Letterhaus sends transactional email and reports what happened to each recipient.

Every request carries \`Authorization: Bearer <API key>\`. A key belongs to one project and one
environment; with a test key everything works the same and nothing is delivered. Every failure has
one shape, \`{"error": {"code", "message", "request_id"}}\`, and every response has X-Request-Id.

The dashboard uses the same operations with a session instead of a key: it names project and environment in
\`Letterhaus-Project\` and \`Letterhaus-Environment\`, and sends \`Letterhaus-Session: 1\` with every change.`;

/** Placeholders: the routes are registered here but never called. */
const PLACEHOLDERS = {
  db: {},
  config: {
    metricsToken: null,
    trustedProxies: [],
    limits: DEFAULT_LIMITS,
    retention: DEFAULT_RETENTION,
  },
  log: { info: () => {} },
  world: { monotonicMs: () => 0 },
  attachmentUrls: { stop: () => {} },
  certificate: null,
} as unknown as Omit<HttpServices, 'accounts'>;

const TAGS = {
  Emails: 'Send email, follow its delivery, cancel and reschedule it.',
  Events: 'Events in commit order, as pages or as a stream that stays open.',
  Queue:
    'Waiting mail by provider, with the reason why it waits. Hold, release, retry and drop it.',
  Stats: 'Numbers of emails by outcome.',
  Findings: 'Findings of the dashboard that members snoozed. Not for API keys.',
  Domains: 'Sending domains and the DNS records that they need.',
  Webhooks: 'Endpoints that receive events, their deliveries, and replays.',
  Templates: 'Email contents with variables, in versions.',
  Suppressions: 'Addresses that receive no email.',
  'API keys': 'Keys of this API, with their permissions.',
  Projects: 'Projects own keys, domains and emails.',
  Session: 'Sessions of the dashboard: sign in, sign out, change the password. Not for API keys.',
  Members: 'Members of the organization, and invitations. Not for API keys.',
  'API log': 'Log of failed requests and of changes.',
  'Audit log': 'Log of changes and their actors. Not for API keys.',
  Operator: 'The installation as a whole. Not for API keys.',
  Service: 'Health and readiness of the service.',
};

const INTEGER = { type: 'integer' } as const;
const LIMIT_HEADERS = {
  'RateLimit-Limit': { description: 'Requests per window.', schema: INTEGER },
  'RateLimit-Remaining': { description: 'Requests left in this window.', schema: INTEGER },
  'RateLimit-Reset': { description: 'Seconds until the window ends.', schema: INTEGER },
  'Retry-After': { description: 'Seconds to wait before the next request.', schema: INTEGER },
};

const REF = '#/components/schemas/';
/** The generator names a schema `X` in responses and `XInput` in requests. */
const INPUT_NAME = /Input$/;

type Operation = {
  operationId: string;
  security?: object[];
  requestBody?: { required?: boolean };
  responses: Record<string, Response>;
  'x-body-is-optional'?: boolean;
};
type Response = { description: string; headers?: object };
type Document = Parameters<typeof tidyOpenApi>[0];

export async function generateOpenApi(): Promise<object> {
  const services = { ...PLACEHOLDERS, accounts: createHttpAccounts(PLACEHOLDERS) };
  const app = buildApp(services, { beforeRoutes: registerSwagger });
  await app.ready();
  const document = JSON.parse(JSON.stringify(app.swagger())) as Document;
  await app.close();
  for (const [path, operations] of Object.entries(document.paths)) {
    for (const operation of Object.values(operations as object)) {
      completeOperation(path, operation as Operation);
    }
  }
  return withExamples(tidyOpenApi(document));
}

function registerSwagger(app: App): void {
  void app.register(swagger, {
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'Letterhaus',
        version: '1',
        description: DESCRIPTION,
        license: { name: 'MIT', url: 'https://opensource.org/license/mit' },
      },
      servers: [
        { url: 'http://127.0.0.1:3000', description: 'The default address of `letterhaus start`.' },
      ],
      components: {
        securitySchemes: {
          bearerAuth: { type: 'http', scheme: 'bearer' },
          sessionCookie: { type: 'apiKey', in: 'cookie', name: 'letterhaus_session' },
        },
        headers: LIMIT_HEADERS,
      },
      security: [{ bearerAuth: [] }, { sessionCookie: [] }],
      tags: Object.entries(TAGS).map(([name, description]) => ({ name, description })),
    },
    transform: (route) => {
      const { schema, url } = jsonSchemaTransform(route);
      const isOptional = acceptsEmptyBody(route.schema?.body as ZodType | undefined);
      return { url, schema: isOptional ? { ...schema, 'x-body-is-optional': true } : schema };
    },
    transformObject: jsonSchemaTransformObject,
  });
}

/**
 * Returns whether the route accepts `{}`, which stands for an empty body (http/access.ts); not with
 * `minProperties`.
 */
function acceptsEmptyBody(body: ZodType | undefined): boolean {
  if (body === undefined || body.meta()?.['minProperties'] !== undefined) return false;
  return body.safeParse({}).success;
}

function completeOperation(path: string, operation: Operation): void {
  if (!path.startsWith('/v1/')) operation.security = [];
  if (operation['x-body-is-optional'] && operation.requestBody)
    operation.requestBody.required = false;
  delete operation['x-body-is-optional'];
  if (KEY_ONLY_OPERATIONS.has(operation.operationId)) operation.security = [{ bearerAuth: [] }];
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

type OpenApi = JsonObject & { paths: JsonObject; components: { schemas: JsonObject } };

function tidyOpenApi(document: OpenApi): OpenApi {
  const { schemas } = document.components;
  const tidySchemas: JsonObject = {};
  for (const name of usedSchemaNames(document.paths, schemas)) {
    const schema = withShortNames(
      tidySchema(schemas[name] ?? {}, { isInput: INPUT_NAME.test(name) }),
    );
    const shortName = name.replace(INPUT_NAME, '');
    if (
      tidySchemas[shortName] !== undefined &&
      !isDeepStrictEqual(tidySchemas[shortName], schema)
    ) {
      throw new Error(`${shortName} differs in requests: give that schema an id of its own.`);
    }
    tidySchemas[shortName] = schema;
  }
  return {
    ...document,
    paths: simplifySchema(withShortNames(tidyPaths(document.paths))) as JsonObject,
    components: { ...document.components, schemas: mapValues(tidySchemas, simplifySchema) },
  };
}

/** Gives each body of a request, and of a success, an example made of the examples of its fields. */
function withExamples(document: OpenApi): OpenApi {
  const { schemas } = document.components;
  const addExample = (body: Json | undefined): void => {
    if (!isObject(body) || !isObject(body['content'])) return;
    for (const media of Object.values(body['content'])) {
      if (isObject(media)) media['example'] ??= exampleOf(media['schema'] ?? {}, schemas);
    }
  };
  for (const operation of Object.values(document.paths).flatMap((path) =>
    isObject(path) ? Object.values(path) : [],
  )) {
    if (!isObject(operation) || !isObject(operation['responses'])) continue;
    addExample(operation['requestBody']);
    for (const [status, response] of Object.entries(operation['responses'])) {
      if (Number(status) < 300) addExample(response);
    }
  }
  return document;
}

function exampleOf(schema: Json, schemas: JsonObject): Json {
  if (!isObject(schema)) return null;
  if (typeof schema['$ref'] === 'string') {
    return exampleOf(schemas[schema['$ref'].slice(REF.length)] ?? {}, schemas);
  }
  const { examples, enum: values, properties, items } = schema;
  const alternatives = schema['anyOf'] ?? schema['oneOf'];
  if (Array.isArray(examples)) return examples[0] ?? null;
  if (schema['default'] !== undefined) return schema['default'];
  if (Array.isArray(values)) return values[0] ?? null;
  if (Array.isArray(alternatives)) return exampleOf(alternatives[0] ?? {}, schemas);
  if (items !== undefined) return [exampleOf(items, schemas)];
  if (isObject(properties)) return mapValues(properties, (inner) => exampleOf(inner, schemas));
  const type = Array.isArray(schema['type']) ? schema['type'][0] : schema['type'];
  if (type === 'string') return 'text';
  if (type === 'integer' || type === 'number') return schema['minimum'] ?? 1;
  return type === 'boolean' ? true : {};
}

function usedSchemaNames(paths: JsonObject, schemas: JsonObject): string[] {
  const used = new Set<string>();
  const addReferenced = (from: Json): void => {
    for (const [, name = ''] of JSON.stringify(from).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (used.has(name)) continue;
      used.add(name);
      addReferenced(schemas[name] ?? {});
    }
  };
  addReferenced(paths);
  return [...used].toSorted();
}

/** Replaces references to `EmailCreationInput` with references to `EmailCreation`. */
function withShortNames<Part extends Json>(part: Part): Part {
  const text = JSON.stringify(part).replaceAll(/("#\/components\/schemas\/\w+?)Input"/g, '$1"');
  return JSON.parse(text) as Part;
}

function tidyPaths(paths: JsonObject): JsonObject {
  return mapValues(paths, (operations) =>
    mapValues(operations, (operation) =>
      mapValues(operation, (part, name) => tidySchema(part, { isInput: name !== 'responses' })),
    ),
  );
}

function tidySchema(schema: Json, direction: { isInput: boolean }): Json {
  if (Array.isArray(schema)) return schema.map((inner) => tidySchema(inner, direction));
  if (!isObject(schema)) return schema;
  const nonNull = schema['x-null-is-absent'] === true ? withoutNull(schema) : schema;
  const { 'x-null-is-absent': _absent, propertyNames: _names, ...plain } = nonNull;
  // Clients must accept new fields in responses.
  if (!direction.isInput && plain['additionalProperties'] === false) {
    delete plain['additionalProperties'];
  }
  return mapValues(plain, (inner) => tidySchema(inner, direction));
}

/** Removes null, which is accepted for clients that cannot omit a field and is not documented. */
function withoutNull(schema: JsonObject): JsonObject {
  const { type, anyOf, ...fields } = schema;
  if (Array.isArray(type)) return { type: type.find((name) => name !== 'null') ?? null, ...fields };
  const others = Array.isArray(anyOf) ? anyOf.filter((alternative) => !isNull(alternative)) : [];
  const [onlyAlternative] = others;
  if (others.length === 1 && isObject(onlyAlternative)) return { ...onlyAlternative, ...fields };
  return { anyOf: others, ...fields };
}
