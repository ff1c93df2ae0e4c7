/** Generated bodies, paths and queries, and strings that would be headers. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { assertFailure, EMAIL, UNKNOWN_ID } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { CHARACTER, WEB_URL } from '../support/characters.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

/** Drawn anew each time. The long run is `npm run fuzz`, without a database behind. */
const BODIES = 1_000;
const IN_FLIGHT = 40;

/** Strings that have caused errors in other software, and ordinary ones. */
const text = fc.oneof(
  fc.string(),
  fc.string({ unit: CHARACTER }),
  fc.string({ unit: 'grapheme' }),
  fc.emailAddress(),
  WEB_URL,
  fc.constantFrom('a@acme.test', 'A <a@acme.test>', 'delivered@simulator.test', 'b@other.test'),
  fc.constantFrom('"', "'", '\\', '${a}', '%s', '<!--', '\r\nBcc: x@y.test', '\0', '\ud800', '$1'),
  fc.constantFrom('__proto__', 'constructor', 'toString', 'x'.repeat(2_000), '💥', '\u202e', ''),
  fc.constantFrom('=?utf-8?B?AAA?=', 'application/pdf', 'aGVsbG8=', '2026-11-21T08:30:00.123Z'),
);
const anything = fc.oneof(
  text,
  fc.double(),
  fc.constantFrom(null, true, false, 0, -1, 1e308, [], {}, [[]], [null]),
  fc.jsonValue({ maxDepth: 3 }),
);
const often = <T>(arbitrary: fc.Arbitrary<T>) =>
  fc.oneof({ weight: 6, arbitrary }, { weight: 1, arbitrary: anything });
const addresses = often(fc.oneof(text, fc.array(text, { maxLength: 4 })));

const email = fc.record(
  {
    from: often(fc.oneof(fc.constantFrom('a@other.test', 'A <b@other.test>'), text)),
    to: addresses,
    subject: often(text),
    html: often(text),
    text: often(text),
    cc: addresses,
    bcc: addresses,
    reply_to: addresses,
    headers: often(fc.dictionary(text, often(text))),
    attachments: often(
      fc.array(
        often(
          fc.record(
            { filename: text, content: text, content_type: text, content_id: text, path: text },
            { requiredKeys: ['filename', 'content'] },
          ),
        ),
        { maxLength: 3 },
      ),
    ),
    tags: often(fc.array(often(fc.record({ name: text, value: text })), { maxLength: 3 })),
    metadata: often(fc.dictionary(text, often(text))),
    expires_in: often(fc.integer({ min: 60, max: 432_000 })),
    unsubscribe: often(WEB_URL),
    tls: often(fc.constantFrom('opportunistic', 'enforced')),
    tracking: often(fc.record({ opens: fc.boolean() })),
    scheduled_at: anything,
    template: anything,
    [UNKNOWN_ID]: anything,
  },
  { requiredKeys: ['from', 'to', 'subject', 'html'] },
);

/** Bodies that reach the database, with a domain that is not verified. */
const almostGood = fc.record(
  {
    from: fc.constantFrom('a@other.test', 'Ünï <b@other.test>'),
    to: fc.array(fc.emailAddress(), { minLength: 1, maxLength: 3 }),
    subject: fc.string({ unit: 'grapheme', minLength: 1 }),
    html: fc.string({ unit: CHARACTER, minLength: 1 }).map((one) => one.replaceAll('\0', '')),
    metadata: fc.dictionary(fc.string(), fc.string({ unit: 'grapheme' })),
    tags: fc.array(fc.record({ name: fc.constant('a'), value: fc.constant('b') })),
  },
  { requiredKeys: ['from', 'to', 'subject', 'html'] },
);

const body = fc.oneof(
  { weight: 5, arbitrary: email },
  { weight: 3, arbitrary: almostGood },
  { weight: 1, arbitrary: anything },
);

/** Samples with their seed in front, so that a failure can be seen again. */
function samplesOf<T>(arbitrary: fc.Arbitrary<T>, numRuns: number): { seed: number; values: T[] } {
  const seed = Math.floor(Math.random() * 2 ** 31);
  return { seed, values: fc.sample(arbitrary, { numRuns, seed }) };
}

