/** `verifyWebhook` of the SDK, with body and headers in the form of every framework. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { runInNewContext } from 'node:vm';
import { Webhook } from 'standardwebhooks';
import { SignatureError, verifyWebhook } from '../../sdk/src/index.ts';

const SECRET = `whsec_${Buffer.from('a secret of 24 bytes ...').toString('base64')}`;
const OTHER = `whsec_${Buffer.from('another secret').toString('base64')}`;
const TEXT =
  '{"type":"email.delivered","created_at":"2026-11-21T08:30:00.123Z","data":{"subject":"ü"}}';
const BYTES = new TextEncoder().encode(TEXT);

const headers = signedAt(new Date());
const given = { payload: TEXT, headers, secret: SECRET };

function signedAt(time: Date, prefix = 'webhook'): Record<string, string> {
  return {
    [`${prefix}-id`]: 'evt_1',
    [`${prefix}-timestamp`]: String(Math.floor(time.getTime() / 1_000)),
    [`${prefix}-signature`]: new Webhook(SECRET).sign('evt_1', time, TEXT),
  };
}

async function accepts(what: string, change: object): Promise<void> {
  const event = await verifyWebhook({ ...given, ...change }).catch((error: unknown) => error);
  assert.deepEqual([what, event], [what, { id: 'evt_1', ...JSON.parse(TEXT) }]);
}

type Refusal = RegExp | typeof SignatureError | typeof TypeError;

async function refuses(what: string, change: object, error: Refusal): Promise<void> {
  await assert.rejects(verifyWebhook({ ...given, ...change }), error, what);
}

test('the body may be text, or bytes of every type of a runtime', async () => {
  const padded = new Uint8Array([0, ...BYTES, 0]);
  const shared = new Uint8Array(new SharedArrayBuffer(BYTES.length));
  shared.set(BYTES);
  for (const [what, payload] of Object.entries({
    text: TEXT,
    Buffer: Buffer.from(BYTES),
    Uint8Array: BYTES,
    'part of an ArrayBuffer': padded.subarray(1, -1),
    DataView: new DataView(padded.buffer, 1, BYTES.length),
    ArrayBuffer: BYTES.buffer.slice(0),
    SharedArrayBuffer: shared.buffer,
    'ArrayBuffer of another realm': runInNewContext('new Uint8Array(bytes).buffer', {
      bytes: BYTES,
    }),
  })) {
    await accepts(what, { payload });
  }
});

test('a body that was parsed or not read results in a TypeError with advice', async () => {
  const request = new Request('http://127.0.0.1', { method: 'POST', body: TEXT });
  const rows: [what: string, payload: unknown, says: RegExp][] = [
    ['parsed', JSON.parse(TEXT), /not a parsed body.*express\.raw/],
    ['an array', [1], /not a parsed body/],
    ['a number', 4, /not a parsed body/],
    ['undefined', undefined, /not undefined: was the body read before/],
    ['null', null, /not null/],
    ['a promise', Promise.resolve(TEXT), /await it/],
    ['a Request', request, /await request\.text\(\)/],
    ['a web stream', request.body, /a stream/],
    ['a stream of Node', Readable.from([TEXT]), /a stream/],
  ];
  for (const [what, payload, says] of rows) {
    const error = await verifyWebhook({ ...given, payload: payload as string }).catch((one) => one);
    assert.ok(error instanceof TypeError, what);
    assert.match(error.message, says, what);
  }
  await refuses('an empty body', { payload: '' }, /SignatureError: .*was the body read before/);
});

test('headers may have the form of any framework, in any case, with our names or those of Svix', async () => {
  const upper = Object.fromEntries(Object.entries(headers).map(([k, v]) => [k.toUpperCase(), v]));
  const svix = signedAt(new Date(), 'svix');
  const { 'webhook-signature': signature = '' } = headers;
  for (const [what, form] of Object.entries({
    Headers: new Headers(headers),
    'Headers of another library': { get: (name: string) => headers[name.toLowerCase()] ?? null },
    'an object': headers,
    'an object in capitals': upper,
    'lists of values': Object.fromEntries(Object.entries(headers).map(([k, v]) => [k, [v]])),
    'a Map': new Map(Object.entries(upper)),
    pairs: Object.entries(upper),
    rawHeaders: ['Host', 'a.test', ...Object.entries(upper).flat()],
    'beside undefined ones': { ...headers, host: undefined },
    'of Svix': svix,
    'of Svix, Headers': new Headers(svix),
    'both, ours are valid': {
      ...headers,
      'svix-id': 'x',
      'svix-timestamp': '1',
      'svix-signature': 'x',
    },
    'a list of signatures': { ...headers, 'webhook-signature': ['v1,AAAA', signature] },
    'signatures of two versions': { ...headers, 'webhook-signature': `v2,x v1a,y ${signature}` },
    'a signature that came twice': {
      ...headers,
      'webhook-signature': `${signature}, ${signature}`,
    },
    'an id that came twice': { ...headers, 'webhook-id': 'evt_1, evt_1' },
  })) {
    await accepts(what, { headers: form });
  }
});

test('missing or altered headers result in a SignatureError', async () => {
  const { 'webhook-id': _id, ...withoutId } = headers;
  const rows: [what: string, headers: object, says: RegExp][] = [
    ['none', {}, /no webhook-id header/],
    ['no id', withoutId, /no webhook-id header/],
    ['no signature of Svix', { 'svix-id': 'x', 'svix-timestamp': '1' }, /no svix-signature header/],
    ['one of each', { ...withoutId, 'svix-id': 'evt_1' }, /no svix-timestamp header/],
    ['another id', { ...headers, 'webhook-id': 'evt_2' }, /No signature/],
    ['a time that is none', { ...headers, 'webhook-timestamp': '1e3' }, /timestamp/],
    ['a signature that is none', { ...headers, 'webhook-signature': 'v1,' }, /No signature/],
    ['another version', { ...headers, 'webhook-signature': 'v2,AAAA' }, /No signature/],
  ];
  for (const [what, form, says] of rows) {
    const error = await verifyWebhook({ ...given, headers: form as Headers }).catch((one) => one);
    assert.ok(error instanceof SignatureError, what);
    assert.match(error.message, says, what);
  }
  await refuses('no headers', { headers: undefined }, TypeError);
});

test('one of several secrets is enough, and an invalid secret results in a TypeError', async () => {
  await accepts('both, while they are rotated', { secret: [OTHER, SECRET] });
  await accepts('with a line break', { secret: `${SECRET}\n` });
  await refuses('another', { secret: OTHER }, SignatureError);
  for (const secret of [undefined, '', 'whsec_', 'whsec_?', [SECRET, '']]) {
    await refuses(
      String(secret),
      { secret },
      /TypeError: The secret of a webhook begins with whsec_/,
    );
  }
});

test('a webhook from five minutes ago is refused, unless that is permitted', async () => {
  const old = { headers: signedAt(new Date(Date.now() - 301_000)) };
  await refuses('old', old, SignatureError);
  await accepts('old, permitted', { ...old, toleranceSeconds: 600 });
  const early = { headers: signedAt(new Date(Date.now() + 330_000)) };
  await refuses('of the future', early, SignatureError);
});
