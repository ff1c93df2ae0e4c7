/**
 * Delivery notices that a client requests by SMTP (RFC 3461): which are sent, to whom, and which requests are passed
 * on.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { deliverReport, statusReport } from '../support/reports.ts';
import { idIn, openLoggedIn, SUBMISSION_ENV } from '../support/submission.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({ ...SUBMISSION_ENV, LETTERHAUS_INBOUND_PORT: '0' });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const [port = 0] = service.readyLine.submission_ports ?? [];
const inbound = service.readyLine.inbound_port ?? 0;
const key = await journey.key();
/** The mail server of the envelope senders: a verified domain of the project other than that of From. */
const home = await journey.mailServer('home.example', {
  recipients: { refuser: '550 5.1.1 No such user' },
});
await service.addLiveDomain('home.example');

async function submit(from: string, to: readonly string[]): Promise<string> {
  await using client = await openLoggedIn({ port, key });
  assert.equal(await client.ask(`MAIL FROM:${from}`), '250 2.1.0 Ok');
  for (const one of to) assert.equal(await client.ask(`RCPT TO:${one}`), '250 2.1.5 Ok', one);
  await client.ask('DATA');
  const lines = ['From: hello@acme.example', 'Subject: Hello', '', 'The body', '.'];
  const id = idIn(await client.ask(lines.join('\r\n')));
  await journey.ended(id);
  return id;
}

/** Position, kind and action of the notices about an email, which are stored with its outcomes. */
async function noticesOf(id: string): Promise<string[]> {
  const rows = await service.sql(
    `select position || ' ' || kind || ' ' || (facts ->> 'action') as notice
       from notices where email_id = $1 order by 1`,
    [id],
  );
  return rows.map(({ notice }) => notice as string);
}

/** When all of them are accepted, or nobody may get them. */
async function handled(id: string): Promise<void> {
  const isDone = async () => {
    const waiting = 'select from notices where email_id = $1 and due_at is not null';
    return (await service.sql(waiting, [id])).length === 0;
  };
  await waitFor(isDone, { what: 'the notices to be handled', timeoutMs: 60_000 });
}

/** The notices that came home about a recipient. */
const about = (address: string) =>
  home.messages.filter(({ raw }) => raw.includes(`Final-Recipient: rfc822;${address}\r\n`));

async function noticeAbout(address: string): Promise<string> {
  await waitFor(() => about(address).length > 0, {
    what: `a notice: ${address}`,
    timeoutMs: 60_000,
  });
  const [notice] = about(address);
  assert.deepEqual([notice?.envelopeFrom, notice?.recipients], ['', ['app@home.example']]);
  return notice?.raw.toString() ?? '';
}

test('each recipient is reported as its NOTIFY requests, from the null reverse-path and signed', async () => {
  const bad = '550 5.1.1 No such user here';
  await journey.mailServer('plain.test', {
    recipients: { bad, quiet: bad, plain: bad, glad: bad },
  });
  await service.cliJson('suppressions', 'add', 'gone@plain.test', '--environment', 'live');
  const id = await submit('<app@home.example> RET=FULL ENVID=QQ+2B314', [
    '<ok@plain.test> NOTIFY=SUCCESS',
    '<bad@plain.test> NOTIFY=SUCCESS,FAILURE ORCPT=rfc822;old+2Bnews@plain.test',
    '<quiet@plain.test> NOTIFY=NEVER',
    '<plain@plain.test>',
    '<glad@plain.test> NOTIFY=SUCCESS,DELAY',
    '<gone@plain.test> NOTIFY=FAILURE',
    '<well@plain.test> NOTIFY=FAILURE,DELAY',
  ]);
  assert.deepEqual(await noticesOf(id), [
    '0 success relayed',
    '1 failure failed',
    '5 failure failed',
  ]);
  const failed = await noticeAbout('bad@plain.test');
  assert.match(
    failed,
    /^DKIM-Signature: [^]*^From: Mail Delivery System <mailer-daemon@acme\.exam/m,
  );
  assert.match(failed, /^Original-Envelope-Id: QQ\+314\r$/m);
  assert.match(failed, /^Original-Recipient: rfc822;old\+news@plain\.test\r$/m);
  assert.match(failed, /^Action: failed\r\nStatus: 5\.1\.1\r$/m);
  assert.match(failed, /^Diagnostic-Code: smtp; 550 5\.1\.1 No such user here\r$/m);
  assert.match(failed, /The body/);
  const relayed = await noticeAbout('ok@plain.test');
  assert.match(relayed, /^Action: relayed\r\nStatus: 2\./m);
  assert.ok(!relayed.includes('The body'));
  assert.match(await noticeAbout('gone@plain.test'), /^Action: failed\r\nStatus: 5\.7\.1\r$/m);
});