/** Works through all values, many at once. */
async function forAll<T>(values: readonly T[], work: (value: T) => Promise<void>): Promise<void> {
  const queue = values.values();
  const worker = async () => {
    for (const value of queue) await work(value);
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, worker));
}

/** A refusal has the same shape for every request. */
function assertRefused(response: ApiResponse, what: () => string): void {
  assert.ok(response.status >= 400 && response.status < 500, `${response.status} to ${what()}`);
  assert.ok(response.body?.error?.code && response.body.error.message, what());
}

const TABLES = ['emails', 'recipients', 'contents', 'idempotency'];
const rows = () => Promise.all(TABLES.map((table) => service.countRows(table)));

test('generated bodies never cause a 5xx or a row', async () => {
  const before = await rows();
  const { seed, values } = samplesOf(body, BODIES);
  const codes = new Map<string, number>();
  await forAll(values, async (value) => {
    const json = JSON.stringify(value) ?? '';
    const headers = { 'idempotency-key': 'hostile' };
    const response = await service.request('POST', '/v1/emails', { body: json, headers });
    assertRefused(response, () => `${json} (seed ${seed})`);
    const { code } = response.body.error;
    codes.set(code, (codes.get(code) ?? 0) + 1);
  });
  assert.deepEqual(await rows(), before);
  // Not all of them were turned away at the door.
  assert.ok((codes.get('domain_not_verified') ?? 0) > BODIES / 20, JSON.stringify([...codes]));
  assert.equal((await service.request('GET', '/readyz', { key: null })).status, 200);
});

test('generated requests to all other endpoints never cause a 5xx', async () => {
  const { body: document } = await service.request('GET', '/openapi.json');
  const operations = Object.entries(document.paths as Record<string, object>).flatMap(
    ([path, methods]) => Object.keys(methods).map((method) => ({ method, path })),
  );
  const filters = ['limit', 'after', 'before', 'status', 'to', 'from', 'subject', 'tag', 'domain'];
  const names = fc.constantFrom(...filters, 'created_after', 'created_before', 'x');
  const value = fc.oneof(text, fc.constantFrom('1', '-1', '0', UNKNOWN_ID, '9999999999999999999'));
  const requests = fc.record({
    operation: fc.constantFrom(...operations),
    id: fc.oneof(fc.constant(UNKNOWN_ID), text),
    query: fc.array(fc.tuple(names, value), { maxLength: 3 }),
    body: fc.oneof(
      fc.record(
        { name: text, url: fc.oneof(text, WEB_URL), domain: text, status: text },
        { requiredKeys: [] },
      ),
      fc.record({
        name: text,
        permission: text,
        expires_at: fc.oneof(text, fc.constant('+275760-09-13T00:00:00Z')),
      }),
      fc.record({ since: text, until: text, events: fc.array(text) }),
      anything,
    ),
  });
  const { seed, values } = samplesOf(requests, 1_000);
  await forAll(values, async ({ operation: { method, path }, id, query, body: sent }) => {
    const encoded = (one: string) => encodeURIComponent(one.toWellFormed()).replaceAll('.', '%2E');
    const filled = path.replaceAll(/\{\w+\}/g, encoded(id) || 'x');
    const search = query.map(([name, one]) => `${name}=${encoded(one)}`).join('&');
    const json = method === 'get' ? undefined : (JSON.stringify(sent) ?? '');
    const options = json === undefined ? {} : { body: json };
    const response = await service.request(method.toUpperCase(), `${filled}?${search}`, options);
    const what = () => `${response.status} to ${method} ${filled}?${search} ${json} (seed ${seed})`;
    assert.ok(response.status < 500, what());
    if (response.status >= 400) assertRefused(response, what);
  });
});

