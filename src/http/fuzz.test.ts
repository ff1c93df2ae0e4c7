/**
 * Generated requests to the server with stubs behind it: none may cause a 5xx. test/api/openapi-contract.test.ts has
 * generated requests to a whole service.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { stubHttp } from '../../test/support/http.ts';
import { CHARACTER, URL_PART, WEB_URL } from '../../test/support/characters.ts';

const http = await stubHttp();
after(() => http[Symbol.asyncDispose]());

/** Drawn anew in each run. The long run is `npm run fuzz`: 10,000 bodies through the same app. */
const RUNS = 300;

/** Ordinary strings, and strings that have broken other mail services. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: CHARACTER }),
  fc.constantFrom(
    'a@b.co',
    'A <a@b.co>',
    '"',
    '\r\nBcc: x@y.org',
    '\0',
    '\u202e',
    '=?utf-8?B?AAA?=',
  ),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'x'.repeat(2_000), '💥', '\ud800'),
  fc.emailAddress(),
);
const anything = fc.oneof(text, fc.jsonValue({ maxDepth: 3 }));
const list = fc.oneof(text, fc.array(text, { maxLength: 5 }), anything);
const optional = (value: fc.Arbitrary<unknown>) => fc.option(value, { nil: undefined });

const email = fc.record({
  from: anything,
  to: list,
  subject: anything,
  html: optional(anything),
  text: optional(anything),
  cc: optional(list),
  bcc: optional(list),
  reply_to: optional(list),
  headers: optional(fc.oneof(fc.dictionary(text, text), anything)),
  attachments: optional(
    fc.array(fc.oneof(fc.record({ filename: text, content: text, content_type: text }), anything)),
  ),
  tags: optional(fc.array(fc.oneof(fc.record({ name: text, value: text }), anything))),
  metadata: optional(fc.oneof(fc.dictionary(text, text), anything)),
  expires_in: optional(fc.oneof(fc.integer(), fc.double(), anything)),
  unsubscribe: optional(fc.oneof(WEB_URL, fc.boolean(), anything)),
  tls: optional(fc.oneof(fc.constantFrom('enforced', 'opportunistic'), anything)),
  tracking: optional(anything),
});

const PATH_EXAMPLES: [string[], never[]][] = [
  [['v1', 'domains'], []],
  [['v1', 'emails'], []],
  [['v1', 'events'], []],
  [['v1', 'webhooks'], []],
];

async function checkResponse(response: Response): Promise<void> {
  const body = (await response.json()) as { error?: { code: string; message: string } };
  assert.ok(response.status < 500, JSON.stringify(body));
  if (response.status >= 400) assert.ok(body.error?.code && body.error.message);
}

test('generated bodies never cause a 5xx', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof({ weight: 3, arbitrary: email }, anything), async (body) => {
      await checkResponse(await http.post('/v1/emails', JSON.stringify(body) ?? ''));
    }),
    { numRuns: RUNS },
  );
});

const PIECES = [
  '{',
  '}',
  '[',
  ']',
  '"',
  ':',
  ',',
  '\\',
  'null',
  '1e999',
  '-',
  'tru',
  ' ',
  '"from"',
  '"to":"a@b.co"',
  '\\u0000',
  '\\ud800',
  '__proto__',
  '\n',
  'é',
];

test('malformed JSON texts never cause a 5xx', async () => {
  const piece = fc.constantFrom(...PIECES);
  await fc.assert(
    fc.asyncProperty(fc.array(piece, { maxLength: 40 }), async (pieces) => {
      await checkResponse(await http.post('/v1/emails', pieces.join('')));
    }),
    { numRuns: RUNS },
  );
});

test('generated headers never cause a 5xx', async () => {
  // The characters that fetch accepts in the value of a header.
  const value = fc.string({ unit: 'grapheme-ascii' }).map((one) => one.replace(/[^ -~]/g, ''));
  const header = fc.record({
    name: fc.constantFrom('authorization', 'content-type', 'idempotency-key', 'x-forwarded-for'),
    value: fc.oneof(
      value,
      value.map((one) => `Bearer ${one}`),
      value.map((one) => `application/json;${one}`),
    ),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(header, { maxLength: 4 }), async (headers) => {
      const named = Object.fromEntries(headers.map((one) => [one.name, one.value]));
      await checkResponse(await http.post('/v1/emails', '{}', named));
    }),
    { numRuns: RUNS },
  );
});

test('generated paths and queries never cause a 5xx', async () => {
  const part = fc.oneof(
    URL_PART,
    fc.constantFrom('v1', 'emails', 'domains', '..', '', '%00', '%2f', '%zz', 'api-keys', 'events'),
  );
  const filter = fc.constantFrom(
    'status',
    'to',
    'from',
    'tag',
    'domain',
    'after',
    'limit',
    'subject',
  );
  await fc.assert(
    fc.asyncProperty(
      fc.array(part, { maxLength: 5 }),
      fc.array(fc.tuple(filter, fc.oneof(text, URL_PART)), { maxLength: 3 }),
      async (parts, filters) => {
        const query = filters.map(
          ([name, one]) => `${name}=${encodeURIComponent(one.toWellFormed())}`,
        );
        const answer = await http.raw(
          `GET /${parts.join('/')}?${query.join('&')} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n` +
            `Authorization: Bearer ${http.keys.full}\r\n\r\n`,
        );
        assert.match(answer, /^HTTP\/1\.1 [234]/);
      },
    ),
    { numRuns: RUNS, examples: PATH_EXAMPLES },
  );
});
