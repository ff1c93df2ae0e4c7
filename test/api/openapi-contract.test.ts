/**
 * The service keeps the OpenAPI document: requests generated from its schemas never get a 5xx, a status that is not
 * documented for the operation, or a body that breaks its schema.
 */
import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import fc from 'fast-check';
import { UNKNOWN_ID } from '../support/api.ts';
import { FromSchema, type JsonSchema } from '../support/from-schema.ts';
import { sharedService } from '../support/shared-service.ts';

type Media = { schema: JsonSchema };
type Parameter = {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  schema: JsonSchema;
};
type Operation = {
  operationId: string;
  security?: object[];
  parameters?: Parameter[];
  requestBody?: { required?: boolean; content: Record<string, Media> };
  responses: Record<string, { content?: Record<string, Media> }>;
};
type Document = {
  paths: Record<string, Record<string, Operation>>;
  components: { schemas: Record<string, JsonSchema> };
};
type Request = {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: string | null;
};

const REQUESTS_PER_OPERATION = 25;
/** It stays open, and has tests of its own. */
const STREAM = 'text/event-stream';

const document = JSON.parse(
  await readFile(new URL('../../docs/openapi.json', import.meta.url), 'utf8'),
) as Document;
const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ ...operation, method, path })),
);

const service = await sharedService();

/** Ids of what the requests have made, by collection, so that later ones find something. */
const made = new Map<string, string[]>();
const collectionOf = (path: string) => path.split(/[/?]/)[2] ?? '';
let collection = '';
const known = {
  strings: [
    'hello@acme.test',
    'delivered@simulator.test',
    'acme.test',
    'https://acme.test/hooks',
    'latest',
    '',
  ],
  ids: () => [UNKNOWN_ID, ...(made.get(collection)?.slice(-3) ?? [])],
  fields: {
    from: ['hello@acme.test', 'Acme <hello@acme.test>'],
    to: ['delivered@simulator.test', ['bounced@simulator.test', 'jo@example.com']],
    url: ['https://acme.test/hooks'],
  },
};
const { schemas } = document.components;
const wellFormed = new FromSchema(schemas, { known, breaks: false });
const broken = new FromSchema(schemas, { known, breaks: true });

const ajv = new Ajv2020({ strict: false, validateFormats: false, inlineRefs: false });
ajv.addSchema({ $id: 'openapi', components: document.components });

/** Compiled once for each schema of the document, not for each response: that took 5 s of CPU time. */
const validators = new Map<JsonSchema, ValidateFunction>();

function validatorOf(schema: JsonSchema): ValidateFunction {
  const present = validators.get(schema);
  if (present !== undefined) return present;
  const text = JSON.stringify(schema).replaceAll('"#/components', '"openapi#/components');
  const validate = ajv.compile(JSON.parse(text) as object);
  validators.set(schema, validate);
  return validate;
}

/** @returns what is wrong with a body; null: nothing */
function problemOf(schema: JsonSchema, body: unknown): string | null {
  const validate = validatorOf(schema);
  return validate(body) ? null : ajv.errorsText(validate.errors);
}

function requestOf(
  { method, path, parameters = [], requestBody }: (typeof operations)[number],
  from: FromSchema,
): fc.Arbitrary<Request> {
  const part = (place: Parameter['in']) => {
    const own = parameters.filter((one) => one.in === place);
    const required = own.filter((one) => one.required).map(({ name }) => name);
    const properties = Object.fromEntries(own.map(({ name, schema }) => [name, schema]));
    return from.objectOf(properties, required).map(asTexts);
  };
  const [type, media] = Object.entries(requestBody?.content ?? {})[0] ?? [];
  const body =
    media === undefined
      ? fc.constant(null)
      : type === 'application/json'
        ? // The domain that a first start makes; that of the examples is not verified.
          from
            .valueOf(media.schema)
            .map((value) => JSON.stringify(value).replaceAll('@acme.com', '@acme.test'))
        : from.valueOf(media.schema).map(asText);
  return fc
    .record({ path: part('path'), query: part('query'), headers: part('header'), body })
    .map((values): Request => {
      const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) =>
        segment(values.path[name] ?? ''),
      );
      const query = new URLSearchParams(values.query);
      const headers = Object.entries(values.headers);
      return {
        method: method.toUpperCase(),
        path: `${filled}?${query.toString()}`,
        headers: {
          authorization: `Bearer ${service.testKey}`,
          ...Object.fromEntries(headers.map(([name, value]) => [name, printable(value)])),
          ...(type !== undefined && { 'content-type': type }),
        },
        body: values.body,
      };
    });
}

/** In a path, a query, a header. */
const asText = (value: unknown) =>
  (typeof value === 'string' ? value : JSON.stringify(value)).toWellFormed();
const asTexts = (values: Record<string, unknown>): Record<string, string> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, asText(value)]));

/** Nothing, `.` and `..` would make a path of another operation (RFC 3986 §5.2.4). */
const segment = (text: string) => (/^\.{0,2}$/.test(text) ? '-' : encodeURIComponent(text));

/** Drops characters that fetch refuses in the value of a header. */
const printable = (text: string) => text.replace(/[^!-~]/g, '') || 'x';

/** Operations that did what was asked at least once. */
const succeeded = new Set<string>();

for (const operation of operations) {
  test(`${operation.operationId} responds to every request as it is documented`, async () => {
    const documented = { ...operation.responses };
    collection = collectionOf(operation.path);
    const either = fc.oneof(requestOf(operation, wellFormed), requestOf(operation, broken));
    await fc.assert(
      fc.asyncProperty(either, async ({ path, ...request }) => {
        const response = await fetch(new URL(path, service.url), request);
        const type = response.headers.get('content-type')?.split(';')[0] ?? '';
        assert.ok(response.status < 500 || response.status === 503, `${response.status}`);
        assert.ok(String(response.status) in documented, `${response.status} is not documented`);
        if (response.ok) succeeded.add(operation.operationId);
        if (type === STREAM) return response.body?.cancel();
        const text = await response.text();
        const { content } = documented[response.status]!;
        if (content === undefined) return assert.equal(text, '');
        assert.ok(content[type], `${type} is not documented for ${response.status}`);
        if (type !== 'application/json') return;
        const body = JSON.parse(text) as { id?: string };
        assert.equal(problemOf(content[type].schema, body), null, text);
        if (response.ok && request.method === 'POST' && body.id !== undefined) {
          made.set(collection, [...(made.get(collection) ?? []), body.id]);
        }
      }),
      { numRuns: REQUESTS_PER_OPERATION },
    );
  });
}

test('a body is required where the service refuses a request without one', async () => {
  let optional = 0;
  for (const { method, path, security, requestBody, operationId } of operations) {
    const isForKeys = security === undefined || security.some((one) => 'bearerAuth' in one);
    if (!isForKeys || !requestBody?.content['application/json']) continue;
    const { status } = await service.request(
      method.toUpperCase(),
      path.replaceAll(/\{\w+\}/g, UNKNOWN_ID),
    );
    assert.equal([400, 422].includes(status), requestBody.required === true, operationId);
    if (requestBody.required !== true) optional += 1;
  }
  assert.ok(optional > 3, String(optional));
});

test('most operations succeed: the generated requests are not all refused', () => {
  // About 70 % of those that take a key succeed, differently in each run.
  const withKey = operations.filter(({ security }) => security === undefined);
  assert.ok(succeeded.size > 0.5 * withKey.length, [...succeeded].join());
});
