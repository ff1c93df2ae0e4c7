/** Counts of mail: which mail counts, by which dimension, for whom, and which requests are refused. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DAY_MS } from '../../src/lib/units.ts';
import { assertFailure, EMAIL } from '../support/api.ts';
import type { ApiResponse } from '../support/api-client.ts';
import { sharedService } from '../support/shared-service.ts';

const service = await sharedService();

type Body = ApiResponse['body'];

const ask = (query = '', key = service.testKey) =>
  service.request('GET', `/v1/stats?${query}`, { key });

async function stats(query = '', key = service.testKey): Promise<Body> {
  const response = await ask(query, key);
  assert.equal(response.status, 200, response.text);
  return response.body;
}

/** Returns the counts that are not zero, without the times. */
function counted({ time_to_delivery: _time, histogram: _histogram, ...row }: Body): Body {
  return Object.fromEntries(
    Object.entries(row).filter(([, value]) => value !== 0 && value !== null),
  );
}

async function newKey(rights: object): Promise<Body> {
  const body = { name: 'made by a test', ...rights };
  const response = await service.request('POST', '/v1/api-keys', { body });
  assert.equal(response.status, 201, response.text);
  return response.body;
}

await service.addTestDomain('other.test');
const otherKey = await newKey({});

test('there are no counts before the first email', async () => {
  const { totals, data } = await stats();
  assert.deepEqual([totals, data], [[], []]);
});

test('emails are counted at once, by the outcomes of their recipients', async () => {
  const before = Date.now();
  const at = (name: string) => `${name}@simulator.test`;
  const sent = [
    await service.send({
      to: [at('delivered'), at('bounced')],
      tags: [{ name: 'kind', value: 'a' }],
    }),
    await service.send({ to: at('deferred'), tags: [{ name: 'kind', value: 'b' }] }),
    await service.send({ to: at('complained'), from: 'hi@other.test' }),
  ];
  const scheduled = await service.send({ scheduled_at: '2040-01-01T00:00:00Z' }).catch(() => null);
  assert.equal(scheduled, null, 'more than 30 days ahead: refused, and not counted');
  await service.waitForStatus(sent[0]!, 'bounced');
  await service.waitForStatus(sent[1]!, 'delivered');
  await service.waitForStatus(sent[2]!, 'complained');
  const { body } = await service.request('POST', '/v1/emails', {
    body: { ...EMAIL, scheduled_at: new Date(Date.now() + 86_400_000).toISOString() },
    key: otherKey.key,
  });
  await service.request('POST', `/v1/emails/${body.id}/cancel`);

  const report = await stats('granularity=hour');
  const { totals, data, ...asked } = report;
  assert.deepEqual(Object.keys(asked), ['object', 'from', 'to', 'granularity', 'zone', 'by']);
  assert.ok(Date.parse(asked.to) >= Date.now() && Date.parse(asked.from) < before);
  assert.deepEqual(totals.map(counted), [
    {
      emails: 4,
      recipients: 5,
      delivered: 3,
      deferred: 2,
      bounced: 1,
      canceled: 1,
      complained: 1,
    },
  ]);
  const [{ time_to_delivery: time, histogram }] = totals;
  assert.equal(time.count, 3);
  assert.ok(time.p50_at_most_s <= time.p99_at_most_s && time.p99_at_most_s <= 300);
  assert.equal(
    histogram.reduce((sum: number, { count }: Body) => sum + count, 0),
    3,
  );
  // More than one if the hour has ended meanwhile.
  const emails = data.reduce((sum: number, row: Body) => sum + row.emails, 0);
  assert.equal(emails, 4);
});

test('emails are counted by sending domain, provider, tag and key', async () => {
  const by = async (dimension: string) => {
    const { totals } = await stats(`by=${dimension}`);
    return Object.fromEntries(totals.map((row: Body) => [row.value, counted(row)]));
  };
  const domains = await by('domain');
  assert.deepEqual(Object.keys(domains), ['acme.test', 'other.test']);
  assert.equal(domains['other.test'].complained, 1);
  const tags = await by('tag');
  assert.deepEqual(Object.keys(tags).toSorted(), ['kind:a', 'kind:b']);
  assert.deepEqual([tags['kind:a'].bounced, tags['kind:b'].deferred], [1, 2]);
  const keys = await by('key');
  assert.deepEqual(keys[otherKey.id], {
    value: otherKey.id,
    name: 'made by a test',
    emails: 1,
    recipients: 1,
    canceled: 1,
  });
  const { totals: providers } = await stats('by=provider');
  assert.equal(providers.length, 1);
  const [{ emails, recipients, suppressed, canceled, delivered }] = providers;
  assert.deepEqual([emails, recipients, suppressed, canceled], [null, null, null, null]);
  assert.equal(delivered, 3);
});

