/** `scheduled_at`: an email that is accepted now and sent later. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL } from '../support/api.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { DAY_MS } from '../../src/lib/units.ts';

const service = await startService({ args: ['--workers', '2'] });
after(() => service[Symbol.asyncDispose]());

/** A time on the clock of the database. */
async function fromNow(ms: number): Promise<string> {
  const [{ now }] = await service.sql('select extract(epoch from app_now())::float8 * 1000 as now');
  return new Date(Math.round(now) + ms).toISOString();
}

const post = (body: object, headers = {}) =>
  service.request('POST', '/v1/emails', { body: { ...EMAIL, ...body }, headers });

async function timeline(id: string) {
  return (await service.request('GET', `/v1/emails/${id}/events`)).body.data;
}

test('a scheduled email is sent at its time', async () => {
  const scheduledAt = await fromNow(2 * DAY_MS);
  const { status, body } = await post({ scheduled_at: scheduledAt });
  assert.equal(status, 202);
  assert.equal(body.status, 'scheduled');
  const waiting = await service.email(body.id);
  assert.deepEqual([waiting.status, waiting.last_event], ['scheduled', 'email.scheduled']);
  assert.equal(waiting.scheduled_at, scheduledAt);
  const [recipient] = waiting.recipients;
  assert.deepEqual(
    [recipient.status, recipient.attempts, recipient.next_attempt_at],
    ['scheduled', 0, scheduledAt],
  );
  const [event, ...others] = await timeline(body.id);
  assert.deepEqual([event.type, event.recipient, others], ['email.scheduled', null, []]);
  assert.deepEqual([event.data.status, event.data.scheduled_at], ['scheduled', scheduledAt]);

  await service.clock.advance({ hours: 47 });
  const marker = await service.send();
  await service.waitForStatus(marker, 'delivered');
  assert.equal((await service.email(body.id)).status, 'scheduled');
  await service.clock.advance({ hours: 1 });
  const sent = await service.waitForStatus(body.id, 'delivered');
  assert.ok(Date.parse(sent.sent_at) >= Date.parse(scheduledAt));
  assert.equal(sent.scheduled_at, scheduledAt);
  const types = (await timeline(body.id)).map(({ type }: { type: string }) => type);
  assert.deepEqual(types, ['email.scheduled', 'email.delivered']);
});

test('the Date of the message is its scheduled time', async () => {
  const id = await service.send({ scheduled_at: await fromNow(DAY_MS) });
  const { scheduled_at: at } = await service.email(id);
  const { text } = await service.request('GET', `/v1/emails/${id}/content`);
  const date = /^Date: (.*)\r$/m.exec(text)?.[1] ?? '';
  assert.equal(Date.parse(date), Math.floor(Date.parse(at) / 1000) * 1000);
});

test('an email scheduled in the past is sent at once', async () => {
  for (const scheduledAt of [await fromNow(-1), '1970-01-01T00:00:00Z', '0001-01-01T00:00:00Z']) {
    const { status, body } = await post({ scheduled_at: scheduledAt });
    assert.deepEqual([status, body.status], [202, 'queued']);
    const email = await service.waitForStatus(body.id, 'delivered');
    assert.equal(email.scheduled_at, null);
    assert.equal((await timeline(body.id))[0].type, 'email.queued');
  }
});

test('a time more than 30 days ahead by the database clock is refused', async () => {
  const body = { scheduled_at: await fromNow(30 * DAY_MS - 60_000) };
  assert.equal((await post(body)).status, 202);
  for (const far of [await fromNow(30 * DAY_MS + 60_000), '9999-12-31T23:59:59-23:59']) {
    const response = await post({ scheduled_at: far });
    assertFailure(response, 422, 'validation_error', /^scheduled_at: is more than 30 days ahead/);
    assert.equal(response.body.error.details[0].field, 'scheduled_at');
  }
});

test('a time that is invalid or without offset is refused by name', async () => {
  for (const wrong of ['2027-01-31T09:00:00', 'tomorrow', '', '2027-02-30T09:00:00Z', 1, {}]) {
    assertFailure(await post({ scheduled_at: wrong }), 422, 'validation_error', /^scheduled_at: /);
  }
});

test('expires_in counts from the scheduled time', async () => {
  const id = await service.send({
    to: 'full@simulator.test',
    scheduled_at: await fromNow(DAY_MS),
    expires_in: 3600,
  });
  await service.clock.advance({ hours: 24, seconds: 1 });
  await waitFor(async () => (await service.email(id)).recipients[0].attempts > 0, {
    what: 'the first attempt, a day after the expiry of an email that is sent at once',
  });
  await service.clock.advance({ hours: 2 });
  const { recipients } = await service.waitForStatus(id, 'failed');
  assert.equal(recipients[0].reason.category, 'expired');
});

