/** Canceling an email and moving its time, over HTTP, by SMTP's header and on the command line. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { assertFailure, EMAIL, UNKNOWN_ID } from '../support/api.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';
import { idIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { DAY_MS } from '../../src/lib/units.ts';

const service = await startService({
  env: { ...SUBMISSION_ENV, LETTERHAUS_LIMIT_SENDING: '1000/60' },
});
after(() => service[Symbol.asyncDispose]());

const fromNow = (ms: number): string => new Date(Date.now() + ms).toISOString();

type By = { key?: string };

const cancel = (id: string, by: By = {}) =>
  service.request('POST', `/v1/emails/${id}/cancel`, { ...by, body: {} });
const move = (id: string, at: unknown, by: By = {}) =>
  service.request('PATCH', `/v1/emails/${id}`, { ...by, body: { scheduled_at: at } });
const scheduled = (draft: object = {}, by: By = {}) =>
  service.send({ scheduled_at: fromNow(DAY_MS), ...draft }, by);

async function eventsOf(id: string) {
  return (await service.request('GET', `/v1/emails/${id}/events`)).body.data;
}

async function keyWith(rights: object): Promise<string> {
  const body = { name: 'made by a test', ...rights };
  const response = await service.request('POST', '/v1/api-keys', { body });
  assert.equal(response.status, 201, response.text);
  return response.body.key;
}

test('a scheduled email that is canceled is never sent', async () => {
  const id = await scheduled({
    to: ['a@simulator.test', 'b@simulator.test'],
    bcc: 'c@simulator.test',
  });
  const { status, body } = await cancel(id);
  assert.equal(status, 200);
  assert.deepEqual([body.object, body.id, body.status], ['email', id, 'canceled']);
  assert.ok(body.completed_at);
  for (const recipient of body.recipients) {
    const { attempts, next_attempt_at: next, reason } = recipient;
    assert.deepEqual([recipient.status, attempts, next, reason], ['canceled', 0, null, null]);
  }
  const [, event] = await eventsOf(id);
  assert.deepEqual([event.type, event.recipient], ['email.canceled', null]);
  assert.equal(event.data.status, 'canceled');
  assert.deepEqual(
    event.data.recipients,
    body.recipients.map((one: { address: string }) => one.address),
  );
  assert.equal(event.data.scheduled_at, undefined);
});

test('a second cancel of an email, repeated or concurrent, is a conflict', async () => {
  const id = await scheduled();
  const both = await Promise.all([cancel(id), cancel(id)]);
  assert.deepEqual(new Set(both.map(({ status }) => status)), new Set([200, 409]));
  assertFailure(
    await cancel(id),
    409,
    'conflict',
    /nothing left to cancel: the email is canceled\.$/,
  );
  assert.equal((await eventsOf(id)).length, 2);
});

/** Has the next attempt, which the simulator gets after seconds, come in an hour. */
async function putOff(id: string): Promise<void> {
  const sql = `update queue set due_at = app_now() + interval '1 hour'
                where email_id = $1 and holder is null returning 1`;
  // A slow machine may have begun it.
  const isPutOff = async () => (await service.sql(sql, [id])).length > 0;
  await waitFor(isPutOff, { what: 'the next attempt to be put off' });
}

test('a deferred email can be canceled and keeps its last reply', async () => {
  const id = await service.send({ to: 'full@simulator.test' });
  await service.waitForStatus(id, 'deferred');
  await putOff(id);
  const { status, body } = await cancel(id);
  assert.deepEqual([status, body.status], [200, 'canceled']);
  assert.equal(body.recipients[0].smtp.code, 452);
});

test('canceling a partly delivered email cancels the other recipients', async () => {
  const id = await service.send({ to: ['full@simulator.test', 'delivered@simulator.test'] });
  await service.waitForStatus(id, 'deferred');
  await putOff(id);
  const { status, body } = await cancel(id);
  assert.deepEqual([status, body.status], [200, 'canceled']);
  const statuses = body.recipients.map((one: { status: string }) => one.status);
  assert.deepEqual(statuses, ['canceled', 'delivered']);
  assert.deepEqual((await eventsOf(id)).at(-1).data.recipients, ['full@simulator.test']);
});

