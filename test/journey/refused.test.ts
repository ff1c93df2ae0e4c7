/** Emails that a receiver refuses: statuses, events and suppressions. */
import { isAscii } from 'node:buffer';
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { decodedFieldValue, readHeader } from '../../src/mail/mime/reader.ts';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney();
after(() => journey[Symbol.asyncDispose]());

/** Returns the response of the API to another email to this address. */
async function again(to: string): Promise<string> {
  const draft = { from: 'hello@acme.example', to, subject: 'Again', text: 'Again' };
  const { status, body } = await journey.request('POST', '/v1/emails', draft);
  return status === 202 ? 'accepted' : `${status} ${body.error.code}`;
}

test('an unknown mailbox bounces at once and is suppressed', async () => {
  const mx = await journey.mailServer('unknown.test', {
    recipients: { kim: '550 5.1.1 No such user here' },
  });
  const id = await journey.send({ to: 'kim@unknown.test' });
  const email = await journey.ended(id);
  assert.equal(email.status, 'bounced');
  const [{ status, attempts, next_attempt_at: nextAttemptAt, reason, smtp }] = email.recipients;
  assert.deepEqual([status, attempts, nextAttemptAt], ['bounced', 1, null]);
  assert.deepEqual([reason.category, reason.blame], ['mailbox', 'recipient']);
  assert.ok(reason.advice.length > 20);
  assert.deepEqual(
    [smtp.code, smtp.enhanced_code, smtp.message, smtp.mx],
    [550, '5.1.1', 'No such user here', mx.name],
  );
  assert.deepEqual(await journey.story(id), ['queued', 'bounced']);
  assert.equal(mx.messages.length, 0);
  assert.equal(await again('Kim@unknown.test'), '422 suppressed');
  assert.equal(await again('kim@UNKNOWN.test'), '422 suppressed');
  assert.equal(await again('lee@unknown.test'), 'accepted');
});

test('when one of three recipients bounces, the email is bounced and the others get their copy', async () => {
  const mx = await journey.mailServer('mixed.test', {
    recipients: { lee: '550 5.1.1 No such user here' },
  });
  const id = await journey.send({ to: ['kim@mixed.test', 'lee@mixed.test', 'max@mixed.test'] });
  const { status, recipients, last_event: lastEvent } = await journey.ended(id);
  assert.equal(status, 'bounced');
  assert.ok(['email.bounced', 'email.delivered'].includes(lastEvent));
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['delivered', 'bounced', 'delivered'],
  );
  const reached = mx.messages.flatMap((message) => message.recipients);
  assert.deepEqual(reached.toSorted(), ['kim@mixed.test', 'max@mixed.test']);
  const ended = (await journey.timeline(id)).map(({ type, recipient }) => `${type} ${recipient}`);
  assert.deepEqual(ended.toSorted(), [
    'email.bounced lee@mixed.test',
    'email.delivered kim@mixed.test',
    'email.delivered max@mixed.test',
    'email.queued null',
  ]);
});

test('each recipient of one email has its own outcome: delivered, deferred or bounced', async () => {
  const mx = await journey.mailServer('each.test', {
    recipients: { lee: ['452 4.2.2 Mailbox full', '250 2.1.5 Ok'], max: '550 5.1.1 Unknown' },
    messageReplies: { eve: '554 5.7.1 Looks like spam' },
  });
  const to = ['kim', 'lee', 'max', 'eve'].map((name) => `${name}@each.test`);
  const id = await journey.send({ to });
  const statuses = (email: { recipients: { status: string }[] }) =>
    email.recipients.map(({ status }) => status);
  const open = await journey.allAttempted(id);
  assert.equal(open.status, 'deferred');
  assert.deepEqual(statuses(open), ['delivered', 'deferred', 'bounced', 'bounced']);
  assert.equal(open.recipients[1].reason.category, 'quota');
  await journey.pass({ minutes: 2 });
  const ended = await journey.ended(id);
  assert.equal(ended.status, 'bounced');
  assert.deepEqual(statuses(ended), ['delivered', 'delivered', 'bounced', 'bounced']);
  assert.equal(mx.messages.length, 2);
  assert.equal((await journey.timeline(id)).length, 6);
  // A refusal of the message says nothing about the mailbox.
  assert.equal(await again('max@each.test'), '422 suppressed');
  assert.equal(await again('eve@each.test'), 'accepted');
});

test('a message that is refused because of its sender does not suppress the recipient', async () => {
  await journey.mailServer('policy.test', {
    recipients: { kim: '550 5.7.1 Rejected by policy' },
    messageReplies: { lee: '550 5.7.26 This mail is unauthenticated' },
  });
  for (const name of ['kim', 'lee']) {
    const { status, recipients } = await journey.ended(
      await journey.send({ to: `${name}@policy.test` }),
    );
    assert.equal(status, 'bounced');
    assert.notEqual(recipients[0].reason.category, 'mailbox');
    assert.notEqual(recipients[0].reason.blame, 'recipient');
    assert.equal(await again(`${name}@policy.test`), 'accepted');
  }
});

