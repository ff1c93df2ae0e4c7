/**
 * Mail about delivered emails: bounces, complaints, messages that change nothing, and reports made to
 * block a worker or of any size.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { startJourney } from '../support/journey.ts';
import { feedbackReport, deliverReport, statusReport } from '../support/reports.ts';
import { waitFor } from '../support/wait.ts';

const journey = await startJourney({
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
});
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;
const port = service.readyLine.inbound_port ?? 0;

const TAKEN = /^250 2\.6\.0 /;

/** Sends an email and waits for its end. @returns its id and the return path it left with */
async function delivered(domain: string): Promise<{ id: string; returnPath: string; jo: string }> {
  const mx = await journey.mailServer(domain);
  const jo = `jo@${domain}`;
  const id = await journey.send({ to: jo });
  await journey.ended(id);
  const returnPath = mx.messages[0]?.envelopeFrom ?? '';
  assert.match(returnPath, /^b-[a-z2-7]{48}@send\.acme\.example$/);
  return { id, returnPath, jo };
}

async function statusOf(id: string): Promise<string> {
  return (await journey.email(id)).recipients[0].status;
}

const isSuppressed = async (address: string): Promise<boolean> =>
  (await service.sql('select 1 from suppressions where address_key = $1', [address])).length > 0;

test('a late bounce is an event with its reason, and suppresses the address', async () => {
  const { id, returnPath, jo } = await delivered('late.test');
  const message = statusReport({ recipient: jo });
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  const { status, recipients } = await journey.email(id);
  assert.equal(status, 'bounced');
  const [{ reason, smtp }] = recipients;
  assert.deepEqual([reason.category, reason.blame], ['mailbox', 'recipient']);
  assert.deepEqual(
    [smtp.code, smtp.enhanced_code, smtp.message],
    [550, '5.1.1', '550 5.1.1 No such user here'],
  );
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
  const webhook = await journey.webhook(
    ({ type, data }) => type === 'email.bounced' && data.email_id === id,
  );
  assert.equal(webhook.data.recipient, jo);
  const added = await journey.webhook(
    ({ type, data }) => type === 'suppression.added' && data.address === jo,
  );
  assert.deepEqual([added.data.reason, added.data.source_email_id], ['hard_bounce', id]);
  const again = await journey.request('POST', '/v1/emails', {
    from: 'hello@acme.example',
    to: jo,
    subject: 'Again',
    text: 'Hello',
  });
  assert.equal(again.body.error.code, 'suppressed');
});

test('a complaint to the return path is an event, and suppresses the address', async () => {
  const { id, returnPath, jo } = await delivered('complains.test');
  const message = feedbackReport('gone@elsewhere.test');
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'complained']);
  const [row] = await service.sql('select reason from suppressions where address_key = $1', [jo]);
  assert.equal(row.reason, 'complaint');
});

test('a late bounce counts for the sending domain, and not as a second final status', async () => {
  const counted = async () => {
    const [row] = await service.sql(
      `select sum(ended)::int as ended, sum(bounced)::int as bounced,
              sum(complained)::int as complained from reputation_counts where domain = $1`,
      ['acme.example'],
    );
    return row;
  };
  const ended = async () => {
    const [row] = await service.sql(
      `select count(*)::int as ended from recipients where completed_at is not null`,
    );
    return row.ended;
  };
  const bounce = await delivered('counted-bounce.test');
  const complaint = await delivered('counted-complaint.test');
  // Workers write their counts every few seconds.
  const isCounted = async () => (await counted()).ended === (await ended());
  await waitFor(isCounted, { what: 'the endings to be counted' });
  const before = await counted();
  const message = statusReport({ recipient: bounce.jo });
  assert.match(await deliverReport(port, { to: bounce.returnPath, message }), TAKEN);
  const report = feedbackReport('gone@elsewhere.test');
  assert.match(await deliverReport(port, { to: complaint.returnPath, message: report }), TAKEN);
  const both = async () => {
    const sums = await counted();
    const isWhole = sums.bounced + sums.complained >= before.bounced + before.complained + 2;
    return isWhole && sums;
  };
  const now = await waitFor(both, { what: 'the reports to be counted' });
  assert.deepEqual(now, {
    ended: before.ended,
    bounced: before.bounced + 1,
    complained: before.complained + 1,
  });
});

