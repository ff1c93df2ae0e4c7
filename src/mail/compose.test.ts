/** Composed messages, parsed again by postal-mime, which shares no code with us. */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import fc from 'fast-check';
import PostalMime from 'postal-mime';
import { parseMailbox } from './address.ts';
import { composeMessage, estimateSizeBytes, type Message, messageIdOf } from './compose.ts';
import { headerLine } from './mime/header.ts';
import { textFromHtml } from './html/text-from-html.ts';
import { CHARACTER } from '../../test/support/characters.ts';

const EMAIL_ID = '0193a5b4-1c2d-7e3f-8a4b-5c6d7e8f9a0b';
const mailbox = (text: string) => parseMailbox(text)!;

const MESSAGE: Message = {
  emailId: EMAIL_ID,
  from: mailbox('Acme <hello@acme.test>'),
  to: [mailbox('jo@receiver.test')],
  cc: [],
  replyTo: [],
  subject: 'Hello',
  html: null,
  text: null,
  headers: [],
  attachments: [],
  date: new Date('2026-11-21T08:30:00Z'),
  messageId: messageIdOf(EMAIL_ID, 'acme.test'),
  unsubscribeUrl: null,
};

const PNG = {
  filename: 'logo.png',
  contentType: 'image/png',
  contentId: 'logo',
  content: Buffer.from([137, 80, 78, 71]).toString('base64'),
};
const PDF = {
  filename: 'Rechnung für März.pdf',
  contentType: 'application/pdf',
  contentId: null,
  content: Buffer.from('%PDF').toString('base64'),
};

function bytesOf(message: Partial<Message>): Buffer {
  const { headers, body } = composeMessage({ ...MESSAGE, ...message });
  return Buffer.concat([Buffer.from(`${headers.map(headerLine).join('')}\r\n`), ...body]);
}

/** Returns every field, the types of all parts in order, and the message as postal-mime parses it. */
async function read(message: Partial<Message>) {
  const bytes = bytesOf(message);
  const types = bytes.toString().matchAll(/^Content-Type: ([^;\r]+)/gm);
  return { parts: Array.from(types, ([, type]) => type), mail: await PostalMime.parse(bytes) };
}

const lines = (text: string | undefined) =>
  (text ?? '').replace(/\r\n?/g, '\n').replace(/\n+$/, '');

test('the header has each required field once', () => {
  const header = bytesOf({
    cc: [mailbox('Ann <ann@receiver.test>')],
    replyTo: [mailbox('help@acme.test')],
    text: 'Hi',
  }).toString();
  assert.equal(
    header.slice(0, header.indexOf('\r\n\r\n')),
    [
      'Date: Sat, 21 Nov 2026 08:30:00 +0000',
      'From: Acme <hello@acme.test>',
      'To: jo@receiver.test',
      'Cc: Ann <ann@receiver.test>',
      'Reply-To: help@acme.test',
      'Subject: Hello',
      `Message-ID: <${EMAIL_ID}@acme.test>`,
      'MIME-Version: 1.0',
      'Content-Type: text/plain; charset=utf-8',
      'Content-Transfer-Encoding: quoted-printable',
    ].join('\r\n'),
  );
});

test('the same email has the same bytes whenever it is composed', () => {
  const message = { html: '<p>é</p>', text: 'é', attachments: [PNG, PDF] };
  assert.deepEqual(bytesOf(message), bytesOf(message));
});

test('a message has only the parts that it has content for', async () => {
  const parts = async (message: Partial<Message>) => (await read(message)).parts.join(' ');
  assert.equal(await parts({ text: 'x' }), 'text/plain');
  assert.equal(await parts({ html: 'x' }), 'text/html');
  assert.equal(await parts({}), 'text/plain');
  assert.equal(await parts({ text: '', html: '<img src="cid:x">' }), 'text/html');
  const both = { text: 'x', html: 'x' };
  assert.equal(await parts(both), 'multipart/alternative text/plain text/html');
  assert.equal(
    await parts({ ...both, attachments: [PDF, PNG] }),
    'multipart/mixed multipart/alternative text/plain ' +
      'multipart/related text/html image/png application/pdf',
  );
});

test('without html an inline attachment is an ordinary one', async () => {
  const { parts, mail } = await read({ text: 'x', attachments: [PNG] });
  assert.deepEqual(parts, ['multipart/mixed', 'text/plain', 'image/png']);
  assert.equal(mail.attachments[0]?.disposition, 'attachment');
});

const line = fc.oneof(
  fc.string({ unit: CHARACTER, maxLength: 30 }),
  fc.constantFrom('.', '..', '.dot', 'From me', '-- ', '--=_x', '  indented', 'trailing \t', 'a=b'),
  fc.constantFrom(
    'x'.repeat(2_000),
    '日本語 '.repeat(80),
    '🚀'.repeat(50),
    `--=_mixed_${EMAIL_ID}--`,
  ),
);
const content = fc
  .array(fc.tuple(line, fc.constantFrom('\n', '\r\n', '\r')), { maxLength: 8 })
  .map((pairs) => pairs.flat().join('').replaceAll('\0', '').toWellFormed())
  // postal-mime drops U+FEFF at the beginning as a byte order mark.
  .map((text) => text.replace(/^\uFEFF+/, ''));
