/** Deferred emails: retries by the schedule, and expiry. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { MAIL_RETRY_WAITS_MS } from '../../src/core/retry.ts';
import { startJourney } from '../support/journey.ts';
import { waitFor } from '../support/wait.ts';
import { MINUTE_MS } from '../../src/lib/units.ts';

const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());

const GREYLISTED = '451 4.7.1 Greylisted, try again later';

test('greylisted mail is sent again as the same message and delivered', async () => {
  const mx = await journey.mailServer('greylisting.test', {
    messageReplies: { kim: [GREYLISTED, '250 2.0.0 Taken'] },
  });
  const id = await journey.send({ to: 'kim@greylisting.test' });
  const open = await journey.attempted(id);
  assert.equal(open.status, 'deferred');
  assert.equal(open.completed_at, null);
  const [{ reason, smtp }] = open.recipients;
  assert.deepEqual([reason.category, reason.blame], ['greylist', 'receiver']);
  assert.deepEqual([smtp.code, smtp.enhanced_code, smtp.mx], [451, '4.7.1', mx.name]);
  const { status, recipients } = await journey.retry(id);
  assert.equal(status, 'delivered');
  assert.deepEqual([recipients[0].attempts, recipients[0].reason], [2, null]);

  const timeline = await journey.timeline(id);
  const steps = timeline.map(({ type, attempt }) => `${type} ${attempt?.number ?? '-'}`);
  assert.deepEqual(steps, ['email.queued -', 'email.delivery_delayed 1', 'email.delivered 2']);
  const [, first, second] = timeline;
  assert.equal(first.attempt.message_sha256, second.attempt.message_sha256);
});

test('the next attempts come after the waits of the retry schedule, whose last one repeats', async () => {
  await journey.mailServer('patience.test', { greylist: 100 });
  const id = await journey.send({ to: 'kim@patience.test', expires_in: 432_000 });
  await journey.attempted(id);
  for (const scheduledMs of [...MAIL_RETRY_WAITS_MS, MAIL_RETRY_WAITS_MS.at(-1)!]) {
    const { recipients } = await journey.email(id);
    const last = (await journey.timeline(id)).at(-1);
    const waitMs = Date.parse(recipients[0].next_attempt_at) - Date.parse(last.created_at);
    const share = waitMs / scheduledMs;
    assert.ok(share > 0.84 && share < 1.16, `${waitMs} ms instead of ${scheduledMs} ms`);
    await journey.retry(id);
  }
  await journey.pass({ hours: 5 * 24 });
  await journey.ended(id);
});

test('the operator can configure the retry schedule', async () => {
  await using own = await startJourney({ LETTERHAUS_RETRY_WAITS: '2h,6h' });
  await own.mailServer('chosen.test', { greylist: 3 });
  const id = await own.send({ to: 'kim@chosen.test' });
  await own.attempted(id);
  for (const [index, hours] of [2, 6, 6].entries()) {
    const { recipients } = await own.email(id);
    const last = (await own.timeline(id)).at(-1);
    const waitMs = Date.parse(recipients[0].next_attempt_at) - Date.parse(last.created_at);
    const share = waitMs / (hours * 60 * MINUTE_MS);
    assert.ok(share > 0.84 && share < 1.16, `${waitMs} ms instead of ${hours} hours`);
    await own.pass({ hours: 7 });
    await own.attempted(id, index + 2);
  }
  assert.equal((await own.ended(id)).status, 'delivered');
});

test('no attempt is made before it is due', async () => {
  // After 1:42 to 2:18 hours: however slow the machine is, it does not reach the second attempt of the second one.
  await using own = await startJourney({ LETTERHAUS_RETRY_WAITS: '2h' });
  const mx = await own.mailServer('early.test', { greylist: 1 });
  const first = await own.send({ to: 'kim@early.test' });
  await own.attempted(first);
  await own.pass({ hours: 1 });
  const second = await own.send({ to: 'lee@early.test' });
  await own.attempted(second);
  await own.pass({ hours: 1, minutes: 20 });
  await own.ended(first);
  // The worker that claimed the first one again has seen the second one, too.
  assert.equal(mx.sessions.flatMap(({ lines }) => lines).filter(isRcpt).length, 3);
  assert.equal((await own.email(second)).recipients[0].attempts, 1);
  await own.pass({ hours: 1 });
  await own.ended(second);
});

const isRcpt = (line: string) => line.startsWith('C: RCPT');

test('an email that expires ends as failed, and is not tried again', async () => {
  const mx = await journey.mailServer('expiring.test', { greylist: 100 });
  const id = await journey.send({ to: ['kim@expiring.test', 'lee@expiring.test'], expires_in: 60 });
  const { recipients: open, created_at: createdAt } = await journey.allAttempted(id);
  for (const { next_attempt_at: nextAttemptAt } of open) {
    assert.ok(Date.parse(nextAttemptAt) <= Date.parse(createdAt) + MINUTE_MS);
  }
  await journey.pass({ seconds: 61 });
  const { status, recipients } = await journey.ended(id);
  assert.equal(status, 'failed');
  for (const { status: own, attempts, reason, smtp } of recipients) {
    assert.deepEqual([own, attempts, reason.category], ['failed', 1, 'expired']);
    assert.equal(smtp.code, 451); // the last reply
  }
  assert.equal(mx.sessions.flatMap(({ lines }) => lines).filter(isRcpt).length, 2);
  const story = await journey.story(id);
  assert.deepEqual(story.slice(3), ['failed', 'failed']);
});

test('an email without expires_in expires after three days', async () => {
  await journey.mailServer('gone.test', { greylist: 100 });
  const id = await journey.send({ to: 'kim@gone.test' });
  await journey.attempted(id);
  await journey.pass({ hours: 71, minutes: 59 });
  const { status, recipients } = await journey.attempted(id, 2);
  assert.equal(status, 'deferred');
  assert.ok(Date.parse(recipients[0].next_attempt_at) > 0);
  await journey.pass({ minutes: 2 });
  const ended = await journey.ended(id);
  assert.deepEqual([ended.status, ended.recipients[0].reason.category], ['failed', 'expired']);
});

test('when all mail servers are down and recover, the email arrives, even after a restart of the service', async () => {
  const servers = [
    await journey.mailServer('down.test', {}, { preference: 10 }),
    await journey.mailServer('down.test', {}, { preference: 20 }),
  ];
  for (const mx of servers) await mx.stop();
  const id = await journey.send({ to: 'kim@down.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.equal(status, 'deferred');
  const [{ reason, smtp }] = recipients;
  assert.deepEqual([reason.category, reason.blame, smtp.code], ['network', 'receiver', null]);
  for (const mx of servers) await mx.start();
  await journey.service.restart();
  assert.equal((await journey.retry(id)).status, 'delivered');
  assert.deepEqual([servers[0]?.messages.length, servers[1]?.messages.length], [1, 0]);
  assert.deepEqual(await journey.story(id), ['queued', 'delivery_delayed', 'delivered']);
});

test('a server that has just not answered is skipped, and no attempt is counted', async () => {
  const mx = await journey.mailServer('resting.test');
  await mx.stop();
  const ids: string[] = [];
  const allTaken = (times: number) => async () => {
    const find = 'select from queue where holder is not null or claim < $1';
    return (await journey.service.sql(find, [times])).length === 0;
  };
  // Each of the two workers detects it by itself.
  for (const name of ['kim', 'lee', 'max', 'eve', 'pat', 'sam']) {
    ids.push(await journey.send({ to: `${name}@resting.test` }));
  }
  await waitFor(allTaken(1), { what: 'all of them to be released' });
  await journey.pass({ seconds: 125 });
  await waitFor(allTaken(2), { what: 'all of them to be released again' });
  await mx.start();
  await journey.service.restart();
  await journey.pass({ minutes: 3 });
  for (const id of ids) {
    const { status, recipients } = await journey.ended(id);
    const { length } = await journey.timeline(id);
    // The timeline has one event for the accept and one for each attempt.
    assert.deepEqual([status, recipients[0].attempts], ['delivered', length - 1]);
    assert.ok(length <= 3, `${length} events`);
  }
});

test('when the connection is lost after the final dot, no other server is tried and the same message is sent again later', async () => {
  const first = await journey.mailServer('doubt.test', {
    phases: { data: { keep: true, drop: 'rst' } },
  });
  const second = await journey.mailServer('doubt.test', {}, { preference: 20 });
  const id = await journey.send({ to: 'kim@doubt.test' });
  assert.equal((await journey.attempted(id)).status, 'deferred');
  const [, delayed] = await journey.timeline(id);
  assert.equal(delayed.attempt.in_doubt, true);
  assert.equal(delayed.attempt.phase, 'data');
  assert.equal(first.messages.length, 1);
  first.set({});
  assert.equal((await journey.retry(id)).status, 'delivered');
  assert.equal(first.messages.length, 2);
  assert.deepEqual(first.messages[0]?.raw, first.messages[1]?.raw);
  assert.equal(second.connections, 0);
});

test('an email is sent three times at most to a server that keeps it and hangs up', async () => {
  const mx = await journey.mailServer('doubts.test', {
    phases: { data: { keep: true, drop: 'rst' } },
  });
  const id = await journey.send({ to: 'kim@doubts.test' });
  const { recipients } = await journey.attempted(id);
  const [, delayed] = await journey.timeline(id);
  const waitMs = Date.parse(recipients[0].next_attempt_at) - Date.parse(delayed.created_at);
  assert.ok(waitMs > 25 * 60_000, `the next attempt comes after ${waitMs} ms`);
  assert.equal((await journey.retry(id)).status, 'deferred');
  await journey.pass({ hours: 5 });
  const ended = await journey.ended(id);
  assert.deepEqual([ended.status, ended.recipients[0].attempts], ['failed', 3]);
  assert.match(ended.recipients[0].reason.advice, /may have arrived/);
  assert.equal(mx.messages.length, 3);
});

test('a server that refuses in its greeting is tried again later', async () => {
  const mx = await journey.mailServer('closed.test', {
    phases: { greeting: '554 5.7.1 No mail from you' },
  });
  const id = await journey.send({ to: 'kim@closed.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.equal(status, 'deferred');
  assert.deepEqual([recipients[0].smtp.code, recipients[0].smtp.mx], [554, mx.name]);
  mx.set({});
  assert.equal((await journey.retry(id)).status, 'delivered');
});

test('a DNS failure defers the email and does not bounce the recipient', async () => {
  await journey.mailServer('dark.test');
  journey.dns.setFailure('dark.test', 'servfail');
  const id = await journey.send({ to: 'kim@dark.test' });
  const { status, recipients } = await journey.attempted(id);
  assert.equal(status, 'deferred');
  assert.deepEqual([recipients[0].reason.category, recipients[0].smtp.mx], ['network', null]);
  journey.dns.setFailure('dark.test', null);
  assert.equal((await journey.retry(id)).status, 'delivered');
});

test('removing a sending domain ends its deferred mail', async () => {
  const mx = await journey.mailServer('waiting.test', { greylist: 1 });
  await journey.service.addLiveDomain('removed.example');
  const { body: domains } = await journey.request('GET', '/v1/domains');
  const { id: domainId } = domains.data.find(
    ({ name }: { name: string }) => name === 'removed.example',
  );
  const id = await journey.send({ from: 'us@removed.example', to: 'kim@waiting.test' });
  await journey.attempted(id);
  const { status: deleted } = await journey.request('DELETE', `/v1/domains/${domainId}`);
  assert.ok(deleted === 200 || deleted === 204);
  await journey.pass({ minutes: 2 });
  const { status, recipients } = await journey.ended(id);
  assert.equal(status, 'failed');
  assert.deepEqual([recipients[0].attempts, recipients[0].reason.blame], [1, 'sender']);
  assert.equal(mx.messages.length, 0);
  assert.deepEqual(await journey.story(id), ['queued', 'delivery_delayed', 'failed']);
});

test('mail of a sending domain that lost its verification waits until it is verified again', async () => {
  const mx = await journey.mailServer('patient.test', { greylist: 1 });
  await journey.service.addLiveDomain('lapsed.example');
  const id = await journey.send({ from: 'us@lapsed.example', to: 'kim@patient.test' });
  await journey.attempted(id);
  const setStatus = (status: string) =>
    journey.service.sql(`update domains set status = $1 where name = 'lapsed.example'`, [status]);
  await setStatus('failed');
  await journey.pass({ minutes: 2 });
  const waiting = await journey.attempted(id, 2);
  const [{ status, reason }] = waiting.recipients;
  assert.deepEqual(
    [status, reason.category, reason.blame],
    ['deferred', 'authentication', 'sender'],
  );
  assert.equal(mx.messages.length, 0);
  await setStatus('verified');
  assert.equal((await journey.retry(id)).status, 'delivered');
  assert.equal(mx.messages.length, 1);
});

test('removing a sending domain ends its mail that is queued in memory', async () => {
  const { service } = journey;
  const release = Promise.withResolvers<void>();
  const greeting = { after: release.promise, reply: '220 slow.test ESMTP' };
  const mx = await journey.mailServer('slow.test', { phases: { greeting } });
  await service.addLiveDomain('leaving.example');
  const { body: domains } = await journey.request('GET', '/v1/domains');
  const { id: domainId } = domains.data.find(
    ({ name }: { name: string }) => name === 'leaving.example',
  );
  const send = (_: unknown, n: number) =>
    journey.send({ from: 'us@leaving.example', to: `kim${n}@slow.test` });
  const ids = await Promise.all(Array.from({ length: 80 }, send));
  await waitFor(() => mx.sessions.length > 0, { what: 'the server to be asked' });
  await journey.request('DELETE', `/v1/domains/${domainId}`);
  const since = `select from domains where id = $1 and deleted_at < app_now() - interval '3 seconds'`;
  await waitFor(async () => (await service.sql(since, [domainId]))[0], { what: 'three seconds' });
  release.resolve();

  const emails = [];
  for (const id of ids) emails.push(await journey.ended(id));
  const failed = emails.filter(({ status }) => status === 'failed');
  // Deliveries that had asked for a connection are sent.
  assert.ok(failed.length >= 40, `${failed.length} failed`);
  assert.equal(mx.messages.length, ids.length - failed.length);
  assert.equal(failed[0].recipients[0].reason.blame, 'sender');
});

test('an address that is suppressed while its email waits gets no further attempt', async () => {
  const mx = await journey.mailServer('stopped.test', { greylist: 1 });
  const id = await journey.send({ to: ['kim@stopped.test', 'lee@stopped.test'] });
  await journey.allAttempted(id);
  await journey.service.cliJson('suppressions', 'add', 'Kim@stopped.test', '--environment', 'live');
  await journey.pass({ minutes: 2 });
  const { status, recipients } = await journey.ended(id);
  assert.equal(status, 'suppressed');
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['suppressed', 'delivered'],
  );
  assert.deepEqual(
    mx.messages.map((message) => message.recipients),
    [['lee@stopped.test']],
  );
});
