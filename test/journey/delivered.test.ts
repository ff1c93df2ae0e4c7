/** Delivered emails: the message that the receiver gets, and the email in the API. */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { authenticate } from 'mailauth';
import PostalMime, { type Email } from 'postal-mime';
import type { ReceivedMessage } from '../support/fake-mx.ts';
import { OWN_NAME, startJourney } from '../support/journey.ts';

const journey = await startJourney({}, { args: ['--workers', '2'] });
after(() => journey[Symbol.asyncDispose]());

/** As a mail program shows it, by an independent parser. */
function read(message: ReceivedMessage | undefined): Promise<Email> {
  assert.ok(message);
  return PostalMime.parse(message.raw);
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex');

test('a delivered email arrives as it was written', async () => {
  const mx = await journey.mailServer('written.test');
  const id = await journey.send({
    from: 'Jörg at Acme <hello@acme.example>',
    to: ['Kim Ko <kim@written.test>'],
    cc: 'lee@written.test',
    reply_to: 'Support <help@acme.example>',
    subject: 'Grüße – your order №42',
    html: '<p>Dear Kim,</p>\n<p>.two dots.. and a line of ünïcödé ✓</p>\n.',
    text: 'Dear Kim,\n.two dots.. and a line of ünïcödé ✓\n.\n',
  });
  const { message_id: messageId, created_at: createdAt } = await journey.ended(id);
  assert.equal(mx.messages.length, 2);
  const [first, second] = mx.messages;
  assert.deepEqual(first?.raw, second?.raw);
  const email = await read(first);
  assert.deepEqual(email.from, { name: 'Jörg at Acme', address: 'hello@acme.example' });
  assert.deepEqual(email.to, [{ name: 'Kim Ko', address: 'kim@written.test' }]);
  assert.deepEqual(email.cc, [{ name: '', address: 'lee@written.test' }]);
  assert.deepEqual(email.replyTo, [{ name: 'Support', address: 'help@acme.example' }]);
  assert.equal(email.subject, 'Grüße – your order №42');
  assert.match(
    email.html ?? '',
    /^<p>Dear Kim,<\/p>\r?\n<p>\.two dots\.\. and a line of ünïcödé ✓<\/p>\r?\n\.\s*$/,
  );
  assert.match(
    email.text ?? '',
    /^Dear Kim,\r?\n\.two dots\.\. and a line of ünïcödé ✓\r?\n\.\s*$/,
  );
  assert.equal(email.messageId, messageId);
  assert.equal(Date.parse(email.date ?? ''), Math.floor(Date.parse(createdAt) / 1000) * 1000);
});

const TAGS = [{ name: 'kind', value: 'receipt' }];
const METADATA = { order: '42' };

/** Delivers an email to a server whose reply has two lines. */
async function deliverTo(domain: string) {
  const mx = await journey.mailServer(domain, {
    phases: { data: '250-2.0.0 Taken\n250 2.0.0 queued as 4711' },
  });
  const id = await journey.send({
    to: `kim@${domain}`,
    subject: 'Hi',
    html: 'Hi',
    tags: TAGS,
    metadata: METADATA,
  });
  const email = await journey.ended(id);
  const smtp = {
    code: 250,
    enhanced_code: '2.0.0',
    message: 'Taken\nqueued as 4711',
    mx: mx.name,
    ip: mx.address,
    tls: null,
    tls_policy: 'none',
  };
  return { id, mx, email, smtp };
}

test('a delivered email shows the reply of the server', async () => {
  const { id, email, smtp } = await deliverTo('replied.test');
  const [recipient] = email.recipients;
  const { completed_at: completedAt, ...rest } = recipient;
  assert.deepEqual(rest, {
    address: 'kim@replied.test',
    kind: 'to',
    status: 'delivered',
    attempts: 1,
    next_attempt_at: null,
    reason: null,
    smtp,
  });
  assert.equal(email.status, 'delivered');
  assert.equal(email.last_event, 'email.delivered');
  assert.equal(email.sent_at, completedAt);
  assert.equal(email.completed_at, completedAt);
  assert.equal(email.message_id, `<${id}@acme.example>`);
});

test('the events of a delivered email have its subject, tags and metadata', async () => {
  const { id, email, smtp } = await deliverTo('events.test');
  const [queued, delivered] = await journey.timeline(id);
  assert.equal(queued.type, 'email.queued');
  assert.equal(delivered.type, 'email.delivered');
  assert.equal(delivered.recipient, 'kim@events.test');
  assert.deepEqual(delivered.data.smtp, smtp);
  for (const event of [queued, delivered]) {
    assert.deepEqual([event.data.tags, event.data.metadata], [TAGS, METADATA]);
    assert.deepEqual([event.data.subject, event.data.message_id], ['Hi', email.message_id]);
  }
  const common = 'email_id from message_id metadata status subject tags to'.split(' ');
  assert.deepEqual(Object.keys(queued.data).toSorted(), common);
  assert.deepEqual(
    Object.keys(delivered.data).toSorted(),
    [...common, 'recipient', 'smtp'].toSorted(),
  );
});

test('a delivered email shows the dialogue and the bytes that arrived', async () => {
  const { id, mx } = await deliverTo('dialogue.test');
  const [, { attempt }] = await journey.timeline(id);
  const dialogue = attempt.transcript.join('\n');
  const phases = Object.entries<number>(attempt.phase_ms);
  for (const [phase, ms] of phases)
    assert.match(`${phase} ${ms}`, /^(?:dns|wait|connect|tls) [1-9]\d*$/);
  const parts = [
    'S: 220 fake.test',
    `C: EHLO ${OWN_NAME}`,
    'C: MAIL FROM:<b-',
    'C: RCPT TO:<kim@dialogue.test>',
    'C: DATA',
    'S: 354',
    'S: 250',
  ];
  for (const part of parts) assert.ok(dialogue.includes(part), `${part} is not in\n${dialogue}`);
  const content = await fetch(`${journey.service.url}/v1/emails/${id}/content`, {
    headers: { authorization: `Bearer ${await journey.service.liveKey()}` },
  });
  assert.equal(content.headers.get('content-type'), 'message/rfc822');
  const arrived = mx.messages[0]!.raw;
  assert.deepEqual(Buffer.from(await content.arrayBuffer()), arrived);
  assert.equal(attempt.message_sha256, sha256(arrived));
  assert.equal(attempt.message_bytes, arrived.length);
});

/** SPF, DKIM and DMARC as a receiver checks them, with the same DNS. */
async function judge(message: ReceivedMessage, clientIp: string) {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const result = await authenticate(message.raw, {
    sender: message.envelopeFrom,
    ip: clientIp,
    helo: OWN_NAME,
    mta: 'mx.test',
    strict: true,
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[][],
  });
  const { spf, dmarc, dkim } = result;
  return {
    spf: spf && spf.status.result,
    dmarc: dmarc && dmarc.status.result,
    dkim: dkim.results,
  };
}

test('SPF, DKIM and DMARC pass at the receiver', async () => {
  const mx = await journey.mailServer('strict.test');
  journey.dns.set('_dmarc.acme.example', 'TXT', ['v=DMARC1; p=reject; adkim=s']);
  await journey.ended(
    await journey.send({ to: 'kim@strict.test', subject: 'Hi', html: '<p>Hi</p>' }),
  );
  const clientIp = mx.sessions[0]!.socket.remoteAddress!;
  const { spf, dkim, dmarc } = await judge(mx.messages[0]!, clientIp);
  assert.equal(spf, 'pass');
  assert.equal(dmarc, 'pass');
  const signatures = dkim.map(({ algo, status }) => `${algo} ${status.result} ${status.aligned}`);
  assert.deepEqual(signatures.toSorted(), [
    'ed25519-sha256 pass acme.example',
    'rsa-sha256 pass acme.example',
  ]);

  const { raw } = mx.messages[0]!;
  const altered = Buffer.from(
    raw.toString('latin1').replace('Subject: Hi', 'Subject: Ha'),
    'latin1',
  );
  const forged = await judge({ ...mx.messages[0]!, raw: altered }, clientIp);
  assert.ok(forged.dkim.every(({ status }) => status.result !== 'pass'));
});

test('each copy has a return path of its own, at a host of the sending domain', async () => {
  const mx = await journey.mailServer('return.test');
  await journey.ended(await journey.send({ to: ['kim@return.test', 'lee@return.test'] }));
  const paths = mx.messages.map(({ envelopeFrom }) => envelopeFrom);
  assert.equal(new Set(paths).size, 2);
  for (const path of paths) assert.match(path, /^b-[a-z2-7]{30,62}@send\.acme\.example$/);
});

test('recipients in three domains each get their copy, and each reply is reported', async () => {
  const domains = ['one.test', 'two.test', 'three.test'];
  const servers = await Promise.all(
    domains.map((domain) =>
      journey.mailServer(domain, { phases: { data: `250 2.0.0 ${domain} has it` } }),
    ),
  );
  const to = domains.map((domain) => `kim@${domain}`);
  const id = await journey.send({ to });
  const email = await journey.ended(id);
  assert.equal(email.status, 'delivered');
  for (const [index, mx] of servers.entries()) {
    assert.deepEqual(mx.messages[0]?.recipients, [to[index]]);
    const clientIp = mx.sessions[0]!.socket.remoteAddress!;
    assert.equal((await judge(mx.messages[0], clientIp)).dmarc, 'pass');
    const { smtp } = email.recipients[index];
    assert.deepEqual([smtp.mx, smtp.message], [mx.name, `${domains[index]} has it`]);
  }
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'delivered', 'delivered']);
});

