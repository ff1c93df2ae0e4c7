/**
 * The root mount: objects of another project or environment do not exist for a caller, and bad input changes nothing.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import { UNKNOWN_ID } from '../support/api.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

async function made(path: string, body: object): Promise<string> {
  const response = await service.request('POST', path, { body });
  assert.ok(response.status < 300, response.text);
  return response.body.id;
}

const ids = {
  emails: await service.send({ scheduled_at: new Date(Date.now() + 3_600_000).toISOString() }),
  domains: await made('/domains', { name: 'owned.test' }),
  'api-keys': await made('/api-keys', { name: 'owned' }),
  webhooks: await made('/webhooks', { endpoint: 'http://127.0.0.1:9/', events: ['email.sent'] }),
  suppressions: await made('/suppressions', { email: 'owned@acme.test' }),
  templates: await made('/templates', { name: 'Owned', subject: 'a', text: 'b' }),
} as const;

const OPERATIONS: [string, (typeof NOUNS)[number], string?, object?][] = [
  ['GET', 'emails'],
  ['PATCH', 'emails', '', { scheduled_at: 'in 1 hour' }],
  ['POST', 'emails', '/cancel'],
  ['POST', 'emails', '/share', {}],
  ['GET', 'domains'],
  ['PATCH', 'domains', '', { tls: 'enforced' }],
  ['POST', 'domains', '/verify'],
  ['DELETE', 'domains'],
  ['PATCH', 'api-keys', '', { name: 'taken' }],
  ['DELETE', 'api-keys'],
  ['GET', 'webhooks'],
  ['PATCH', 'webhooks', '', { status: 'disabled' }],
  ['POST', 'webhooks', '/signing-secret/rotate'],
  ['GET', 'webhooks', '/events'],
  ['GET', 'webhooks', `/events/${UNKNOWN_ID}`],
  ['GET', 'webhooks', `/events/${UNKNOWN_ID}/attempts`],
  ['POST', 'webhooks', `/events/${UNKNOWN_ID}/replay`],
  ['DELETE', 'webhooks'],
  ['GET', 'suppressions'],
  ['DELETE', 'suppressions'],
  ['GET', 'templates'],
  ['PATCH', 'templates', '', { name: 'Taken' }],
  ['POST', 'templates', '/publish'],
  ['POST', 'templates', '/duplicate'],
  ['DELETE', 'templates'],
];
const NOUNS = Object.keys(ids) as (keyof typeof ids)[];

const other = await service.otherProject();
const strangers = {
  'the live environment': await service.liveKey(),
  'another project': other.testKey,
};

for (const [method, noun, rest = '', body] of OPERATIONS) {
  test(`${method} /${noun}/:id${rest} does not find resources of others`, async () => {
    for (const [who, key] of Object.entries(strangers)) {
      const ask = async (id: string) => {
        const options = { key, ...(body && { body }) };
        const response = await service.request(method, `/${noun}/${id}${rest}`, options);
        return { ...response.body, request_id: '' };
      };
      const foreign = await ask(ids[noun]);
      assert.equal(foreign.statusCode, 404, who);
      assert.deepEqual(foreign, await ask(UNKNOWN_ID), who);
    }
  });
}

test('lists do not contain resources of others', async () => {
  for (const key of Object.values(strangers)) {
    for (const noun of NOUNS) {
      const { body } = await service.request('GET', `/${noun}`, { key });
      assert.equal(body.data.length, noun === 'api-keys' ? 1 : 0, noun);
    }
  }
});

test('all resources are unchanged after these requests', async () => {
  for (const noun of NOUNS.filter((one) => one !== 'api-keys')) {
    assert.equal((await service.request('GET', `/${noun}/${ids[noun]}`)).status, 200, noun);
  }
});

const anything = fc.oneof(
  fc.string(),
  fc.jsonValue({ maxDepth: 2 }),
  fc.constantFrom('x@y.test', null, [], {}, ['email.sent'], 'http://127.0.0.1:9/', '{{{A}}}'),
);
const NAMES: Record<string, string[]> = {
  '/domains': ['name', 'region', 'tls', 'capabilities', 'open_tracking', 'custom_return_path'],
  '/api-keys': ['name', 'permission', 'domain_id'],
  '/webhooks': ['endpoint', 'events'],
  '/suppressions': ['email'],
  '/suppressions/batch/add': ['emails'],
  '/suppressions/batch/remove': ['emails', 'ids'],
  '/templates': ['name', 'alias', 'subject', 'html', 'text', 'variables', 'reply_to'],
  [`/emails/${ids.emails}/share`]: ['expires_in'],
};

for (const [path, names] of Object.entries(NAMES)) {
  test(`generated bodies never cause a 5xx: ${path.replace(ids.emails, ':id')}`, async () => {
    const fields = Object.fromEntries(names.map((name) => [name, anything]));
    const body = fc.record(fields, { requiredKeys: [] });
    await fc.assert(
      fc.asyncProperty(body, async (generated) => {
        const response = await service.request('POST', path, { body: generated });
        assert.ok(response.status < 500, response.text);
        if (response.status >= 400) assert.equal(response.body.statusCode, response.status);
      }),
      { numRuns: 60 },
    );
  });
}
