/** `mailto:` beside the one-click link (RFC 2369): mail to it unsubscribes as the link does. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { assertFailure, EMAIL } from '../support/api.ts';
import { startJourney } from '../support/journey.ts';
import { feedbackReport, deliverReport, statusReport } from '../support/reports.ts';

const PUBLIC_URL = 'https://mail.acme.example';

const journey = await startJourney({
  LETTERHAUS_PUBLIC_URL: PUBLIC_URL,
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
});
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const port = service.readyLine.inbound_port ?? 0;

const TAKEN = /^250 2\.6\.0 /;
const BY_HAND = 'From: kim@elsewhere.test\r\nSubject: unsubscribe\r\n\r\n\r\n';

async function entryOf(address: string) {
  const { status, body } = await journey.request('GET', `/v1/suppressions/${address}`);
  return status === 200 ? body : null;
}

/** Sends an email. @returns the mailto links by which its recipients unsubscribe, by address */
async function mailtosOf(to: readonly string[]): Promise<{ id: string; mailtos: string[] }> {
  const domain = to[0]!.slice(to[0]!.indexOf('@') + 1);
  const mx = await journey.mailServer(domain);
  const id = await journey.send({ to, unsubscribe: true });
  await journey.ended(id);
  const mailtos = to.map((address) => {
    const { raw } = mx.messages.find(({ recipients }) => recipients.includes(address))!;
    const field = /^List-Unsubscribe: <(.*)>, <mailto:(.*)\?subject=unsubscribe>\r$/m;
    const [, link = '', mailto = ''] = field.exec(raw.toString()) ?? assert.fail(raw.toString());
    assert.ok(link.startsWith(`${PUBLIC_URL}/u/`));
    assert.match(raw.toString(), /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
    assert.match(mailto, /^u-[a-z2-7]{48}@send\.acme\.example$/);
    return mailto;
  });
  return { id, mailtos };
}

test('mail to the address in List-Unsubscribe unsubscribes that recipient only', async () => {
  const [ann, ben] = ['ann@bymail.test', 'ben@bymail.test'] as const;
  const { id, mailtos } = await mailtosOf([ann, ben]);
  const [to = ''] = mailtos;
  assert.match(await deliverReport(port, { to, message: BY_HAND }), TAKEN);
  const { reason, source_email_id, history } = await entryOf(ann);
  assert.deepEqual([reason, source_email_id, history[0].by], ['unsubscribe', id, 'recipient']);
  assert.equal(await entryOf(ben), null);
  await journey.webhook(({ type, data }) => type === 'suppression.added' && data.address === ann);
  const next = { ...EMAIL, from: 'hello@acme.example', to: ann };
  assertFailure(await journey.request('POST', '/v1/emails', next), 422, 'suppressed');
  const [kept] = (await service.cliJson('inbound', 'list', '--limit', '1')).data;
  assert.deepEqual([kept.kind, kept.email_id], ['unsubscribe', id]);

  for (let again = 0; again < 3; again += 1) {
    const message = `${BY_HAND}${again}\r\n`;
    assert.match(await deliverReport(port, { to: to.toUpperCase(), message }), TAKEN);
  }
  assert.equal((await entryOf(ann)).history.length, 1);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'delivered']);
});

test('unsubscribing by mail works with a null sender, from Apple Mail, by complaint and a month later', async () => {
  const names = ['null', 'apple', 'spam', 'agent', 'late'];
  const to = names.map((name) => `${name}@meant.test`);
  const { mailtos } = await mailtosOf(to);
  const messages = [
    BY_HAND,
    'X-Apple-Unsubscribe: true\r\nAuto-Submitted: auto-replied\r\nSubject: x\r\n\r\nx\r\n',
    feedbackReport('gone@elsewhere.test'),
    'Auto-Submitted: auto-generated\r\nSubject: Unsubscribe\r\n\r\n\r\n',
  ];
  for (const [index, message] of messages.entries()) {
    assert.match(await deliverReport(port, { from: '', to: mailtos[index]!, message }), TAKEN);
    assert.equal((await entryOf(to[index]!))?.reason, 'unsubscribe', names[index]!);
  }
  await journey.pass({ hours: 24 * 50 });
  assert.match(await deliverReport(port, { to: mailtos[4]!, message: BY_HAND }), TAKEN);
  assert.equal((await entryOf(to[4]!))?.reason, 'unsubscribe');
});

test('automatic replies, bounces and forged addresses unsubscribe no recipient', async () => {
  const kim = 'kim@notmeant.test';
  const { mailtos } = await mailtosOf([kim]);
  const [to = ''] = mailtos;
  for (const message of [
    'Auto-Submitted: auto-replied\r\nSubject: Out of office\r\n\r\nI am away.\r\n',
    'Subject: Automatic reply: unsubscribe\r\n\r\nI am away.\r\n',
    'X-Autoreply: yes\r\nSubject: Re: unsubscribe\r\n\r\nI am away.\r\n',
    statusReport({ recipient: kim }),
    statusReport({ recipient: kim, action: 'delayed', status: '4.4.1' }),
  ]) {
    assert.match(await deliverReport(port, { from: '', to, message }), TAKEN);
    assert.equal(await entryOf(kim), null, message);
  }
  const returnPath = to.replace('u-', 'b-');
  const middle = to.replace(
    /^(u-.{10})./,
    (_, start: string) => `${start}${to[12] === 'a' ? 'b' : 'a'}`,
  );
  for (const forged of [returnPath, middle, to.replace('acme', 'other')]) {
    assert.match(await deliverReport(port, { to: forged, message: BY_HAND }), /^550 /, forged);
  }
  // Mail that is sent as from there goes in circles.
  assert.match(await deliverReport(port, { from: to, to, message: BY_HAND }), /^550 5\.4\.6 /);
  assert.equal(await entryOf(kim), null);
});