test('accepted texts are returned unchanged', async () => {
  const printable = fc
    .string({ unit: 'grapheme', minLength: 1, maxLength: 200 })
    .filter((one) => !/[\p{Cc}\p{Cs}]/u.test(one));
  const content = fc
    .string({ unit: CHARACTER, minLength: 1 })
    .map((one) => one.toWellFormed().replaceAll('\0', '?'));
  const good = fc.record({
    subject: printable,
    html: content,
    text: content,
    // The one name that JavaScript takes for something else is refused.
    metadata: fc.dictionary(
      printable.filter((one) => one !== '__proto__'),
      content,
      { maxKeys: 5 },
    ),
  });
  // Earlier requests may have changed the first project, for example suppressed the recipient.
  const project = await service.otherProject();
  await project.addTestDomain('acme.test');
  const { seed, values } = samplesOf(good, 300);
  await forAll(values, async ({ metadata, ...texts }) => {
    const sent = { ...texts, metadata: { ...metadata } };
    const what = `${JSON.stringify(sent)} (seed ${seed})`;
    const response = await project.request('POST', '/v1/emails', { body: { ...EMAIL, ...sent } });
    assert.equal(response.status, 202, `${response.text} to ${what}`);
    const { subject, html, text: plain, metadata: kept } = await project.email(response.body.id);
    assert.deepEqual({ subject, html, text: plain, metadata: kept }, sent, what);
  });
});

/** Every string that ends in a header, with the field's name in the response. */
const HEADER_BOUND: [string, (injected: string) => object, RegExp][] = [
  ['the name of from', (x) => ({ from: `Acme${x} <a@acme.test>` }), /^from: /],
  ['the address of from', (x) => ({ from: `a${x}@acme.test` }), /^from: /],
  ['the domain of from', (x) => ({ from: `a@acme.test${x}` }), /^from: /],
  ['to', (x) => ({ to: `a@b.test${x}` }), /^to: /],
  ['one of to', (x) => ({ to: ['a@b.test', `Jo${x} <a@b.test>`] }), /^to\[1\]: /],
  ['cc', (x) => ({ cc: [`"Jo${x}" <a@b.test>`] }), /^cc\[0\]: /],
  ['bcc', (x) => ({ bcc: `${x}a@b.test` }), /^bcc: /],
  ['reply_to', (x) => ({ reply_to: `a@b.test${x}` }), /^reply_to: /],
  ['subject', (x) => ({ subject: `Hi${x}Bcc: a@b.test` }), /^subject: /],
  ['the name of a header', (x) => ({ headers: { [`X-A${x}Bcc`]: 'a@b.test' } }), /^headers\./],
  [
    'the value of a header',
    (x) => ({ headers: { 'X-A': `b${x}Bcc: a@b.test` } }),
    /^headers\.X-A: /,
  ],
  ['a filename', (x) => attachment({ filename: `a${x}.txt` }), /^attachments\[0\]\.filename: /],
  ['a content type', (x) => attachment({ content_type: `a/b${x}` }), /\.content_type: /],
  ['a content id', (x) => attachment({ content_id: `a${x}b` }), /\.content_id: /],
  ['the name of a tag', (x) => ({ tags: [{ name: `a${x}`, value: 'b' }] }), /^tags\[0\]\.name: /],
  ['the value of a tag', (x) => ({ tags: [{ name: 'a', value: `b${x}` }] }), /^tags\[0\]\.value: /],
  ['unsubscribe', (x) => ({ unsubscribe: `https://acme.test/${x}` }), /^unsubscribe: /],
];

function attachment(change: object): object {
  return { attachments: [{ filename: 'a.txt', content: 'aGk=', ...change }] };
}

const C0_AND_DEL = [...Array(32).keys(), 127].map((code) => String.fromCharCode(code));
const INJECTIONS = ['\r\n', '\r\n ', '\n\n', '\r\nBcc: a@b.test\r\n', ...C0_AND_DEL];

for (const [what, change, message] of HEADER_BOUND) {
  test(`a control character in ${what} is refused`, async () => {
    const before = await rows();
    await forAll(INJECTIONS, async (injected) => {
      const sent = { ...EMAIL, ...change(injected) };
      const response = await service.request('POST', '/v1/emails', { body: sent });
      const says = injected.includes('\0') ? /NUL/ : message;
      assertFailure(response, 422, 'validation_error', says);
    });
    assert.deepEqual(await rows(), before);
  });
}
