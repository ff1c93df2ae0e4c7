/** Generated requests to the API that is compatible with Resend. src/http/fuzz.test.ts has those to our own. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { stubHttp } from '../../../test/support/http.ts';

const http = await stubHttp();
after(() => http[Symbol.asyncDispose]());

/** New random inputs in each run. `npm run fuzz` tests the parsers for longer. */
const RUNS = 300;

const text = fc.oneof(
  fc.string(),
  fc.constantFrom(
    'a@b.co',
    '',
    '\r\nBcc: x@y.org',
    '__proto__',
    '\0',
    'in 5 min',
    'in 999999 weeks',
  ),
);
const anything = fc.oneof(text, fc.jsonValue({ maxDepth: 3 }));
const list = fc.oneof(text, fc.array(text, { maxLength: 5 }), anything);
const bytes = fc.array(fc.oneof(fc.nat(255), fc.integer()), { maxLength: 50 });
const attachment = fc.record(
  {
    filename: anything,
    content: fc.oneof(text, bytes, fc.record({ type: fc.constant('Buffer'), data: bytes })),
    contentType: anything,
    content_type: anything,
    inline_content_id: anything,
    path: anything,
  },
  { requiredKeys: [] },
);
const email = fc.record(
  {
    from: anything,
    to: list,
    subject: anything,
    html: anything,
    text: anything,
    cc: list,
    reply_to: list,
    headers: anything,
    tags: anything,
    topic_id: anything,
    scheduled_at: anything,
    attachments: fc.oneof(fc.array(fc.oneof(attachment, anything), { maxLength: 4 }), anything),
  },
  { requiredKeys: [] },
);

async function checkResponse(response: Response): Promise<void> {
  const body = (await response.json()) as Record<string, unknown>;
  assert.ok(response.status < 500, JSON.stringify(body));
  if (response.status < 400) return assert.deepEqual(Object.keys(body), ['id']);
  assert.deepEqual(Object.keys(body), ['statusCode', 'name', 'message', 'request_id']);
  assert.equal(body['statusCode'], response.status);
}

test('generated emails never cause a 5xx, and failures have Resend’s shape', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof({ weight: 3, arbitrary: email }, anything), async (body) => {
      await checkResponse(await http.post('/emails', JSON.stringify(body) ?? ''));
    }),
    { numRuns: RUNS },
  );
});