test('an email that has ended can be neither canceled nor rescheduled', async () => {
  const id = await service.send();
  await service.waitForStatus(id, 'delivered');
  assertFailure(await cancel(id), 409, 'conflict', /the email is delivered\.$/);
  assertFailure(await move(id, fromNow(DAY_MS)), 409, 'conflict', /the email is delivered\.$/);
});

test('an email that is being sent cannot be canceled, with the reason in the error', async () => {
  const id = await scheduled();
  await service.sql(
    'update queue set holder = (select id from nodes limit 1) where email_id = $1',
    [id],
  );
  for (const response of [await cancel(id), await move(id, fromNow(DAY_MS))]) {
    assertFailure(response, 409, 'conflict', /a worker is sending the email/);
  }
  await service.sql('update queue set holder = null, in_doubt = true where email_id = $1', [id]);
  for (const response of [await cancel(id), await move(id, fromNow(DAY_MS))]) {
    assertFailure(response, 409, 'conflict', /the email may have been delivered/);
  }
});

test('a rescheduled email is sent at its new time', async () => {
  const id = await scheduled();
  const later = fromNow(2 * DAY_MS);
  const { status, body } = await move(id, later);
  assert.deepEqual([status, body.status, body.scheduled_at], [200, 'scheduled', later]);
  assert.equal(body.recipients[0].next_attempt_at, later);
  assert.equal((await move(id, later)).status, 200);
  const events = await eventsOf(id);
  assert.deepEqual(
    events.map(({ type, data }: { type: string; data: object }) => [
      type,
      (data as { scheduled_at: string }).scheduled_at === later,
    ]),
    [
      ['email.scheduled', false],
      ['email.scheduled', true],
    ],
  );
  const now = await move(id, '2020-01-01T00:00:00Z');
  assert.notEqual(now.body.status, 'scheduled');
  await service.waitForStatus(id, 'delivered');
});

test('an invalid or too late time changes nothing', async () => {
  const id = await scheduled();
  const before = await service.email(id);
  for (const wrong of ['tomorrow', '2027-01-31T09:00:00', '', null, 5, fromNow(31 * DAY_MS)]) {
    assertFailure(await move(id, wrong), 422, 'validation_error', /^scheduled_at: /);
  }
  const path = `/v1/emails/${id}`;
  for (const body of [{}, { scheduled_at: fromNow(0), subject: 'Other' }, []]) {
    assertFailure(await service.request('PATCH', path, { body }), 422, 'validation_error');
  }
  assert.deepEqual(await service.email(id), before);
});

test('an unknown email is not found', async () => {
  for (const id of [UNKNOWN_ID, 'x', '0']) {
    assertFailure(await cancel(id), 404, 'not_found');
    assertFailure(await move(id, fromNow(DAY_MS)), 404, 'not_found');
  }
});

test('a cancel needs no body, with any content type', async () => {
  const empty = await scheduled();
  const headers = { 'content-type': 'application/json' };
  const path = (id: string) => `/v1/emails/${id}/cancel`;
  assert.equal((await service.request('POST', path(empty), { headers, body: '' })).status, 200);
  assert.equal((await service.request('POST', path(await scheduled()))).status, 200);
});

test('a sending key cancels emails that it sent, and reschedules none', async () => {
  const [own, other] = [
    await keyWith({ permission: 'sending_access' }),
    await keyWith({ permission: 'sending_access' }),
  ];
  const id = await scheduled({}, { key: own });
  assertFailure(await cancel(id, { key: other }), 404, 'not_found');
  assertFailure(await cancel(await scheduled(), { key: own }), 404, 'not_found');
  assertFailure(await move(id, fromNow(2 * DAY_MS), { key: own }), 403, 'authorization_error');
  assert.equal((await cancel(id, { key: own })).status, 200);
});