test('a complaint to fbl@ finds its recipient by the return path in the original', async () => {
  const { id, returnPath, jo } = await delivered('feedback.test');
  const { id: otherId } = await delivered('bystander.test');
  const to = 'fbl@send.acme.example';
  const forged = returnPath.replace(/^b-..../, 'b-aaaa');
  assert.match(await deliverReport(port, { to, message: feedbackReport(forged) }), TAKEN);
  assert.equal(await statusOf(id), 'delivered');
  assert.match(await deliverReport(port, { to, message: feedbackReport(returnPath) }), TAKEN);
  assert.equal(await statusOf(id), 'complained');
  assert.ok(await isSuppressed(jo));
  assert.equal(await statusOf(otherId), 'delivered');
});

test('delay reports, automatic replies, DMARC failure reports and other messages change nothing', async () => {
  const { id, returnPath, jo } = await delivered('nothing.test');
  const away = 'Subject: Out of office\r\nAuto-Submitted: auto-replied\r\n\r\nI am away.\r\n';
  for (const [message, kind] of [
    [statusReport({ recipient: jo, action: 'delayed', status: '4.4.1' }), 'delay'],
    [away, 'auto_reply'],
    ['Subject: Hello\r\n\r\nThank you!\r\n', 'other'],
    [feedbackReport(returnPath, 'auth-failure'), 'other'],
  ] as const) {
    assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
    const [kept] = (await service.cliJson('inbound', 'list', '--limit', '1')).data;
    assert.deepEqual([kept.kind, kept.email_id, kept.change], [kind, id, null]);
  }
  assert.deepEqual(await journey.story(id), ['queued', 'delivered']);
  assert.equal(await isSuppressed(jo), false);
});

test('a bounce that is not about the mailbox suppresses no address', async () => {
  const { id, returnPath, jo } = await delivered('policy.test');
  const diagnostic = '554 5.7.1 Rejected: listed on a blocklist';
  const message = statusReport({ recipient: jo, status: '5.7.1', diagnostic });
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  assert.equal(await statusOf(id), 'bounced');
  assert.equal(await isSuppressed(jo), false);
});

test('a bounce about a forwarding target suppresses the address that we sent to, for a week', async () => {
  const { id, returnPath, jo } = await delivered('forwards.test');
  const message = statusReport({ recipient: 'elsewhere@forwarded.test' });
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  assert.equal(await statusOf(id), 'bounced');
  assert.equal(await isSuppressed('elsewhere@forwarded.test'), false);
  const [row] = await service.sql(
    `select (extract(epoch from expires_at - app_now()) / 86400)::float8 as days
       from suppressions where address_key = $1`,
    [jo],
  );
  assert.ok(row.days > 6.9 && row.days <= 7, String(row.days));
});

test('a repeated report is counted once', async () => {
  const { id, returnPath, jo } = await delivered('twice.test');
  const message = statusReport({ recipient: jo });
  // Some programs quote every local part (RFC 5321 §4.1.2).
  const writings = [
    returnPath,
    returnPath.replace(/^(.+)@/, '"$1"@'),
    `"\\${returnPath.replace('@', '"@')}`,
  ];
  const replies = await Promise.all(
    [...writings, returnPath].map((to) => deliverReport(port, { to, message })),
  );
  for (const reply of [...replies, await deliverReport(port, { to: returnPath, message })]) {
    assert.match(reply, TAKEN);
  }
  const another = statusReport({ recipient: jo, mark: 'another report of the same' });
  assert.match(await deliverReport(port, { to: returnPath, message: another }), TAKEN);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
  const kept = await service.cliJson('inbound', 'list', '--limit', '100');
  const ofEmail = kept.data.filter((one: { email_id: string }) => one.email_id === id);
  assert.deepEqual(
    ofEmail.map(({ change }: { change: string | null }) => change),
    [null, 'bounced'],
  );
});

test('a report changes only the recipient of its return path, whichever address it names', async () => {
  const { id, returnPath } = await delivered('named.test');
  const { id: otherId, jo: other } = await delivered('other.test');
  const message = statusReport({ recipient: other });
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  assert.deepEqual([await statusOf(id), await statusOf(otherId)], ['bounced', 'delivered']);
  assert.equal(await isSuppressed(other), false);
});

