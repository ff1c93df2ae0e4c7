/** The root mount: the log of requests to it and what was used, read with the official client of Resend. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { TIME, UNKNOWN_ID } from '../support/api.ts';
import { failed, resendClient, succeeded } from '../support/resend.ts';
import { sharedService } from '../support/shared-service.ts';
import { waitFor } from '../support/wait.ts';

const service = await sharedService();

const resend = resendClient(service);

test('requests are logged with their response, without keys, addresses and bodies', async () => {
  const address = 'somebody@acme.test';
  failed(await resend.suppressions.get(address), 404, 'not_found');
  failed(await resend.emails.get(UNKNOWN_ID), 404, 'not_found');
  const unlogged = await service.request('GET', '/emails', { key: null });
  assert.equal(unlogged.status, 401);
  const logged = await waitFor(
    async () => {
      // The requests of this loop are logged as well, and each worker writes its own part.
      const { data } = succeeded(await resend.logs.list({ limit: 100 }));
      return data.filter(({ endpoint }) => endpoint !== '/logs').length === 2 && data;
    },
    { what: 'the requests to be logged', everyMs: 100 },
  );
  const [second, first] = logged.slice(-2);
  const { id, created_at, user_agent, ...facts } = first!;
  assert.match(created_at, TIME);
  assert.match(user_agent!, /^resend-node:/);
  assert.deepEqual(facts, { endpoint: '/suppressions/:id', method: 'GET', response_status: 404 });
  assert.equal(second!.endpoint, `/emails/${UNKNOWN_ID}`);
  const one = succeeded(await resend.logs.get(id));
  const bodies = { request_body: null, response_body: null };
  assert.deepEqual(one, { object: 'log', ...first, ...bodies });
  assert.ok(!JSON.stringify(logged).includes(address));
  const live = resendClient(service, await service.liveKey());
  failed(await live.logs.get(id), 404, 'not_found');
});

test('the log is listed in pages', async () => {
  // Between the newest, another worker may still write some.
  const [newer, oldest] = succeeded(await resend.logs.list({ limit: 100 })).data.slice(-2);
  const after = succeeded(await resend.logs.list({ limit: 1, after: newer!.id }));
  assert.deepEqual(after.data, [oldest]);
  const back = succeeded(await resend.logs.list({ limit: 1, before: oldest!.id }));
  assert.equal(back.data.length, 1);
  failed(await resend.logs.get('nonsense'), 404, 'not_found');
});

test('usage counts the recipients of the day and the month', async () => {
  // As by default: the shared service has hardly any.
  await service.cliJson('projects', 'set-limit', '100/60');
  const email = { from: 'a@acme.test', subject: 'Hi', text: 'Hi' };
  const to = ['delivered@resend.dev', 'delivered+2@resend.dev'];
  const { id } = succeeded(await resend.emails.send({ ...email, to }));
  await service.waitForStatus(id, 'delivered');
  const usage = await waitFor(
    async () => {
      const found = succeeded(await resend.usage.get());
      return found.emails.monthly.used === 2 && found;
    },
    { what: 'both recipients to be counted' },
  );
  const { daily, monthly } = usage.emails;
  assert.equal(daily.limit, 100 * 60 * 24);
  assert.equal(monthly.sent, 2);
  for (const { resets_at } of [daily, monthly]) {
    assert.match(resets_at, /^\d{4}-\d\d-\d\dT00:00:00\.000Z$/);
  }
  assert.deepEqual(usage.rate_limit, { limit: 100, duration: '60s' });
  assert.equal(usage.domains.used, 1);
});

test('metrics count the outcomes of recipients, by period, domain and email', async () => {
  const to = ['delivered@resend.dev', 'bounced@resend.dev', 'complained@resend.dev'];
  const email = { from: 'a@acme.test', to, subject: 'Hi', text: 'Hi' };
  const { id } = succeeded(await resend.emails.send(email));
  await service.waitForStatus(id, 'complained');
  const one = { emailId: [id], metrics: ['sent', 'delivered', 'bounced', 'complained'] as const };
  const options = { ...one, metrics: [...one.metrics] };
  const { totals, object } = succeeded(await resend.emails.metrics(options));
  assert.equal(object, 'metrics');
  assert.deepEqual(totals, { sent: 3, delivered: 2, bounced: 1, complained: 1 });
  const dimensions = ['period' as const, 'domain' as const, 'email' as const];
  const grouped = succeeded(await resend.emails.metrics({ ...options, dimensions }));
  assert.equal(grouped.data?.length, 1);
  const [{ period, domain_id, ...row }] = grouped.data as [Record<string, unknown>];
  assert.match(String(period), /T00:00:00\.000Z$/);
  assert.ok(domain_id);
  assert.deepEqual(row, { domain_name: 'acme.test', email_id: id, ...totals });
  const all = succeeded(await resend.emails.metrics());
  assert.ok(all.totals.sent! > 3);
  assert.equal(all.data, undefined);
  const live = resendClient(service, await service.liveKey());
  assert.equal(succeeded(await live.emails.metrics()).totals.sent, 0);
  for (const wrong of [{ metrics: ['open_rate' as const] }, { timezone: 'Europe/Berlin' }]) {
    failed(await resend.emails.metrics(wrong), 422, 'validation_error');
  }
  for (const query of ['start_date=x', 'end_date=99999-01-01', 'domain_id=x', 'metrics=toString']) {
    const response = await service.request('GET', `/emails/metrics?${query}`);
    assert.equal(response.status, 422, query);
  }
  const repeated = Array.from({ length: 500 }, () => 'sent').join(',');
  const { body } = await service.request('GET', `/emails/metrics?metrics=${repeated}`);
  assert.deepEqual(body.metrics, ['sent']);
});