const filename = fc
  .string({ unit: CHARACTER, minLength: 1, maxLength: 80 })
  .map((name) => name.replace(/[\0-\x1f\x7f-\x9f]/g, '').toWellFormed())
  .filter((name) => name.trim() === name && name !== '');
const attachment = fc.record({
  filename,
  contentType: fc.constantFrom('image/png', 'application/pdf', 'text/csv; charset="utf-8"'),
  contentId: fc.constantFrom(null, 'logo', 'a@b'),
  content: fc
    .uint8Array({ maxLength: 300 })
    .map((octets) => Buffer.from(octets).toString('base64')),
});

test('any text, html, attachment and file name arrives unchanged', async () => {
  const messages = fc.record({
    html: fc.option(content),
    text: fc.option(content),
    attachments: fc.array(attachment, { maxLength: 3 }),
  });
  await fc.assert(
    fc.asyncProperty(messages, async (message) => {
      const { mail } = await read(message);
      if (message.text) assert.equal(lines(mail.text), lines(message.text));
      if (message.html !== null) assert.equal(lines(mail.html), lines(message.html));
      const isInline = (one: { contentId: string | null }) =>
        message.html !== null && one.contentId !== null;
      const inOrder = [
        ...message.attachments.filter(isInline),
        ...message.attachments.filter((one) => !isInline(one)),
      ];
      assert.equal(mail.attachments.length, inOrder.length);
      for (const [index, sent] of inOrder.entries()) {
        const got = mail.attachments[index]!;
        assert.equal(got.filename, sent.filename);
        assert.equal(Buffer.from(got.content as ArrayBuffer).toString('base64'), sent.content);
        assert.equal(got.mimeType, sent.contentType.split(';')[0]);
        assert.equal(got.contentId ?? null, sent.contentId && `<${sent.contentId}>`);
        assert.equal(got.disposition, isInline(sent) ? 'inline' : 'attachment');
      }
    }),
    { numRuns: 300 },
  );
});

test('every line is ASCII, of at most 76 columns, and ends with CRLF', () => {
  fc.assert(
    fc.property(
      fc.option(content),
      fc.option(content),
      fc.array(attachment),
      (html, text, files) => {
        const ascii = bytesOf({ html, text, attachments: files }).toString('latin1');
        assert.doesNotMatch(ascii, /[^\x20-\x7e\t\r\n]|\r(?!\n)|(?<!\r)\n|[ \t]\r\n|[^\n]{78}/);
        assert.ok(ascii.endsWith('\r\n'));
      },
    ),
    { numRuns: 300 },
  );
});

test('one-click unsubscription has both its fields, the link on one line', () => {
  const url = `https://acme.test/u?token=${'x'.repeat(800)}`;
  const custom = [['list-unsubscribe', '<mailto:u@acme.test>']] as const;
  const header = bytesOf({ text: 'x', unsubscribeUrl: url, headers: custom }).toString();
  assert.match(header, new RegExp(`^List-Unsubscribe: <${url.replace('?', '\\?')}>\\r$`, 'm'));
  assert.match(header, /^List-Unsubscribe-Post: List-Unsubscribe=One-Click\r$/m);
  assert.doesNotMatch(header, /mailto:u@acme.test/);
  const shouted = bytesOf({ text: 'x', unsubscribeUrl: 'HTTPS://ACME.test/U' }).toString();
  assert.match(shouted, /^List-Unsubscribe: <HTTPS:\/\/ACME.test\/U>\r$/m);
});

test('List-Unsubscribe has its link on the first line, followed by the address if it fits', () => {
  const unsubscribeMailto = `u-x@send.${'x'.repeat(200)}.test`;
  const fieldFor = (unsubscribeUrl: string) => {
    const header = bytesOf({ text: 'x', unsubscribeUrl, unsubscribeMailto }).toString();
    return /^List-Unsubscribe: (?:[^\r]|\r\n )*/m.exec(header)?.[0];
  };
  const byMail = `<mailto:${unsubscribeMailto}?subject=unsubscribe>`;
  const short = 'https://acme.test/u/1';
  assert.equal(fieldFor(short), `List-Unsubscribe: <${short}>, ${byMail}`);
  const long = `https://acme.test/u/${'x'.repeat(900)}`;
  assert.equal(fieldFor(long), `List-Unsubscribe: <${long}>,\r\n ${byMail}`);
});

test('a custom header occurs once, regardless of the case of its name', () => {
  const header = bytesOf({
    text: 'x',
    headers: [
      ['X-Campaign', ' Frühling '],
      ['x-campaign', 'other'],
    ],
  }).toString();
  assert.match(header, /^X-Campaign: =\?utf-8\?B\?RnLDvGhsaW5n\?=\r$/m);
  assert.doesNotMatch(header, /other/);
});