test("a message larger than the server's SIZE limit is not sent", async () => {
  const mx = await journey.mailServer('small.test', { sizeBytesMax: 20_000 });
  const id = await journey.send({ to: 'kim@small.test', html: `<p>${'long '.repeat(5_000)}</p>` });
  const email = await journey.ended(id);
  assert.equal(email.status, 'bounced');
  assert.equal(email.recipients[0].smtp.enhanced_code, '5.3.4');
  assert.match(email.recipients[0].smtp.message, /20,000/);
  assert.ok(!mx.sessions.some(({ lines }) => lines.some((line) => line.startsWith('C: MAIL'))));
  assert.equal(await again('kim@small.test'), 'accepted');
});

test('at a server without SMTPUTF8 only a recipient outside of ASCII bounces; a domain outside of ASCII does not', async () => {
  const mx = await journey.mailServer('ascii.test', { smtpUtf8: false });
  const idn = await journey.mailServer('xn--bcher-kva.test', { smtpUtf8: false });
  const to = ['kim@ascii.test', 'J\u00fcrgen <j\u00fcrgen@ascii.test>', 'lee@b\u00fccher.test'];
  const id = await journey.send({ to, cc: 'max@ascii.test' });
  const { recipients } = await journey.ended(id);
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['delivered', 'bounced', 'delivered', 'delivered'],
  );
  const [, { smtp, reason }] = recipients;
  assert.equal(smtp.enhanced_code, '5.6.7');
  assert.deepEqual([reason.category, reason.blame], ['protocol', 'receiver']);
  assert.match(reason.advice, /SMTPUTF8/);
  for (const { raw, smtpUtf8 } of [...mx.messages, ...idn.messages]) {
    assert.ok(isAscii(raw) && !smtpUtf8);
    const { fields } = readHeader(raw);
    const shown = 'kim@ascii.test, J\u00fcrgen <j\u00fcrgen@ascii.test> :;, lee@xn--bcher-kva.test';
    assert.equal(decodedFieldValue(fields, 'to'), shown);
  }
});

test('a sender outside of ASCII is to blame where a server lacks SMTPUTF8', async () => {
  const mx = await journey.mailServer('ascii-only.test', { smtpUtf8: false });
  for (const draft of [
    { from: 'Acme <j\u00fcrgen@acme.example>' },
    { reply_to: 'j\u00fcrgen@acme.example' },
  ]) {
    const [{ status, reason, smtp }] = (
      await journey.ended(await journey.send({ to: 'kim@ascii-only.test', ...draft }))
    ).recipients;
    assert.deepEqual([status, reason.category, reason.blame], ['bounced', 'content', 'sender']);
    assert.match(reason.advice, /SMTPUTF8/);
    assert.equal(smtp.enhanced_code, '5.6.9');
  }
  assert.equal(mx.messages.length, 0);
  assert.equal(await again('kim@ascii-only.test'), 'accepted');
});

test('a recipient outside of ASCII gets the email from another server of the domain with SMTPUTF8', async () => {
  await journey.mailServer('second.test', { smtpUtf8: false });
  const second = await journey.mailServer('second.test', {}, { preference: 20 });
  const email = await journey.ended(await journey.send({ to: 'j\u00fcrgen@second.test' }));
  assert.equal(email.status, 'delivered');
  assert.equal(second.messages[0]?.smtpUtf8, true);
});

test('when only some recipients are suppressed, the others get the email', async () => {
  const mx = await journey.mailServer('some.test', { recipients: { lee: '550 5.1.1 Unknown' } });
  await journey.ended(await journey.send({ to: 'lee@some.test' }));
  const id = await journey.send({ to: ['kim@some.test', 'lee@some.test'] });
  const { status, recipients } = await journey.ended(id);
  assert.equal(status, 'suppressed');
  assert.deepEqual(
    recipients.map((one: { status: string; attempts: number }) => [one.status, one.attempts]),
    [
      ['delivered', 1],
      ['suppressed', 0],
    ],
  );
  assert.deepEqual(
    mx.messages.map((message) => message.recipients),
    [['kim@some.test']],
  );
  assert.deepEqual((await journey.story(id)).toSorted(), ['delivered', 'queued', 'suppressed']);
});

test('the webhook of a suppression names the email that caused it', async () => {
  await journey.mailServer('list.test', { recipients: { kim: '550 5.1.1 Unknown' } });
  const id = await journey.send({ to: 'kim@list.test' });
  await journey.ended(id);
  const { data } = await journey.webhook(
    ({ type, data: added }) => type === 'suppression.added' && added.address === 'kim@list.test',
  );
  assert.equal(data.source_email_id, id);
  assert.equal(data.reason, 'hard_bounce');
  assert.equal(data.expires_at, null);
});
