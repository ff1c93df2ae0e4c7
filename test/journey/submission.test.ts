/** Mail submitted by SMTP: it is sent unchanged, with the usual events. */
import assert from 'node:assert/strict';
import { isAscii } from 'node:buffer';
import { randomBytes } from 'node:crypto';
import { Resolver } from 'node:dns/promises';
import { after, test } from 'node:test';
import { authenticate } from 'mailauth';
import PostalMime from 'postal-mime';
import { startJourney } from '../support/journey.ts';
import { idIn, openLoggedIn, submit, SUBMISSION_ENV, transportTo } from '../support/submission.ts';

const journey = await startJourney({ ...SUBMISSION_ENV, LETTERHAUS_LOG: 'info' });
after(() => journey[Symbol.asyncDispose]());

const [port = 0, tlsPort = 0] = journey.service.readyLine.submission_ports ?? [];
const key = await journey.key();
/** May only send, and only from acme.example. */
const rights = { name: 'app', permission: 'sending_access', domain: 'acme.example' };
const made = await journey.request('POST', '/v1/api-keys', rights);
assert.equal(made.status, 201, made.text);
const ownKey = made.body.key as string;
const FROM = 'From: Acme <hello@acme.example>';
/** The signatures of a message from acme.example: by RSA and by Ed25519. */
const SIGNED = ['acme.example pass', 'acme.example pass'];

async function contentOf(id: string): Promise<Buffer> {
  const response = await fetch(`${journey.service.url}/v1/emails/${id}/content`, {
    headers: { authorization: `Bearer ${key}` },
  });
  assert.equal(response.status, 200);
  return Buffer.from(await response.arrayBuffer());
}

/** The domain of each signature and whether it holds. */
async function signersOf(raw: Buffer): Promise<string[]> {
  const resolver = new Resolver();
  resolver.setServers([journey.dns.server]);
  const { dkim } = await authenticate(raw, {
    ip: '127.0.0.1',
    helo: 'out.test',
    sender: 'x@send.acme.example',
    resolver: async (name, type) => (await resolver.resolve(name, type)) as string[],
  });
  return dkim.results.map(({ signingDomain, status }) => `${signingDomain} ${status.result}`);
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
    assert.deepEqual(await signersOf(raw), SIGNED);
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

test('a submitted message arrives unchanged except for Bcc, claims about checks and X-Letterhaus fields', async () => {
  const mx = await journey.mailServer('raw.test');
  await using client = await openLoggedIn({ port, key });
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
      'authentication-results: mx.raw.test;',
      '\tdkim=pass header.d=bank.example',
      'Received-SPF: pass',
      'ARC-Seal: i=1; a=rsa-sha256; cv=none; d=bank.example; s=x;',
      ' b=x',
      'Bcc: Secret <secret@raw.test>,',
      '\tother@raw.test',
      ...kept,
      'X-Letterhaus-Tags: kind=receipt, order=42',
      'X-Letterhaus-Expires-In: 3600',
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
      `^(DKIM-Signature: [^]*){2}Received: by out\\.letterhaus\\.example with ESMTPSA id ${id};\\r\\n\\t\\w{3}, .* \\+0000\\r\\n` +
        `Feedback-ID: untagged:[0-9a-f]{16}:acme\\.example:letterhaus\\r\\n$`,
    ),
  );
  assert.deepEqual((await signersOf(mx.messages[0]!.raw)).slice(0, 2), SIGNED);
  // In either order: each has a message of its own.
  const envelopes = mx.messages.map(({ recipients }) => recipients.join());
  assert.deepEqual(envelopes.toSorted(), ['KIM@raw.test', 'kim@raw.test']);
});

test('a recipient outside of ASCII bounces at a server without SMTPUTF8, those beside it get the email', async () => {
  const mx = await journey.mailServer('no-utf8.test', { smtpUtf8: false });
  await using client = await openLoggedIn({ port, key });
  const to = ['kim@no-utf8.test', 'j\u00f6@no-utf8.test'];
  const lines = [FROM, `To: ${to.join(', ')}`, 'Subject: Gr\u00fc\u00dfe', '', 'Hi'];
  const id = idIn(await submit(client, { to, lines }));
  const { recipients } = await journey.ended(id);
  assert.deepEqual(
    recipients.map((one: { status: string }) => one.status),
    ['delivered', 'bounced'],
  );
  assert.match(recipients[1].reason.advice, /SMTPUTF8/);
  const [message] = mx.messages;
  assert.ok(message !== undefined && isAscii(message.raw));
  assert.equal((await PostalMime.parse(message.raw)).subject, 'Gr\u00fc\u00dfe');
  assert.deepEqual(await signersOf(message.raw), SIGNED);
});

