/** Bodies of HTTP requests, which run through the whole app from bytes to a response, without a database. */
import assert from 'node:assert/strict';
import { pino } from 'pino';
import { SENT, stubHttp } from '../../support/http.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { filled, manyTimes, mutated, strung, times, unitOf } from '../generators.ts';
import type { Input, Reader, Target } from '../target.ts';

const ID = SENT.id;
const ROUTES = [
  'POST /v1/emails',
  'POST /v1/emails',
  'POST /v1/emails',
  'POST /v1/domains',
  'POST /v1/webhooks',
  'POST /v1/suppressions',
  `PATCH /v1/domains/${ID}`,
  `PATCH /v1/webhooks/${ID}`,
  `POST /v1/webhooks/${ID}/replay`,
] as const;

const SAMPLES = [
  {
    from: 'Acme <hello@acme.example>',
    to: ['jo@receiver.test', '"Jo, J" <j@r.test>'],
    cc: 'a@b.test',
    subject: 'Hé',
    html: '<p>Hello</p>',
    text: 'Hello',
    headers: { 'X-A': 'b' },
    tags: [{ name: 'a', value: 'b' }],
    attachments: [{ filename: 'a.txt', content: 'aGk=', content_type: 'text/plain' }],
    metadata: { a: 'b' },
    unsubscribe: true,
    expires_in: 3600,
  },
  [{ from: 'a@acme.example', to: 'b@c.test', subject: 's', text: 't' }],
  { name: 'acme.example', tls: 'enforced' },
  { url: 'https://hook.test/x', events: ['email.delivered'], enabled: true },
  { addresses: ['a@b.test'], address: 'a@b.test', reason: 'manual' },
  { from: '2026-11-21T08:30:00Z', to: '2026-11-22T08:30:00Z', limit: 10 },
].map((value) => JSON.stringify(value));

const PIECES = [
  ...'{ } [ ] " , : \\'.split(' '),
  'null',
  'true',
  '1e999',
  '-0',
  '0.1',
  '9007199254740993',
  '"from":"a@b.co",',
  '"to":["a@b.co"],',
  '"subject":"x",',
  '"text":"y",',
  '"html":"<p>",',
  '"headers":{"X":"y"},',
  '"attachments":[{"filename":"a","content":"AA=="}],',
  '"\\u0000"',
  '"\\ud800"',
  '"__proto__":1,',
  '"constructor":{"prototype":1},',
  '{"a":',
  '[[',
  '\u00ef\u00bb\u00bf',
  '\u00ff',
  '\\u202e',
  '\\r\\nBcc: x@y.test',
  '=?utf-8?B?AAA?=',
];
const STRINGS = [
  '',
  'a@b.co',
  'A <a@b.co>',
  '"',
  '\r\nBcc: x@y.org',
  '\u202e',
  '=?utf-8?B?AAA?=',
  'x'.repeat(1_000),
  '💥',
  'https://a.test/',
  '2026-11-21T08:30:00Z',
  'AA==',
  '<p>&amp;',
  'constructor',
];
const NAMES = (
  'from to cc bcc reply_to subject html text headers attachments tags metadata expires_in unsubscribe ' +
  'tls scheduled_at filename content content_type content_id name value url events enabled address reason'
).split(' ');

function generate(random: RandomSource): Input {
  const kind = random.pick(ROUTES);
  return { kind, bytes: Buffer.from(bodyOf(random), 'latin1') };
}

/** Returns a body in Latin-1, as all generators do. */
function bodyOf(random: RandomSource): string {
  const json = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('latin1');
  switch (random.between(0, 2)) {
    case 0:
      return mutated(random, Buffer.from(random.pick(SAMPLES)).toString('latin1'), PIECES);
    case 1:
      return strung(random, PIECES, 30);
    default:
      return json(objectOf(random, 0));
  }
}

/** Returns an email with any value in any field. */
function objectOf(random: RandomSource, depth: number): Record<string, unknown> {
  const email = depth === 0 && random.chance(0.7) ? (JSON.parse(SAMPLES[0]!) as object) : {};
  const entries = times(random.between(0, 4), () => [random.pick(NAMES), anything(random, depth)]);
  return { ...email, ...(Object.fromEntries(entries) as object) };
}

function anything(random: RandomSource, depth: number): unknown {
  switch (random.between(0, depth > 3 ? 3 : 6)) {
    case 0:
      return random.pick([null, true, 0, -1, 1e308, 0.5, 2 ** 53]);
    case 1:
    case 2:
      return random.pick(STRINGS);
    case 3:
      return random.pick(STRINGS).repeat(Math.min(manyTimes(random), 100));
    case 4:
      return times(Math.min(manyTimes(random), 60), () => random.pick(STRINGS));
    case 5:
      return times(random.between(0, 3), () => anything(random, depth + 1));
    default:
      return objectOf(random, depth + 1);
  }
}

const FRONTS = ['', '{"from":"', '{"to":["', '{"html":"', '{"subject":"', '[', '{"headers":{"'];
const ENDS = ['', '"}', '"]}', ']', '}', '"}}'];

function grow(random: RandomSource): (bytes: number) => Input {
  const parts = {
    before: random.pick(FRONTS),
    unit: unitOf(random, PIECES),
    after: random.pick(ENDS),
  };
  return (bytes) => ({
    kind: 'POST /v1/emails',
    bytes: Buffer.from(filled(parts, bytes), 'latin1'),
  });
}

async function open(): Promise<Reader> {
  const http = await stubHttp({
    services: {
      log: pino({ level: 'silent' }),
      accept: () =>
        Promise.resolve({
          kind: 'accepted',
          body: JSON.stringify(SENT),
          limit: { limit: 100, remaining: 99, resetS: 60, windowS: 60 },
        }),
    },
  });
  const headers = {
    authorization: `Bearer ${http.keys.full}`,
    'content-type': 'application/json',
  };
  return {
    async read({ kind, bytes }) {
      const [method, url] = kind.split(' ') as ['POST' | 'PATCH', string];
      const response = await http.app.inject({ method, url, headers, payload: bytes });
      // A 503 means that the body was valid and that the stub has no database.
      const isTaken = url === '/v1/suppressions' && response.statusCode === 503;
      const shown = `${response.statusCode} ${response.body.slice(0, 500)}`;
      assert.ok(isTaken || response.statusCode < 500, shown);
      if (response.statusCode < 400) return;
      const { error } = response.json<{ error: { code: string; message: string } }>();
      assert.ok(error.code !== '' && error.message !== '');
      assert.ok(response.body.length < 100_000 + 4 * bytes.length);
    },
    close: async () => http[Symbol.asyncDispose](),
  };
}

export const bodies: Target = {
  name: 'http',
  about: 'bodies of HTTP requests',
  generate,
  grow,
  growsUpTo: 512 * 1024,
  cpuMsMax: 150,
  open,
};