test('the recipients of one email are distinguished by their return paths', async () => {
  const mx = await journey.mailServer('several.test');
  const id = await journey.send({ to: ['ann@several.test', 'bob@several.test'] });
  await journey.ended(id);
  const bob = mx.messages.find(({ recipients }) => recipients.includes('bob@several.test'));
  const message = statusReport({ recipient: 'bob@several.test' });
  assert.match(await deliverReport(port, { to: bob?.envelopeFrom ?? '', message }), TAKEN);
  const { status, recipients } = await journey.email(id);
  assert.equal(status, 'bounced');
  assert.deepEqual(
    recipients.map((one: { address: string; status: string }) => [one.address, one.status]),
    [
      ['ann@several.test', 'delivered'],
      ['bob@several.test', 'bounced'],
    ],
  );
});

test('a report about an email that is being sent is deferred', async () => {
  const mx = await journey.mailServer('open.test', { greylist: 1 });
  const id = await journey.send({ to: 'jo@open.test' });
  await journey.attempted(id);
  const lines = mx.sessions.flatMap((session) => session.lines);
  const returnPath = /MAIL FROM:<([^>]+)>/.exec(lines.join('\n'))?.[1] ?? '';
  const message = statusReport({ recipient: 'jo@open.test' });
  assert.match(await deliverReport(port, { to: returnPath, message }), /^451 4\.2\.1 /);
  assert.equal(await statusOf(id), 'deferred');
  const [email] = await service.sql('select open_count, event_count from emails where id = $1', [
    id,
  ]);
  assert.deepEqual(email, { open_count: 1, event_count: 2 });
  await journey.retry(id);
  await journey.ended(id);
  assert.match(await deliverReport(port, { to: returnPath, message }), TAKEN);
  assert.equal(await statusOf(id), 'bounced');
});

test('mail to postmaster and other role addresses is kept as unmatched mail', async () => {
  const names = ['postmaster', '"Postmaster"', 'Abuse', 'dmarc', 'tlsrpt', 'fbl'];
  for (const to of [...names.map((name) => `${name}@send.acme.example`), 'Postmaster']) {
    const name = to.replace(/@.*/, '');
    const message = `From: ann@else.test\r\nSubject: Hello ${name}\r\n\r\nA question\x1b[31m.\r\n`;
    assert.match(await deliverReport(port, { to, message, from: 'ann@else.test' }), TAKEN);
    const [kept] = (await service.cliJson('inbound', 'list', '--limit', '1')).data;
    assert.deepEqual([kept.recipient, kept.kind, kept.email_id], [to, 'other', null]);
    const { stdout } = await service.cli('inbound', 'show', kept.id);
    assert.match(stdout, new RegExp(`Subject: Hello ${name}\\n\\nA question\\[31m\\.`));
  }
});

test('forged and foreign return paths, unknown addresses and relaying are refused at RCPT', async () => {
  const { returnPath } = await delivered('refuses.test');
  const [token] = returnPath.split('@');
  for (const [to, code] of [
    [returnPath.replace(/^b-.../, 'b-aaa'), '550 5.7.1'],
    [`${token}@send.nobody.example`, '550 5.7.1'],
    [`${token?.slice(0, -1)}@send.acme.example`, '550 5.7.1'],
    [`b-@send.acme.example`, '550 5.7.1'],
    [`${token}@acme.example`, '550 5.1.1'],
    ['jo@refuses.test', '550 5.1.1'],
    ['hello@acme.example', '550 5.1.1'],
    ['hello@send.acme.example', '550 5.1.1'],
    ['postmaster@acme.example', '550 5.1.1'],
    ['postmaster@send.nobody.example', '550 5.1.1'],
    ['postmaster@elsewhere.test', '550 5.1.1'],
    ['jo%refuses.test@send.acme.example', '550 5.1.1'],
    ['"jo@refuses.test"@send.acme.example', '550 5.1.1'],
    ['refuses.test!jo@send.acme.example', '550 5.1.1'],
  ] as const) {
    const reply = await deliverReport(port, { to, message: statusReport() });
    assert.ok(reply.startsWith(code), `${to}: ${reply}`);
  }
  for (const from of [returnPath, returnPath.replace(/^(.+)@/, '"$1"@')]) {
    const own = await deliverReport(port, { from, to: returnPath, message: statusReport() });
    assert.match(own, /^550 5\.4\.6 /, from);
  }
});