test('a domain whose Ed25519 record is missing signs with RSA alone', async () => {
  const mx = await journey.mailServer('rsa.test');
  const { body: added } = await journey.request('POST', '/v1/domains', { name: 'rsa.example' });
  for (const { type, name, value, priority } of added.records) {
    if (value.includes('k=ed25519')) continue;
    journey.dns.set(name, type, [type === 'MX' ? `${priority} ${value}` : value]);
  }
  const { body } = await journey.request('POST', `/v1/domains/${added.id}/verify`);
  assert.equal(body.status, 'verified');
  await journey.ended(await journey.send({ from: 'us@rsa.example', to: 'kim@rsa.test' }));
  const { dkim } = await judge(mx.messages[0]!, mx.sessions[0]!.socket.remoteAddress!);
  assert.deepEqual(
    dkim.map(({ algo, status }) => `${algo} ${status.result}`),
    ['rsa-sha256 pass'],
  );
});

test('a blind copy arrives, and no other recipient sees its address', async () => {
  const mx = await journey.mailServer('blind.test');
  const to = ['kim@blind.test', 'lee@blind.test'];
  const id = await journey.send({ to: to[0], cc: to[1], bcc: 'Secret <max@blind.test>' });
  const { bcc, recipients } = await journey.ended(id);
  assert.deepEqual(
    recipients.map(({ kind, status }: { kind: string; status: string }) => `${kind} ${status}`),
    ['to delivered', 'cc delivered', 'bcc delivered'],
  );
  assert.deepEqual(bcc, ['Secret <max@blind.test>']);
  const reached = mx.messages.flatMap((message) => message.recipients);
  assert.deepEqual(reached.toSorted(), [...to, 'max@blind.test']);
  for (const { raw } of mx.messages) {
    const signatures = /^DKIM-Signature:(?:.*\r\n[ \t])*.*\r\n/gim;
    assert.doesNotMatch(raw.toString().replaceAll(signatures, ''), /max@|secret|bcc/i);
  }
});