test('a hostile file name arrives unchanged', async () => {
  for (const name of [
    "utf-8''%41",
    '100%41.txt',
    'a"b\\c.txt',
    '../../etc/passwd',
    'C:\\x.pdf',
    'invoice\u202efdp.exe',
    'a.txt...',
    '..',
    ' a ',
    'ü'.repeat(127),
    'x'.repeat(255),
  ]) {
    const { mail } = await read({ text: 'x', attachments: [{ ...PDF, filename: name }] });
    assert.equal(mail.attachments[0]?.filename, name);
  }
});

test('the name and type of a file cannot become a header or another part', async () => {
  for (const contentType of [
    'text/html\r\nX-Evil: 1',
    'nonsense',
    '',
    'message/rfc822',
    'multipart/mixed',
  ]) {
    const { parts, mail } = await read({ text: 'x', attachments: [{ ...PDF, contentType }] });
    assert.deepEqual(parts, ['multipart/mixed', 'text/plain', 'application/octet-stream']);
    assert.equal(mail.headers.length, 7);
  }
  const evil = 'x>\r\nX-Evil: 1\r\n\r\n"; filename=y';
  const { mail } = await read({
    html: 'x',
    attachments: [{ ...PNG, contentId: evil, filename: evil }],
  });
  assert.equal(mail.attachments.length, 1);
  assert.equal(mail.attachments[0]?.filename, evil);
  assert.doesNotMatch(
    bytesOf({ html: 'x', attachments: [{ ...PNG, contentId: evil }] }).toString(),
    /^X-Evil/m,
  );
});

test('no string of a message can add a header: it is refused or encoded', () => {
  const spots: ((evil: string) => Partial<Message>)[] = [
    (evil) => ({ subject: evil }),
    (evil) => ({ headers: [['X-A', evil]] }),
    (evil) => ({ headers: [[evil, 'x']] }),
    (evil) => ({ messageId: `<${evil}@acme.test>` }),
    (evil) => ({ unsubscribeUrl: `https://acme.test/${evil}` }),
    (evil) => ({ unsubscribeUrl: evil }),
    (evil) => ({ from: { name: evil, address: MESSAGE.from.address } }),
    (evil) => ({ to: [{ name: null, address: evil as never }] }),
    (evil) => ({ cc: [{ name: evil, address: evil as never }] }),
    (evil) => ({ emailId: evil, text: 'x' }),
    (evil) => ({ attachments: [{ ...PDF, filename: evil }] }),
    (evil) => ({ attachments: [{ ...PDF, contentType: evil }] }),
    (evil) => ({ attachments: [{ ...PNG, contentId: evil }] }),
    (evil) => ({ html: evil, text: evil, attachments: [PNG] }),
  ];
  const lineEnds = fc.constantFrom('\r\n', '\n', '\r', '\r\n\r\n', '\0\r\n', '\u2028\r\n');
  fc.assert(
    fc.property(fc.constantFrom(...spots), lineEnds, (spot, lineEnd) => {
      const message = { html: 'x', ...spot(`a${lineEnd}X-Evil: 1${lineEnd}--=_mixed_${EMAIL_ID}`) };
      let messageText = '';
      try {
        messageText = bytesOf(message).toString();
      } catch (error) {
        assert.match((error as Error).message, /header|unsubscribe/);
      }
      const header = messageText.slice(0, messageText.indexOf('\r\n\r\n'));
      assert.doesNotMatch(header, /^X-Evil/im);
    }),
    { numRuns: 500 },
  );
});

test('the estimated size is never too small', () => {
  const person = fc.string({ unit: CHARACTER, maxLength: 120 }).map((name) => {
    const clean = name
      .replace(/[\0-\x1f\x7f-\x9f]/g, '')
      .toWellFormed()
      .trim();
    return { name: clean || null, address: MESSAGE.from.address };
  });
  const messages = fc.record({
    from: person,
    to: fc.array(person, { maxLength: 50 }),
    subject: filename,
    html: fc.option(content),
    text: fc.option(content),
    headers: fc.array(fc.tuple(fc.constantFrom('X-A', 'X-B', 'X-C'), filename)),
    attachments: fc.array(attachment, { maxLength: 5 }),
  });
  const signaturesBytes = 2_000;
  fc.assert(
    fc.property(messages, (message) => {
      const estimate = estimateSizeBytes({ ...MESSAGE, ...message });
      const text = message.text ?? (message.html === null ? null : textFromHtml(message.html));
      const size = bytesOf({ ...message, text }).length + signaturesBytes;
      assert.ok(size <= estimate, `${size} of ${estimate}`);
    }),
    { numRuns: 300 },
  );
});

test('the estimated size of large content is close', () => {
  const large = { ...PDF, content: Buffer.alloc(5_000_000).toString('base64') };
  const message = { attachments: [large], text: 'x'.repeat(1_000_000) };
  const estimate = estimateSizeBytes({ ...MESSAGE, ...message });
  assert.ok(estimate < bytesOf(message).length * 1.1);
});