test('emails are counted by template and by the reason of a bounce', async () => {
  const { body: template } = await service.request('POST', '/v1/templates', {
    body: { name: 'Receipt', alias: 'receipt', subject: 'Yours', html: '<p>Thanks</p>' },
  });
  const published = await service.request('POST', `/v1/templates/${template.id}/publish`);
  assert.equal(published.status, 200, published.text);
  const { subject: _subject, html: _html, text: _text, ...email } = EMAIL as Body;
  const sent: string[] = [];
  for (const name of ['delivered', 'bounced']) {
    const { body, text } = await service.request('POST', '/v1/emails', {
      body: { ...email, to: `${name}@simulator.test`, template: { id: 'receipt' } },
    });
    assert.ok(body.id, text);
    await service.waitForStatus(body.id, name);
    sent.push(body.id);
  }
  const { totals } = await stats('by=template');
  assert.deepEqual(totals.map(counted), [
    {
      value: template.id,
      name: 'Receipt',
      emails: 2,
      recipients: 2,
      delivered: 1,
      bounced: 1,
    },
  ]);
  const { totals: reasons } = await stats('by=reason');
  const bounced = reasons.reduce((sum: number, row: Body) => sum + row.bounced, 0);
  const [all] = (await stats()).totals;
  assert.equal(bounced, all.bounced);
  assert.ok(reasons.every((row: Body) => row.emails === null && row.delivered === 0));
  const { body: detail } = await service.request('GET', `/v1/emails/${sent[1]}`);
  const { category } = detail.recipients[0].reason;
  assert.ok(reasons.some((row: Body) => row.value === category && row.bounced > 0));
});

test('days begin at midnight of a time zone', async () => {
  const dateAt = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
  // Such days go back 31 days.
  const firstMs = Date.now() - 7 * DAY_MS;
  const { data, from, zone } = await stats(`zone=Asia/Tokyo&from=${dateAt(firstMs)}`);
  assert.equal(zone, 'Asia/Tokyo');
  assert.equal(from, `${dateAt(firstMs - DAY_MS)}T15:00:00.000Z`);
  assert.ok(data.length > 0);
  for (const { period } of data) assert.match(period, /T15:00:00\.000Z$/);
  const { data: utc } = await stats();
  const sum = (rows: Body) => rows.reduce((count: number, row: Body) => count + row.delivered, 0);
  assert.equal(sum(data), sum(utc));
  assertFailure(await ask('zone=Europe/Atlantis'), 422, 'validation_error');
  assertFailure(await ask('zone=Asia/Tokyo&from=2026-01-01'), 422, 'validation_error');
});

test('the command line shows the same counts', async () => {
  const { totals, data } = await service.cliJson('stats', '--environment', 'test', '--by', 'tag');
  const asked = await stats('by=tag');
  assert.deepEqual({ totals, data }, { totals: asked.totals, data: asked.data });
  const { stdout } = await service.cli('stats', '--environment', 'test', '--from', '2d');
  assert.match(stdout, /^DAY +EMAILS/m);
  assert.match(stdout, /^total +6 +7/m);
  const wrong = await service.cli('stats', '--granularity', 'hour', '--from', '400d');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /at most 744/);
  const nonsense = await service.cli('stats', '--from', 'soon');
  assert.match(nonsense.stderr, /Write 30m, 6h or 2d/);
});

test('a period that is cut by from or to is included whole, and nothing else', async () => {
  const { from, to, data } = await stats('from=2026-01-02T03:04:05Z&to=2026-01-03');
  assert.deepEqual([from, to], ['2026-01-02T00:00:00.000Z', '2026-01-03T00:00:00.000Z']);
  assert.deepEqual(data, []);
  const hours = await stats(
    'from=2026-01-02T03:04:05%2B01:00&to=2026-01-02T02:30:00Z&granularity=hour',
  );
  assert.deepEqual(
    [hours.from, hours.to],
    ['2026-01-02T02:00:00.000Z', '2026-01-02T03:00:00.000Z'],
  );
});

test('another project and another environment have their own counts', async () => {
  const other = await service.otherProject();
  for (const key of [other.testKey, await service.liveKey()]) {
    assert.deepEqual((await stats('', key)).totals, []);
    assert.deepEqual((await stats('by=domain', key)).totals, []);
  }
});

test('a key for one domain sees the counts of that domain and nothing else', async () => {
  const { key } = await newKey({ domain: 'other.test' });
  const { totals } = await stats('', key);
  assert.deepEqual(totals.map(counted), [
    { emails: 1, recipients: 1, delivered: 1, complained: 1 },
  ]);
  const domains = await stats('by=domain', key);
  assert.deepEqual(
    domains.totals.map((row: Body) => row.value),
    ['other.test'],
  );
  for (const by of ['tag', 'provider', 'key']) {
    assertFailure(await ask(`by=${by}`, key), 403, 'authorization_error', /limited to other\.test/);
  }
});

test('a key that may only send reads no counts', async () => {
  const { key } = await newKey({ permission: 'sending_access' });
  assertFailure(await ask('', key), 403, 'authorization_error', /only send/);
});

test('a wrong parameter is refused by name', async () => {
  for (const [query, message] of [
    ['by=subject', /^by: must be .*tag/],
    ['granularity=week', /^granularity: must be /],
    ['from=yesterday', /^from: must be a time in ISO 8601.* or a date/],
    ['to=2026-02-31', /^to: must be a time/],
    ['to=2026-02-01T00:00:00', /^to: must be a time/],
    ['form=2026-02-01', /^form: is not a query parameter/],
    ['from=2026-02-02&to=2026-02-01', /^from: must be before to/],
    ['from=2024-01-01&to=2026-02-01', /^from: is 762 days before to, .* at most 400/],
    [
      'from=2026-01-01&to=2026-02-02&granularity=hour',
      /^from: is 768 hours .* at most 744; .* granularity=day/,
    ],
  ] as const) {
    assertFailure(await ask(query), 422, 'validation_error', message);
  }
});