test('an address that was suppressed meanwhile gets no mail', async () => {
  const id = await service.send({ to: 'gone@b.test', scheduled_at: await fromNow(3600_000) });
  await service.request('POST', '/v1/suppressions', { body: { address: 'gone@b.test' } });
  await service.clock.advance({ hours: 1, seconds: 1 });
  await service.waitForStatus(id, 'suppressed');
});

test('repeating the request with its key schedules one email', async () => {
  const body = { scheduled_at: await fromNow(3600_000) };
  const headers = { 'idempotency-key': 'scheduled-1' };
  const [first, ...others] = await Promise.all([1, 2, 3, 4].map(() => post(body, headers)));
  const ids = new Set([first, ...others].map((response) => response?.body.id));
  assert.equal(ids.size, 1);
  await service.clock.advance({ hours: 1, seconds: 1 });
  await service.waitForStatus(first?.body.id, 'delivered');
  const repetition = await post(body, headers);
  assert.deepEqual([repetition.status, repetition.body.status], [200, 'scheduled']);
  assert.equal(repetition.text, others[0]?.text);
  const other = await post({ scheduled_at: await fromNow(7200_000) }, headers);
  assertFailure(other, 409, 'idempotency_conflict');
});

test('scheduled emails are listed by status until their time', async () => {
  const tags = [{ name: 'list', value: 'scheduled' }];
  const id = await service.send({ tags, scheduled_at: await fromNow(3600_000) });
  await service.cliJson('queue', 'hold', '--email', id);
  const listed = async (status: string) => {
    const { body } = await service.request('GET', `/v1/emails?status=${status}&tag=list:scheduled`);
    return body.data.map((one: { id: string }) => one.id);
  };
  assert.deepEqual([await listed('scheduled'), await listed('queued')], [[id], []]);
  await service.clock.advance({ hours: 1 });
  assert.deepEqual([await listed('scheduled'), await listed('queued')], [[], [id]]);
  await service.cliJson('queue', 'drop', '--email', id, '--yes');
  await service.clock.advance({ minutes: 1 });
  await service.waitForStatus(id, 'canceled');
  assert.deepEqual(await listed('canceled'), [id]);
});

test('an email counts to the limit when it is accepted, not when it is sent', async () => {
  const before = (await post({})).headers.get('ratelimit-remaining');
  const response = await post({ scheduled_at: await fromNow(3600_000) });
  assert.equal(Number(response.headers.get('ratelimit-remaining')), Number(before) - 1);
});

test('an operator who retries or releases mail makes none due before its time', async () => {
  const scheduledAt = await fromNow(3600_000);
  const id = await service.send({ to: 'kim@operated.test', scheduled_at: scheduledAt });
  const where = ['--domain', 'operated.test'];
  assert.equal((await service.cliJson('queue', 'retry', ...where)).changed, 0);
  assert.equal((await service.cliJson('queue', 'hold', ...where)).changed, 1);
  assert.equal((await service.cliJson('queue', 'release', ...where)).changed, 1);
  const { status, recipients } = await service.email(id);
  assert.deepEqual([status, recipients[0].next_attempt_at], ['scheduled', scheduledAt]);
});

test('mail of a domain that was paused meanwhile is put on hold at its time', async () => {
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'paused.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  await service.sql('update domains set paused_at = app_now() where id = $1', [domain.id]);
  const scheduledAt = await fromNow(3600_000);
  const id = await service.send({ from: 'a@paused.test', scheduled_at: scheduledAt });
  assert.equal((await service.email(id)).recipients[0].next_attempt_at, scheduledAt);
  await service.clock.advance({ hours: 1, seconds: 1 });
  await waitFor(async () => (await service.email(id)).recipients[0].next_attempt_at === null, {
    what: 'the email to be put on hold',
  });
  await service.sql('update domains set paused_at = null where id = $1', [domain.id]);
  assert.equal((await service.cliJson('queue', 'release', '--email', id)).changed, 1);
  await service.waitForStatus(id, 'delivered');
});

test('a clock that is set back sends nothing early, and a corrected clock sends on time', async () => {
  const id = await service.send({ scheduled_at: await fromNow(3600_000) });
  await service.clock.advance({ hours: -5 });
  const marker = await service.send();
  await service.waitForStatus(marker, 'delivered');
  assert.equal((await service.email(id)).status, 'scheduled');
  await service.clock.advance({ hours: 6, seconds: 1 });
  await service.waitForStatus(id, 'delivered');
});
