/** Mail submitted by SMTP: it is sent unchanged, with the usual events. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import PostalMime from 'postal-mime';
import { startJourney } from '../support/journey.ts';
import { idIn, loggedIn, submit, SUBMISSION_ENV, transportTo } from '../support/submission.ts';

const journey = await startJourney({ ...SUBMISSION_ENV, POSTHORN_LOG: 'info' });
after(() => journey[Symbol.asyncDispose]());

const [port = 0, tlsPort = 0] = journey.service.readyLine.submission_ports ?? [];
const key = await journey.key();
const FROM = 'From: Acme <hello@acme.example>';

async function contentOf(id: string): Promise<Buffer> {
  const response = await fetch(`${journey.service.url}/v1/emails/${id}/content`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.equal(response.status, 200);
  return Buffer.from(await response.arrayBuffer());
}

async function dkimOf(raw: Buffer): Promise<string[]> {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.test',
    sender: 'x@send.acme.example',
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[],
  });
  return dkim.results.map(({ status }) => status.result);
}

test('mail submitted by nodemailer with STARTTLS or TLS arrives unchanged and signed', async () => {
  const mx = await journey.mailServer('byhand.test');
  const attachment = randomBytes(300_000);
  for (const [where, tls] of [
    [port, false],
    [tlsPort, true],
  ] as const) {
    const transport = transportTo({ port: where, key, tls });
    const sent = await transport.sendMail({
      from: 'Jörg at Acme <hello@acme.example>',
      to: 'Kim <kim@byhand.test>',
      cc: 'lee@byhand.test',
      bcc: 'max@byhand.test',
      subject: 'Grüße №42',
      text: '.leading dot\n\nGrüße',
      html: '<p>Grüße</p>',
      attachments: [{ filename: 'a.bin', content: attachment }],
    });
    transport.close();
    const id = idIn(sent.response);
    const email = await journey.ended(id);
    assert.equal(email.status, 'delivered');
    assert.deepEqual(
      email.recipients.map(({ address, kind }: Record<string, string>) => [address, kind]),
      [
        ['kim@byhand.test', 'to'],
        ['lee@byhand.test', 'cc'],
        ['max@byhand.test', 'bcc'],
      ],
    );
    assert.deepEqual(
      [email.from, email.to, email.cc, email.bcc, email.subject],
      [
        'Jörg at Acme <hello@acme.example>',
        ['Kim <kim@byhand.test>'],
        ['lee@byhand.test'],
        ['max@byhand.test'],
        'Grüße №42',
      ],
    );
    assert.match(email.text, /^\.leading dot\r?\n\r?\nGrüße/);
    assert.match(email.html, /^<p>Grüße<\/p>/);
    assert.equal(email.message_id, sent.messageId);
    const story = await journey.timeline(id);
    for (const { data } of story) assert.equal(data.message_id, sent.messageId);

    const arrived = mx.messages.slice(-3);
    assert.ok(arrived.every(({ envelopeFrom }) => envelopeFrom.endsWith('@send.acme.example')));
    const [{ raw } = { raw: Buffer.alloc(0) }] = arrived;
    for (const other of arrived) assert.deepEqual(other.raw, raw);
    assert.deepEqual(await contentOf(id), raw);
    assert.deepEqual(await dkimOf(raw), ['pass', 'pass']);
    assert.ok(!/^bcc:/im.test(raw.toString('latin1')));
    const read = await PostalMime.parse(raw, { attachmentEncoding: 'arraybuffer' });
    assert.deepEqual(Buffer.from(read.attachments[0]?.content as ArrayBuffer), attachment);
  }
});

test('an attached text file is not treated as the text of the email', async () => {
  await journey.mailServer('attached.test');
  const transport = transportTo({ port: tlsPort, key, tls: true });
  const sent = await transport.sendMail({
    from: 'hello@acme.example',
    to: 'kim@attached.test',
    subject: 'Your invoice',
    html: '<p>See attachment</p>',
    attachments: [{ filename: 'invoice.txt', content: '42 euros' }],
  });
  transport.close();
  const { html, text } = await journey.ended(idIn(sent.response));
  assert.deepEqual([html.trim(), text], ['<p>See attachment</p>', null]);
});

test('a submitted message arrives unchanged except for Bcc, Return-Path and X-Posthorn fields', async () => {
  const mx = await journey.mailServer('raw.test');
  await using client = await loggedIn({ port, key });
  const kept = [
    'X-Custom:no space ; and   runs\tof white space',
    FROM,
    'To: undisclosed-recipients:;',
    'Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=',
    ' folded',
    'Date: Sat, 21 Nov 2026 08:30:00 +0100 (CET)',
    'Message-ID: <own@app.example>',
    'DKIM-Signature: v=1; a=rsa-sha256; d=other.test; s=x; h=from; bh=x; b=x',
    'Received: from inner (inner.app.test [10.0.0.1]) by app.test; Sat, 21 Nov 2026 08:29:59 +0100',
  ];
  const body = ['', '.dot', '..', ' trailing ', '', 'ünïcödé 8 bit', '', ''];
  const reply = await submit(client, {
    to: ['kim@raw.test', 'KIM@raw.test', 'kim@RAW.test'],
    lines: [
      'Return-Path: <x@y.test>',
      'Bcc: Secret <secret@raw.test>,',
      '\tother@raw.test',
      ...kept,
      'X-Posthorn-Tags: kind=receipt, order=42',
      'X-Posthorn-Expires-In: 3600',
      ...body,
    ],
  });
  const id = idIn(reply);
  const email = await journey.ended(id);
  assert.deepEqual([email.to, email.cc, email.subject], [[], [], 'Grüße folded']);
  assert.deepEqual(email.tags, [
    { name: 'kind', value: 'receipt' },
    { name: 'order', value: '42' },
  ]);
  assert.equal(email.message_id, '<own@app.example>');
  const [{ seconds }] = await journey.service.sql(
    'select extract(epoch from expires_at - created_at)::int as seconds from emails where id = $1',
    [id],
  );
  assert.equal(seconds, 3600);
  assert.ok(mx.sessions[0]?.lines.some((line) => line.endsWith(' BODY=8BITMIME')));
  const raw = mx.messages[0]?.raw.toString() ?? '';
  const written = [...kept, ...body].join('\r\n');
  assert.ok(raw.endsWith(`\r\n${written}\r\n`), raw);
  const added = raw.slice(0, -written.length - 2);
  assert.match(
    added,
    new RegExp(
      `^(DKIM-Signature: [^]*){2}Received: by out\\.posthorn\\.example with ESMTPSA id ${id};\\r\\n\\t\\w{3}, .* \\+0000\\r\\n` +
        `Feedback-ID: receipt:[0-9a-f-]{36}:acme\\.example:posthorn\\r\\n$`,
    ),
  );
  assert.deepEqual((await dkimOf(mx.messages[0]!.raw)).slice(0, 2), ['pass', 'pass']);
  // In either order: each has a message of its own.
  const envelopes = mx.messages.map(({ recipients }) => recipients.join());
  assert.deepEqual(envelopes.toSorted(), ['KIM@raw.test', 'kim@raw.test']);
});

test('a message without Date and Message-ID gets them', async () => {
  const mx = await journey.mailServer('bare.test');
  await using client = await loggedIn({ port, key });
  const id = idIn(await submit(client, { to: ['kim@bare.test'], lines: [FROM, '', 'Hi'] }));
  const email = await journey.ended(id);
  assert.equal(email.message_id, `<${id}@acme.example>`);
  const read = await PostalMime.parse(mx.messages[0]?.raw ?? '');
  assert.equal(read.messageId, email.message_id);
  assert.ok(Math.abs(Date.parse(read.date ?? '') - Date.parse(email.created_at)) < 60_000);
  assert.deepEqual(await dkimOf(mx.messages[0]!.raw), ['pass', 'pass']);
});

test('the user name may be posthorn, resend or the project; a message is committed with its key', async () => {
  const mx = await journey.mailServer('users.test');
  const { body } = await journey.request('GET', '/v1/api-keys/current');
  const lines = [FROM, 'To: kim@users.test', 'X-Posthorn-Idempotency-Key: order-42', '', 'Hi'];
  const replies = [];
  for (const user of ['posthorn', 'Resend', body.project.id as string]) {
    await using client = await loggedIn({ port, key, user });
    const fresh = [`Date: ${new Date().toUTCString()}`, `Message-ID: <${user}@app.test>`, ...lines];
    replies.push(await submit(client, { to: ['kim@users.test'], lines: fresh }));
  }
  const [first, ...others] = replies;
  assert.match(first ?? '', /^250 2\.0\.0 Accepted [0-9a-f-]{36}$/);
  for (const other of others) assert.equal(other, first?.replace('Accepted', 'Accepted before'));
  await using client = await loggedIn({ port, key });
  const changed = await submit(client, { to: ['kim@users.test'], lines: [...lines, 'more'] });
  assert.match(changed ?? '', /^554 5\.5\.0 This Idempotency-Key was used within 24 hours with/);
  await journey.ended(idIn(first ?? ''));
  assert.equal(mx.messages.length, 1);
});

test('a message that cannot be sent is refused with the error message of the HTTP API', async () => {
  await using client = await loggedIn({ port, key });
  const to = ['kim@refused.test'];
  const refused = async (lines: string[]) => (await submit(client, { to, lines })) ?? '';
  assert.match(
    await refused(['From: a@other.example', '', 'Hi']),
    /^550 5\.7\.1 other\.example is not a verified domain/,
  );
  assert.match(await refused(['Subject: x', '', 'Hi']), /^550 5\.7\.1 From: is missing/);
  assert.match(
    await refused(['From: a@acme.example, b@acme.example', '', 'Hi']),
    /^550 5\.7\.1 From: has several addresses/,
  );
  assert.match(await refused([FROM, FROM, '', 'Hi']), /^550 5\.7\.1 From: stands .* twice/);
  assert.match(await refused(['From: nonsense', '', 'Hi']), /^550 5\.7\.1 From: "nonsense" is not/);
  assert.match(
    await refused([FROM, 'X-Posthorn-Tags: a b=c', '', 'Hi']),
    /^554 5\.6\.0 X-Posthorn-Tags: must be/,
  );
  assert.match(
    await refused([FROM, 'X-Posthorn-Expires-In: soon', '', 'Hi']),
    /^554 5\.6\.0 X-Posthorn-Expires-In: must be/,
  );
  assert.match(
    await refused([FROM, 'X-Posthorn-Tag: a=b', '', 'Hi']),
    /^554 5\.6\.0 X-Posthorn-Tag: is not known/,
  );
  assert.match(await refused([FROM, '', 'x'.repeat(999)]), /^554 5\.6\.0 A line .* 999 octets/);
  assert.match(await refused([FROM, 'not a field', '', 'x']), /^554 5\.6\.0 .* line that is no/);
  assert.match(await refused([FROM, '', 'x\0']), /^554 5\.6\.0 .* NUL/);
  idIn(await submit(client, { to: ['kim@refused.test'], lines: [FROM, '', 'x'.repeat(998)] }));
});

test('suppressed recipients get no mail, and a message with no other recipient is refused', async () => {
  const mx = await journey.mailServer('halfgone.test');
  const words = ['--mode', 'live'];
  await journey.service.cliJson('suppressions', 'add', 'gone@halfgone.test', ...words);
  await using client = await loggedIn({ port, key });
  const lines = [FROM, 'To: all@halfgone.test', '', 'Hi'];
  const to = ['gone@halfgone.test', 'kim@halfgone.test'];
  const email = await journey.ended(idIn(await submit(client, { to, lines })));
  assert.deepEqual(
    email.recipients.map(({ status }: Record<string, string>) => status),
    ['suppressed', 'delivered'],
  );
  const reply = await submit(client, { to: ['gone@halfgone.test'], lines });
  assert.match(reply ?? '', /^550 5\.7\.1 Every recipient is on the suppression list/);
  assert.equal(mx.messages.length, 1);
});