test('a server with DSN gets the parameters, and what it reports is passed on', async () => {
  const mx = await journey.mailServer('dsn.test', { dsn: true });
  const id = await submit('<app@home.example> ENVID=x RET=HDRS', [
    '<jo@dsn.test> notify=delay,success ORCPT=rfc822;jo@old.test',
    '<kim@dsn.test> NOTIFY=NEVER',
    '<lee@dsn.test>',
  ]);
  assert.deepEqual(await noticesOf(id), []);
  const lines = mx.sessions.flatMap((session) => session.lines);
  assert.equal(lines.filter((line) => line.endsWith(' RET=HDRS ENVID=x')).length, 3);
  assert.deepEqual(lines.filter((line) => line.startsWith('C: RCPT')).toSorted(), [
    'C: RCPT TO:<jo@dsn.test> NOTIFY=SUCCESS,DELAY ORCPT=rfc822;jo@old.test',
    'C: RCPT TO:<kim@dsn.test> NOTIFY=NEVER',
    'C: RCPT TO:<lee@dsn.test>',
  ]);
  const pathTo = (address: string) =>
    mx.messages.find(({ recipients }) => recipients.includes(address))?.envelopeFrom ?? '';
  for (const [action, status] of [
    ['delayed', '4.4.1'],
    ['delivered', '2.0.0'],
    ['delivered', '2.0.0'],
  ] as const) {
    for (const recipient of ['jo@dsn.test', 'kim@dsn.test']) {
      const message = statusReport({ recipient, action, status, diagnostic: '250 Ok' });
      assert.match(await deliverReport(inbound, { to: pathTo(recipient), message }), /^250 /);
    }
  }
  assert.deepEqual(await noticesOf(id), ['0 delay delayed', '0 success delivered']);
  await handled(id);
  await waitFor(() => about('jo@dsn.test').length === 2, {
    what: 'both notices',
    timeoutMs: 60_000,
  });
  const [delayed, delivered] = about('jo@dsn.test')
    .map(({ raw }) => raw.toString())
    .toSorted();
  assert.ok([delayed, delivered].some((raw) => raw?.includes('Action: delivered\r\n')));
});

test('no notice goes to a stranger, about the null reverse-path, or about a notice', async () => {
  const bad = '550 5.1.1 No such user here';
  await journey.mailServer('none.test', { recipients: { one: bad, two: bad, three: bad } });
  const victim = await journey.mailServer('victim.test');
  const strange = await submit('<jo@victim.test>', ['<one@none.test> NOTIFY=FAILURE']);
  const nobody = await submit('<>', ['<two@none.test> NOTIFY=FAILURE']);
  assert.deepEqual(await noticesOf(nobody), []);
  const refused = await submit('<refuser@home.example>', ['<three@none.test> NOTIFY=FAILURE']);
  await handled(strange);
  await handled(refused);
  assert.deepEqual(victim.messages, []);
  const [notice] = await service.sql(
    `select id from emails where tags @> '[{"name": "letterhaus_notice"}]' and to_list = array['refuser@home.example']`,
  );
  assert.equal((await journey.ended(notice?.['id'] as string)).status, 'bounced');
  assert.deepEqual(await noticesOf(notice?.['id'] as string), []);
});