test('a key for one domain cancels and reschedules emails from that domain', async () => {
  const { body: domain } = await service.request('POST', '/v1/domains', {
    body: { name: 'own.test' },
  });
  await service.request('POST', `/v1/domains/${domain.id}/verify`);
  const key = await keyWith({ domain: 'own.test' });
  const [own, foreign] = [await scheduled({ from: 'a@own.test' }), await scheduled()];
  assertFailure(await cancel(foreign, { key }), 404, 'not_found');
  assertFailure(await move(foreign, fromNow(2 * DAY_MS), { key }), 404, 'not_found');
  assert.equal((await move(own, fromNow(2 * DAY_MS), { key })).status, 200);
  assert.equal((await cancel(own, { key })).status, 200);
});

test('canceled emails still count to the limit', async () => {
  // The window begins with the first email.
  await service.clock.advance({ seconds: 61 });
  const send = () =>
    service.request('POST', '/v1/emails', {
      body: { ...EMAIL, scheduled_at: fromNow(DAY_MS) },
    });
  const first = await send();
  await cancel(first.body.id);
  const second = await send();
  const remaining = [first, second].map(({ headers }) => headers.get('ratelimit-remaining'));
  assert.equal(Number(remaining[1]), Number(remaining[0]) - 1);
});

test('a message submitted by SMTP can be scheduled, rescheduled and canceled', async () => {
  const [port = 0] = service.readyLine.submission_ports ?? [];
  const dialogue = await openLoggedIn({ port, key: service.testKey });
  const at = fromNow(DAY_MS);
  const lines = [
    'From: Acme <hello@acme.test>',
    'Subject: Later',
    `X-Letterhaus-Scheduled-At: ${at}`,
    '',
    'Hi',
  ];
  const id = idIn(await submit(dialogue, { to: ['kim@simulator.test'], lines }));
  const email = await service.email(id);
  assert.deepEqual([email.status, email.scheduled_at], ['scheduled', at]);
  const { text } = await service.request('GET', `/v1/emails/${id}/content`);
  assert.doesNotMatch(text, /scheduled/i);
  assert.equal((await move(id, fromNow(2 * DAY_MS))).status, 200);
  assert.equal((await cancel(id)).body.status, 'canceled');
  const far = lines.map((line) =>
    line.startsWith('X-') ? `X-Letterhaus-Scheduled-At: ${fromNow(31 * DAY_MS)}` : line,
  );
  const reply = await submit(dialogue, { to: ['kim@simulator.test'], lines: far });
  assert.match(reply ?? '', /^554 5\.6\.0 X-Letterhaus-Scheduled-At: is more than 30 days ahead/);
});

test('letterhaus emails cancel and reschedule do the same, and print the reason when they fail', async () => {
  const id = await scheduled();
  const at = fromNow(2 * DAY_MS);
  const moved = await service.cliJson('emails', 'reschedule', id, '--at', at);
  assert.deepEqual([moved.status, moved.scheduled_at], ['scheduled', at]);
  const wrong = await service.cli('emails', 'reschedule', id, '--at', 'tomorrow');
  assert.deepEqual([wrong.code, /ISO 8601/.test(wrong.stderr)], [2, true]);
  const { code, stdout } = await service.cli('emails', 'cancel', id);
  assert.deepEqual([code, stdout], [0, `Email ${id} is canceled (1 of 1 recipients canceled).\n`]);
  const again = await service.cli('emails', 'cancel', id);
  assert.equal(again.code, 1);
  assert.match(again.stderr, /nothing left to cancel: the email is canceled/);
  const unknown = await service.cli('emails', 'cancel', UNKNOWN_ID);
  assert.deepEqual([unknown.code, /no email with the id/.test(unknown.stderr)], [1, true]);
});

test('letterhaus send --at schedules the email', async () => {
  const at = fromNow(DAY_MS);
  const draft = ['--from', 'hello@acme.test', '--to', 'a@simulator.test', '--subject', 'Later'];
  const by = ['--key', service.testKey, '--url', service.url];
  const { id, status } = await service.cliJson('send', ...draft, '--text', 'Hi', '--at', at, ...by);
  assert.equal(status, 'scheduled');
  assert.equal((await service.email(id)).scheduled_at, at);
});

const cancelMany = (body: object, by: By = {}) =>
  service.request('POST', '/v1/emails/cancel', { ...by, body });