test('a message with too many Received fields is refused', async () => {
  const { id, returnPath, jo } = await delivered('circles.test');
  const hops = 'Received: from a by b\r\n'.repeat(101);
  const message = `${hops}${statusReport({ recipient: jo })}`;
  assert.match(await deliverReport(port, { to: returnPath, message }), /^554 5\.4\.6 /);
  assert.equal(await statusOf(id), 'delivered');
});

// Moves the clock: the last of this file.
test('a return path is valid for 45 days after the email was due', async () => {
  const { id, returnPath, jo } = await delivered('old.test');
  const kept = async () => (await service.sql('select 1 from inbound_unmatched')).length;
  const before = await kept();
  await journey.pass({ hours: 44 * 24 + 23 });
  const delay = statusReport({ recipient: jo, action: 'delayed', status: '4.4.1' });
  assert.match(await deliverReport(port, { to: returnPath, message: delay }), TAKEN);
  await journey.pass({ hours: 2 });
  const message = statusReport({ recipient: jo });
  assert.match(await deliverReport(port, { to: returnPath, message }), /^550 5\.7\.1 /);
  assert.equal(await statusOf(id), 'delivered');
  assert.equal(await kept(), before + 1);
});

// Reports made to block a worker, and reports of any size: the worker continues to respond.

const POSTMASTER = 'postmaster@send.acme.example';

const HEAD = ['From: MAILER-DAEMON@mx.test', 'Subject: failure notice'];

/** Lines of spaces between words and addresses: 62 KB, which took a worker ten seconds. */
const spaces = [
  ...HEAD,
  '',
  'Your message could not be delivered:',
  ...Array.from({ length: 41 }, () => `${' '.repeat(1_000)}x${' a@b'.repeat(120)}`),
].join('\r\n');

/** 100 fields of 64 KB without an address in them, in the original: 3.7 seconds. */
const fields = [
  ...HEAD,
  'Content-Type: multipart/report; report-type=delivery-status; boundary=b',
  '',
  '--b',
  '',
  'Your message could not be delivered.',
  '--b',
  'Content-Type: message/rfc822',
  '',
  ...Array.from({ length: 100 }, () => `Received: ${'a'.repeat(64_000)}@`),
  '--b--',
].join('\r\n');

/** A worker that reads as it should is busy for milliseconds; others get the machine meanwhile. */
const REPLY_WITHIN_MS = 10_000;

test('reports made to block a worker do not delay its other requests', async () => {
  const attacks = [spaces, fields, spaces, fields].map((message) =>
    deliverReport(port, { to: POSTMASTER, message }),
  );
  const handedIn = Promise.all(attacks);
  const over = new AbortController();
  void handedIn.finally(() => over.abort());
  let slowestMs = 0;
  while (!over.signal.aborted) {
    const startedMs = performance.now();
    const { status } = await journey.request('GET', '/v1/emails?limit=1');
    slowestMs = Math.max(slowestMs, performance.now() - startedMs);
    assert.equal(status, 200);
  }
  for (const reply of await handedIn) assert.match(reply, TAKEN);
  assert.ok(slowestMs < REPLY_WITHIN_MS, `one reply took ${Math.round(slowestMs)} ms`);
});

test('a bounce that quotes an original of 40 MB is accepted and settled', async () => {
  const mx = await journey.mailServer('large.test');
  const id = await journey.send({ to: 'jo@large.test' });
  await journey.ended(id);
  const to = mx.messages[0]?.envelopeFrom ?? '';
  const quoted = `${'x'.repeat(70)}\r\n`.repeat(560_000);
  const message = statusReport({ recipient: 'jo@large.test' }).replace('--b--', `${quoted}--b--`);
  assert.match(await deliverReport(port, { to, message }), TAKEN);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
  const [kept] = await service.sql(
    `select size_bytes, octet_length(content) as bytes from inbound_messages
     where change = 'bounced' and email_id = $1`,
    [id],
  );
  assert.ok(kept.size_bytes > 39_000_000, `${kept.size_bytes}`);
  assert.ok(kept.bytes <= 256 * 1024, `${kept.bytes}`);
});