test('a message without Date and Message-ID gets them', async () => {
  const mx = await journey.mailServer('bare.test');
  await using client = await openLoggedIn({ port, key });
  const id = idIn(await submit(client, { to: ['kim@bare.test'], lines: [FROM, '', 'Hi'] }));
  const email = await journey.ended(id);
  assert.equal(email.message_id, `<${id}@acme.example>`);
  const read = await PostalMime.parse(mx.messages[0]?.raw ?? '');
  assert.equal(read.messageId, email.message_id);
  assert.ok(Math.abs(Date.parse(read.date ?? '') - Date.parse(email.created_at)) < 60_000);
  assert.deepEqual(await signersOf(mx.messages[0]!.raw), SIGNED);
});

test('any user name goes with a valid key; a message is committed with its key', async () => {
  const mx = await journey.mailServer('users.test');
  const { body } = await journey.request('GET', '/v1/api-keys/current');
  const lines = [FROM, 'To: kim@users.test', 'X-Letterhaus-Idempotency-Key: order-42', '', 'Hi'];
  const replies = [];
  for (const user of ['letterhaus', 'apikey', 'Resend', 'jo@app.test', body.project.id as string]) {
    await using client = await openLoggedIn({ port, key, user });
    const fresh: string[] = [
      `Date: ${new Date().toUTCString()}`,
      `Message-ID: <${replies.length}@app.test>`,
      ...lines,
    ];
    replies.push(await submit(client, { to: ['kim@users.test'], lines: fresh }));
  }
  const [first, ...others] = replies;
  assert.match(first ?? '', /^250 2\.0\.0 Ok: queued as [0-9a-f-]{36}$/);
  // Libraries take what follows the words for the id, to the end of the line.
  for (const other of others) assert.equal(other, `250-2.0.0 Accepted before\n${first}`);
  await using client = await openLoggedIn({ port, key });
  const changed = await submit(client, { to: ['kim@users.test'], lines: [...lines, 'more'] });
  assert.match(changed ?? '', /^554 5\.5\.0 This Idempotency-Key was used within 24 hours with/);
  await journey.ended(idIn(first ?? ''));
  assert.equal(mx.messages.length, 1);
});

test('a message that cannot be sent is refused with the error message of the HTTP API', async () => {
  await using client = await openLoggedIn({ port, key });
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
  assert.match(await refused([FROM, FROM, '', 'Hi']), /^550 5\.7\.1 From: appears twice/);
  assert.match(await refused(['From: nonsense', '', 'Hi']), /^550 5\.7\.1 From: "nonsense" is not/);
  assert.match(
    await refused([FROM, 'X-Letterhaus-Tags: a b=c', '', 'Hi']),
    /^554 5\.6\.0 X-Letterhaus-Tags: must be/,
  );
  assert.match(
    await refused([FROM, 'X-Letterhaus-Expires-In: soon', '', 'Hi']),
    /^554 5\.6\.0 X-Letterhaus-Expires-In: must be/,
  );
  assert.match(
    await refused([FROM, 'X-Letterhaus-Tag: a=b', '', 'Hi']),
    /^554 5\.6\.0 X-Letterhaus-Tag: is unknown/,
  );
  assert.match(await refused([FROM, '', 'x'.repeat(999)]), /^554 5\.6\.0 A line .* 999 octets/);
  assert.match(await refused([FROM, 'not a field', '', 'x']), /^554 5\.6\.0 .* line that is no/);
  assert.match(await refused([FROM, '', 'x\0']), /^554 5\.6\.0 .* NUL/);
  idIn(await submit(client, { to: ['kim@refused.test'], lines: [FROM, '', 'x'.repeat(998)] }));
});

