/** The signature checker, with the test vector of docs/webhooks.md. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkSignature, parseHeaders } from './signature-check.ts';

const SECRET = 'whsec_bGV0dGVyaGF1cyB0ZXN0IHZlY3RvciwgMzIgYnl0ZSE=';
const HEADERS = `Content-Type: application/json
Webhook-Id: 0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa
webhook-timestamp: 1795249800
webhook-signature: v1,ZLDtYGULIAFEuwvwFPedp/yKxcaFw6IBh0neC7dDaac=`;
const BODY =
  '{"type":"email.bounced","created_at":"2026-11-21T08:30:00.123Z","data":{"to":["Jö <jo@example.com>"]}}';
const AT_MS = 1_795_249_800_000;

const check = (change: object = {}) =>
  checkSignature({ headers: HEADERS, body: BODY, secret: SECRET, nowMs: AT_MS, ...change });

test('a request as it was sent is valid, and says when it is too old', async () => {
  assert.deepEqual(await check(), { kind: 'valid', ageS: 0, isRecent: true });
  const old = await check({ nowMs: AT_MS + 360_000 });
  assert.deepEqual(old, { kind: 'valid', ageS: 360, isRecent: false });
});

test('a changed body is named by its change', async () => {
  const formatted = JSON.stringify(JSON.parse(BODY), null, 2);
  const causes: [string, RegExp][] = [
    [`${BODY}\n`, /line break at the end/],
    [` ${BODY} `, /white space/],
    [formatted, /formatted/],
    [BODY.replace('Jö', 'Jo'), /No signature matches\. The secret/],
    ['', /empty body/],
  ];
  for (const [body, message] of causes) {
    const result = await check({ body });
    assert.ok(result.kind === 'problem', body);
    assert.match(result.message, message);
  }
});

test('another secret, and a missing header, are named', async () => {
  const messages: [object, RegExp][] = [
    [{ secret: 'whsec_AAAA' }, /No signature matches/],
    [{ secret: 'whsec_%' }, /must begin with whsec_/],
    [{ headers: '' }, /no header webhook-id/],
    [{ headers: HEADERS.replace(/webhook-signature.*/, '') }, /no header webhook-signature/],
    [{ headers: HEADERS.replace(/webhook-timestamp.*/, '') }, /no header webhook-timestamp/],
  ];
  for (const [change, message] of messages) {
    const result = await check(change);
    assert.ok(result.kind === 'problem');
    assert.match(result.message, message);
  }
});

test('headers are read from lines, from JSON and under their older names', () => {
  const json = '{"webhook-id":"a","webhook-timestamp":"1","webhook-signature":"v1,b= v1,c="}';
  assert.deepEqual([...parseHeaders(json).values()], ['a', '1', 'v1,b= v1,c=']);
  assert.equal(parseHeaders("svix-id: 'a'").get('svix-id'), 'a');
});