const statusOf = async (id: string) => (await service.email(id)).status;

test('all matches of a search are canceled, and other scheduled and sent emails are not', async () => {
  const tags = [{ name: 'campaign', value: 'spring' }];
  const [one, two] = [await scheduled({ tags }), await scheduled({ tags })];
  const other = await scheduled({ tags: [{ name: 'campaign', value: 'autumn' }] });
  const sent = await service.send({ tags });
  const { status, body } = await cancelMany({ q: 'tag:campaign:spring' });
  assert.equal(status, 200);
  assert.deepEqual(body, {
    object: 'email_cancellation',
    selection: 'tag:campaign:spring',
    found: 2,
    canceled: 2,
    next: null,
  });
  assert.deepEqual(await Promise.all([one, two, other].map(statusOf)), [
    'canceled',
    'canceled',
    'scheduled',
  ]);
  assert.notEqual(await statusOf(sent), 'canceled');
  const [, event] = await eventsOf(one);
  assert.equal(event.type, 'email.canceled');
  const again = await cancelMany({ q: 'tag:campaign:spring' });
  assert.deepEqual([again.body.found, again.body.canceled], [0, 0]);
});

test('some are canceled by their ids; those that are sent, unknown or of others are left out', async () => {
  const [one, two] = [await scheduled(), await scheduled()];
  const sent = await service.send({});
  const { body } = await cancelMany({ ids: [one, one, sent, UNKNOWN_ID] });
  assert.deepEqual([body.found, body.canceled, body.selection], [1, 1, '4 emails']);
  assert.deepEqual([await statusOf(one), await statusOf(two)], ['canceled', 'scheduled']);
});

test('a cancellation continues from its position, and leaves what came after the count', async () => {
  const subject = 'Position';
  const ids = [await scheduled({ subject }), await scheduled({ subject })];
  const counted = (await service.email(ids[1]!)).created_at;
  const later = await scheduled({ subject });
  const continued = await cancelMany({ q: subject, from: ids[1] });
  assert.deepEqual([continued.body.canceled, await statusOf(ids[0]!)], [1, 'canceled']);
  const bounded = await cancelMany({ q: subject, created_before: counted });
  assert.equal(bounded.body.canceled, 0);
  assert.deepEqual([await statusOf(ids[1]!), await statusOf(later)], ['scheduled', 'scheduled']);
});

test('a sending key cancels only what it sent, and two requests at once cancel each email once', async () => {
  const subject = 'Whose';
  const sending = await keyWith({ permission: 'sending_access' });
  const [own, other] = [
    await scheduled({ subject }, { key: sending }),
    await scheduled({ subject }),
  ];
  const { body } = await cancelMany({ q: subject }, { key: sending });
  assert.deepEqual([body.canceled, await statusOf(own)], [1, 'canceled']);
  assert.equal(await statusOf(other), 'scheduled');
  const both = await Promise.all([cancelMany({ q: subject }), cancelMany({ q: subject })]);
  assert.equal(
    both.reduce((sum, { body: { canceled } }) => sum + canceled, 0),
    1,
  );
});

test('a cancellation without exactly one selection, or of another status, is refused', async () => {
  const kept = await scheduled();
  for (const body of [{}, { q: 'a', all: true }, { ids: [kept], q: 'a' }]) {
    assertFailure(await cancelMany(body), 422, 'validation_error', /exactly one|Too small|must/);
  }
  assertFailure(await cancelMany({ q: 'status:queued' }), 422, 'validation_error', /scheduled/);
  assertFailure(await cancelMany({ all: true, from: 'x' }), 422, 'validation_error', /^from: /);
  // Nothing typed selects nothing: only `all` says that all are meant.
  for (const q of [' ', '""', ' " " ']) {
    assertFailure(await cancelMany({ q }), 422, 'validation_error', /^q: is blank/);
  }
  assertFailure(await cancelMany({ q: 'moon:a' }), 422, 'validation_error', /not an operator/);
  assert.equal(await statusOf(kept), 'scheduled');
  assert.ok((await cancelMany({ all: true })).body.canceled > 0);
  assert.equal(await statusOf(kept), 'canceled');
});