test('suppressed recipients get no mail, and a message with no other recipient is refused', async () => {
  const mx = await journey.mailServer('halfgone.test');
  const words = ['--environment', 'live'];
  await journey.service.cliJson('suppressions', 'add', 'gone@halfgone.test', ...words);
  await using client = await openLoggedIn({ port, key });
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

// The author of a message: the service signs and sends the From that it has checked. A key that may only send,
// and only from acme.example, tries to send in the name of another person.

const OWN = 'From: hello@acme.example';

/** The replies to messages whose headers consist of these lines, each in a session of its own. */
async function repliesTo(to: string, headers: readonly (readonly string[])[]): Promise<string[]> {
  const replies: string[] = [];
  for (const lines of headers) {
    await using client = await openLoggedIn({ port, key: ownKey });
    replies.push((await submit(client, { to: [to], lines: [...lines, '', 'Hi'] })) ?? 'hung up');
  }
  return replies;
}

const ofSpaces = (lines: number) => Array.from({ length: lines }, () => ' '.repeat(990));

test('a From that the key may not use is refused in every syntax', async () => {
  const to = 'kim@author.test';
  const mx = await journey.mailServer('author.test');
  const ways = [
    [OWN, ...ofSpaces(68), ' <ceo@bank.example>'],
    [OWN, ...ofSpaces(1), ' <ceo@bank.example>'],
    [`${OWN} <ceo@bank.example>`],
    ['From: "hello@acme.example" <ceo@bank.example>'],
    ['From: hello@acme.example <ceo@bank.example> <hello@acme.example>'],
    ['From: ceo@bank.example, hello@acme.example'],
    ['From: hello@acme.example; ceo@bank.example'],
    ['From: Staff: hello@acme.example, ceo@bank.example;'],
    ['From: Staff: hello@acme.example;'],
    ['From: ceo@bank.example (<hello@acme.example>)'],
    ['From: (hello@acme.example) ceo@bank.example'],
    ['From: hello@acme.example (<ceo@bank.example>)'],
    ['From: hello@acme.example (x).bank.example'],
    ['From: "ceo@bank.example"@acme.example'],
    ['From: <@acme.example:ceo@bank.example>'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample?= <hello@acme.example', ' >, ceo@bank.example'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample=00?=@acme.example'],
    ['From: =?utf-8?q?ceo=40bank=2Eexample=0A?= <hello@acme.example>'],
    ['From: ceo@bank.example\u2028 <hello@acme.example>'],
    ['From: ceo@bank.exämple'],
    ['From: hello@ac\u00adme.example'],
    ['From: hello@acme.example\u00a0'],
    ['From: Acme <hello@acme\u3002example>'],
    ['From:'],
    ['From: <>'],
    [OWN, 'From: ceo@bank.example'],
    ['fRoM: ceo@bank.example', OWN],
    [OWN, 'From : ceo@bank.example'],
    ['From : ceo@bank.example'],
    ['From\t: hello@acme.example'],
    [OWN, 'From\u00a0: ceo@bank.example'],
    [OWN, 'From\u200b: ceo@bank.example'],
    [OWN, 'From'],
    ['From ceo@bank.example Sat Nov 21 08:30:00 2026', OWN],
    [' From: ceo@bank.example', OWN],
    [OWN, `${'x'.repeat(250)}: y`],
    [OWN, ...Array.from({ length: 1_000 }, () => 'X: y')],
    [OWN, `X: ${'y '.repeat(400)}`, ...Array.from({ length: 90 }, () => ` ${'y '.repeat(400)}`)],
    [`From: ${'long '.repeat(180)}`, ` ${'name '.repeat(20)}<hello@acme.example>`],
    [OWN, ' ', 'From: ceo@bank.example'],
    [OWN, 'X: y', '\t \t', 'Z: z'],
  ];
  for (const [index, reply] of (await repliesTo(to, ways)).entries()) {
    assert.match(reply, /^55[04] 5\.[67]\.[01] /, ways[index]!.join('\n').slice(0, 200));
  }
  await using client = await openLoggedIn({ port, key: ownKey });
  const nul = await submit(client, { to: [to], lines: [`${OWN}\0 <ceo@bank.example>`, '', 'Hi'] });
  assert.match(nul ?? '', /^554 5\.6\.0 .*NUL/);
  await journey.ended(idIn((await repliesTo(to, [[OWN]]))[0]!));
  assert.equal(mx.messages.length, 1);
});

test('a bare CR or LF before a second From ends the session', async () => {
  for (const lineEnd of ['\r', '\n', '\r\r\n', '\n\r\n']) {
    const [reply] = await repliesTo('kim@bare-ends.test', [
      [`${OWN}${lineEnd}From: ceo@bank.example`],
    ]);
    assert.match(reply ?? '', /^(?:5\d\d |hung up)/, JSON.stringify(lineEnd));
  }
});

test('Sender and Resent fields are refused for an address that the key may not use', async () => {
  const to = 'kim@sender.test';
  const mx = await journey.mailServer('sender.test');
  const refused = [
    [OWN, 'Sender: ceo@bank.example'],
    ['sEnDeR: CEO <ceo@bank.example>', OWN],
    [OWN, 'Sender: hello@acme.example, ceo@bank.example'],
    [OWN, 'Sender:'],
    [OWN, 'Sender: ceo@sub.acme.example'],
    [OWN, 'Resent-From: ceo@bank.example'],
    [OWN, 'resent-sender: ceo@bank.example'],
    [OWN, 'Resent-Bcc: kim@sender.test'],
  ];
  for (const [index, reply] of (await repliesTo(to, refused)).entries()) {
    assert.match(reply, /^550 5\.7\.1 (?:Sender|Resent-\w+): /i, refused[index]!.join('\n'));
  }
  const own = [OWN, 'Sender: "The robot" <robot@ACME.example>'];
  await journey.ended(idIn((await repliesTo(to, [own]))[0]!));
  assert.match(mx.messages[0]!.raw.toString(), /^Sender: "The robot" <robot@ACME\.example>\r$/m);
  assert.equal(mx.messages.length, 1);

  const quoted = { from: '"ceo@bank.example"@acme.example', to, subject: 'x', text: 'x' };
  assert.equal((await journey.request('POST', '/v1/emails', quoted)).status, 422);
  for (const name of ['Sender', 'Resent-From', 'resent-sender', 'Resent-To']) {
    const headers = { [name]: 'ceo@bank.example' };
    const body = { from: 'hello@acme.example', to, subject: 'x', text: 'x', headers };
    const response = await journey.request('POST', '/v1/emails', body);
    assert.equal(response.status, 422, response.text);
    assert.match(response.body.error.message, /is written by the service/);
  }
});

test('every usual syntax of From is accepted and signed by its domain', async () => {
  const mx = await journey.mailServer('usual.test');
  const ways = [
    'From: hello@acme.example',
    'from:<hello@acme.example>',
    'FROM: "Acme, Inc. (\\"Shop\\")" <hello@acme.example>',
    'From:\tAcme Shop\r\n\t<hello@acme.example>',
    'From: =?utf-8?Q?J=C3=B6rg?= =?utf-8?B?wrDCsA==?= <hello@acme.example>',
    'From: Jörg bei Acme <hello@acme.example>',
    'From: Acme <hello@ACME.example>',
    'From: hello@acme.example (Cron Daemon)',
    'From: "Joe" Q. "Public" (a (b)) <hello (x) @acme.example>',
  ];
  for (const reply of await repliesTo(
    'kim@usual.test',
    ways.map((line) => [line]),
  )) {
    await journey.ended(idIn(reply));
  }
  assert.equal(mx.messages.length, ways.length);
  for (const { raw } of mx.messages) {
    const { from } = await PostalMime.parse(raw);
    assert.equal(from?.address?.toLowerCase(), 'hello@acme.example');
    assert.deepEqual(await signersOf(raw), SIGNED);
  }
});

test('stored mail whose From is not of the signing domain fails and is not sent', async () => {
  const mx = await journey.mailServer('later.test', { greylist: 1 });
  const handedIn = idIn((await repliesTo('kim@later.test', [[OWN]]))[0]!);
  const posted = await journey.send({ to: 'lee@later.test' });
  for (const id of [handedIn, posted]) await journey.attempted(id);
  const [{ raw }] = await journey.service.sql('select raw from contents where email_id = $1', [
    handedIn,
  ]);
  const changed = (raw as Buffer).toString().replace('hello@acme.example', 'ceo@bank.example');
  await journey.service.sql('update contents set raw = $2 where email_id = $1', [
    handedIn,
    Buffer.from(changed),
  ]);
  const rename = `update emails set from_address = 'ceo@bank.example' where id = $1`;
  await journey.service.sql(rename, [posted]);
  await journey.pass({ hours: 5 });
  for (const id of [handedIn, posted]) {
    const { recipients } = await journey.ended(id);
    const [{ status, reason }] = recipients;
    assert.deepEqual([status, reason.category, reason.blame], ['failed', 'authentication', 'us']);
    assert.match(reason.advice, /exactly one author of the sending domain/);
  }
  assert.equal(mx.messages.length, 0);
  await journey.service.logged(/an email cannot be signed/);
});