test('an address that is given twice gets one copy', async () => {
  const mx = await journey.mailServer('twice.test');
  const id = await journey.send({
    to: ['kim@twice.test', 'Kim <kim@TWICE.test>'],
    cc: 'kim@twice.test',
    bcc: ['lee@twice.test', 'kim@twice.test'],
  });
  const { recipients } = await journey.ended(id);
  assert.equal(recipients.length, 2);
  const reached = mx.messages.flatMap(({ recipients: addresses }) => addresses);
  assert.deepEqual(reached.toSorted(), ['kim@twice.test', 'lee@twice.test']);
});

test('attachments, inline images and custom headers arrive unchanged', async () => {
  const mx = await journey.mailServer('parts.test');
  const image = Buffer.from('89504e470d0a1a0a', 'hex');
  const invoice = Buffer.from(Array.from({ length: 200_000 }, (_, at) => (at * 31) % 256));
  await journey.ended(
    await journey.send({
      to: 'kim@parts.test',
      subject: 'Parts',
      html: '<p>Look: <img src="cid:logo"></p>',
      headers: { 'X-Order': '42', 'X-Note': 'grün' },
      unsubscribe: 'https://acme.example/leave?u=1',
      attachments: [
        { filename: 'rechnung für märz.pdf', content: invoice.toString('base64') },
        { filename: 'logo.png', content: image.toString('base64'), content_id: 'logo' },
      ],
    }),
  );
  const { attachments, headers, html } = await read(mx.messages[0]);
  const [logo, pdf] = attachments.toSorted((one) => (one.contentId === undefined ? 1 : -1));
  assert.equal(pdf?.filename, 'rechnung für märz.pdf');
  assert.equal(pdf?.mimeType, 'application/pdf');
  assert.equal(pdf?.disposition, 'attachment');
  assert.deepEqual(Buffer.from(pdf?.content as ArrayBuffer), invoice);
  assert.deepEqual([logo?.contentId, logo?.mimeType], ['<logo>', 'image/png']);
  assert.deepEqual(Buffer.from(logo?.content as ArrayBuffer), image);
  assert.match(html ?? '', /cid:logo/);
  const value = (name: string) => headers.find(({ key }) => key === name)?.value;
  assert.equal(value('x-order'), '42');
  assert.match(value('x-note') ?? '', /grün|=\?utf-8\?/i);
  assert.equal(value('list-unsubscribe'), '<https://acme.example/leave?u=1>');
  assert.equal(value('list-unsubscribe-post'), 'List-Unsubscribe=One-Click');
  const { dkim } = await judge(mx.messages[0]!, '127.0.0.1');
  assert.ok(dkim.length === 2 && dkim.every(({ status }) => status.result === 'pass'));
});

test('an email with only html gets a text part', async () => {
  const mx = await journey.mailServer('derived.test');
  const html = '<h1>Hello</h1><p>Your code is <b>4711</b>.</p>';
  await journey.ended(await journey.send({ to: 'kim@derived.test', html }));
  assert.match((await read(mx.messages[0])).text ?? '', /Hello[^]*Your code is 4711\./);
});

test('a non-ASCII address gets its mail at a server with SMTPUTF8', async () => {
  const mx = await journey.mailServer('utf8.test');
  await journey.ended(await journey.send({ to: 'jürgen@utf8.test' }));
  assert.deepEqual(mx.messages[0]?.recipients, ['jürgen@utf8.test']);
  assert.equal(mx.messages[0].smtpUtf8, true);
});

test('several emails to one server use one connection', async () => {
  const mx = await journey.mailServer('shared.test');
  for (const name of ['kim', 'lee', 'max', 'eve', 'pat', 'sam']) {
    await journey.ended(await journey.send({ to: `${name}@shared.test` }));
  }
  assert.equal(mx.messages.length, 6);
  // Each worker has its own connections.
  assert.ok(mx.connections <= 2, `${mx.connections} connections`);
});
