/** The reader of messages from strangers, compared with another parser where the message is valid. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import MailComposer from 'nodemailer/lib/mail-composer/index.js';
import PostalMime from 'postal-mime';
import {
  decodedFieldValue,
  type MimePart,
  partsWithin,
  readHeader,
  readMessage,
  partText,
  fieldValue,
  fieldValues,
} from './reader.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const read = (...lines: string[]) => readMessage(Buffer.from(lines.join('\r\n'), 'latin1'));
const types = (message: MimePart) =>
  Array.from(partsWithin(message), ({ contentType }) => contentType.type);
const texts = (message: MimePart) =>
  Array.from(partsWithin(message))
    .filter(({ parts }) => parts.length === 0)
    .map((part) => partText(part));

test('the fields of a header cover it without gaps, in their order', () => {
  const bytes = Buffer.from('A: 1\r\nno field\r\nb : x\r\n\ty\r\nA: 2\r\n\r\nbody');
  const { fields, bodyStart } = readHeader(bytes);
  assert.deepEqual(
    fields.map(({ name, value }) => [name, value]),
    [
      ['A', '1'],
      ['', 'no field'],
      ['b', 'x\ty'],
      ['A', '2'],
    ],
  );
  assert.equal(bytes.toString('latin1', bodyStart), 'body');
  const covered = fields.map(({ start, end }) => bytes.subarray(start, end));
  assert.deepEqual(Buffer.concat([...covered, Buffer.from('\r\nbody')]), bytes);
  assert.deepEqual(fieldValues(fields, 'a'), ['1', '2']);
});

test('a UTF-8 value is read to its last octet', () => {
  for (const value of ['voil\u00e0', '\u00e0', '5 \u20ac', '\u3042', 'caf\u00e9']) {
    const { fields } = readHeader(Buffer.from(`Subject: ${value} \r\n\r\n`));
    assert.equal(fieldValue(fields, 'subject'), value);
  }
});

test('a header ends at its first empty line, or with the message', () => {
  for (const [text, body] of [
    ['A: 1\n\nbody\r\n\r\nmore', 'body\r\n\r\nmore'],
    ['A: 1\r\n\r\nbody\n\nmore', 'body\n\nmore'],
    ['\r\nbody', 'body'],
    ['\nbody', 'body'],
    ['A: 1', ''],
    ['A: 1\r\n', ''],
    ['', ''],
  ] as const) {
    const bytes = Buffer.from(text);
    assert.equal(bytes.toString('latin1', readHeader(bytes).bodyStart), body, JSON.stringify(text));
  }
});

test('non-ASCII text is read in fields and bodies, in any charset', () => {
  const { fields } = read(
    'Subject: =?iso-2022-jp?B?GyRCJUYlOSVIGyhC?= =?utf-8?q?f=C3=BCr_?=',
    ' =?utf-8?B?w7Y=?= =?utf-8*de?q?=C3=?= =?utf-8?q?=A4?= a =?x-none?q?=E9?=',
    'X-Raw: fr\xfc',
    'X-Underscore: =?utf-8?q?a=5Fb_c?=',
    '',
    '',
  );
  assert.equal(decodedFieldValue(fields, 'subject'), 'テストfür ö\ufffd\ufffd a é');
  assert.equal(fieldValue(fields, 'x-raw'), 'frü');
  assert.equal(decodedFieldValue(fields, 'x-underscore'), 'a_b c');
  assert.equal(decodedFieldValue(fields, 'x-gone'), undefined);
  for (const [charset, bytes, text] of [
    ['shift_jis', '\x83e\x83X\x83g', 'テスト'],
    ['iso-2022-jp', '\x1b$B%F%9%H\x1b(B', 'テスト'],
    ['CP932', '\x83e', 'テ'],
    ['euc-kr', '\xb0\xa1', '가'],
    ['"koi8-r"', '\xf4', 'Т'],
    ['utf-8', '\xc3\xa9', 'é'],
    ['us-ascii', '\xe9', 'é'],
    ['of-nobody', '\xe9', 'é'],
  ] as const) {
    const part = read(`Content-Type: text/plain; charset=${charset}`, '', bytes);
    assert.equal(partText(part), text, charset);
  }
});

test('a character split between two encoded words is joined', () => {
  const { fields } = read('Subject: =?utf-8?B?w6TDtg==?=', ' =?utf-8?q?=C3?= =?UTF-8?Q?=BC?=', '');
  assert.equal(decodedFieldValue(fields, 'subject'), 'äöü');
});

test('a report is read with its parts and the message that it is about', () => {
  const report = read(
    'Content-Type: multipart/report; report-type=delivery-status;',
    '\tboundary="=_b 1"',
    '',
    'a preamble',
    '--=_b 1',
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: quoted-printable',
    '',
    'so=C3=',
    '=B6rry=3D= end',
    '--=_b 1  ',
    'Content-Type: message/delivery-status',
    '',
    'Reporting-MTA: dns;mx.acme.test',
    '',
    'Final-Recipient: rfc822;jo@acme.test',
    '--=_b 10',
    '',
    '--=_b 1',
    'Content-Type: message/rfc822',
    'Content-Transfer-Encoding: base64',
    '',
    Buffer.from('Subject: Hi\r\nContent-Type: text/html\r\n\r\n<p>').toString('base64'),
    '--=_b 1--',
    'an epilogue',
  );
  assert.deepEqual(types(report), [
    'multipart/report',
    'text/plain',
    'message/delivery-status',
    'message/rfc822',
    'text/html',
  ]);
  assert.deepEqual(texts(report), [
    'soörry== end',
    'Reporting-MTA: dns;mx.acme.test\r\n\r\nFinal-Recipient: rfc822;jo@acme.test\r\n--=_b 10\r\n',
    '<p>',
  ]);
  assert.equal(report.contentType.parameters.get('report-type'), 'delivery-status');
});

test('missing line ends, final boundaries and types are tolerated', () => {
  const bare = readMessage(
    Buffer.from('Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b\n\ntwo'),
  );
  assert.deepEqual(texts(bare), ['one', 'two']);
  assert.deepEqual(types(read('Content-Type: nonsense', '', '')), ['text/plain']);
  assert.deepEqual(texts(read('Content-Type: multipart/mixed', '', 'text')), ['text']);
  assert.deepEqual(types(read('Content-Type: multipart/mixed; boundary=gone', '', 'x')), [
    'multipart/mixed',
  ]);
  const digest = read('Content-Type: multipart/digest; boundary=b', '', '--b', '', 'A: 1', '--b--');
  assert.deepEqual(types(digest), ['multipart/digest', 'message/rfc822', 'text/plain']);
  const empty = read('Content-Type: multipart/mixed; boundary=b', '', '--b', '--b', '', '--b--');
  assert.deepEqual(texts(empty), ['', '']);
});

test('parameters may be quoted, continued and percent-encoded', () => {
  const { parameters } = read(
    `Content-Type: Text/Plain; A="1\\"; x=2"; b=two ; c*=utf-8''%C3%A9%20x; d*0=o; d*1*=%6e;d*2=%6e; e=a'b'%41`,
    '',
  ).contentType;
  assert.deepEqual(Object.fromEntries(parameters), {
    a: '1"; x=2',
    b: 'two',
    c: 'é x',
    d: 'on%6e',
    e: "a'b'%41",
  });
});

test('nesting, size and number of parts are bounded above real messages', () => {
  let nested = 'deep';
  for (let level = 0; level < 100; level += 1) {
    nested = `Content-Type: multipart/mixed; boundary=b${level}\n\n--b${level}\n${nested}\n--b${level}--\n`;
  }
  assert.equal(types(readMessage(Buffer.from(nested))).length, 13);
  const messages = readMessage(Buffer.from(`${'Content-Type: message/rfc822\n\n'.repeat(100)}x`));
  assert.equal(types(messages).length, 13);
  const parts = `Content-Type: multipart/mixed; boundary=b\n\n${'--b\n\nx\n'.repeat(100_000)}`;
  assert.equal(types(readMessage(Buffer.from(parts))).length, 300);

  const manyFields = readHeader(Buffer.from(`${'A: b\n'.repeat(2_000_000)}\nbody`));
  assert.deepEqual([manyFields.isCut, manyFields.fields.length], [true, 2_000]);
  assert.equal(manyFields.bodyStart, 10_000_001);
  const oneField = readHeader(Buffer.from(`A: ${'b \n '.repeat(2_500_000)}\n\nbody`));
  assert.equal(oneField.fields[0]?.value.length, 49_150);
});

test('any octets are read, and an embedded message is never longer than its container', () => {
  const piece = fc.oneof(
    fc.constantFrom(
      'Content-Type: multipart/mixed; boundary=b\n',
      'Content-Type: message/rfc822\n',
      'Content-Transfer-Encoding: base64\n',
      'Content-Transfer-Encoding: quoted-printable\r\n',
      '--b\n',
      '--b--\r\n',
      '\r\n',
      '\n',
      '=?utf-8?q?',
      '?=',
      '=\n',
      '; a*0*="',
    ),
    fc.string({ unit: CHARACTER, maxLength: 20 }),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 30 }), (pieces) => {
      const bytes = Buffer.from(pieces.join(''));
      for (const { body, fields } of partsWithin(readMessage(bytes))) {
        assert.ok(body.length <= bytes.length);
        for (const { name } of fields) decodedFieldValue(fields, name.toLowerCase());
      }
    }),
    { numRuns: 2_000 },
  );
});

const word = fc.string({
  unit: fc.constantFrom('a', 'ä', '日', ' ', '=', '-', '?', '.'),
  minLength: 1,
});
const content = fc.array(word, { minLength: 1, maxLength: 12 }).map((lines) => lines.join('\n'));
const mails = fc.record({
  subject: word.map((text) => `s${text}e`),
  text: content,
  html: fc.option(content, { nil: undefined }),
  file: fc.option(fc.uint8Array({ maxLength: 300 }), { nil: undefined }),
  textEncoding: fc.constantFrom<'quoted-printable' | 'base64'>('quoted-printable', 'base64'),
});

test('messages of another composer are parsed as by another parser', async () => {
  await fc.assert(
    fc.asyncProperty(mails, async ({ subject, text, html, file, textEncoding }) => {
      const attachments =
        file === undefined
          ? []
          : [{ filename: 'f', contentType: 'application/x-f', content: Buffer.from(file) }];
      const mail = {
        subject,
        text,
        textEncoding,
        attachments,
        ...(html === undefined ? {} : { html }),
      };
      const bytes = await new MailComposer(mail).compile().build();
      const expected = await PostalMime.parse(bytes);
      const message = readMessage(bytes);
      const leaves = Array.from(partsWithin(message)).filter(({ parts }) => parts.length === 0);
      const textOf = (type: string) =>
        leaves.filter(({ contentType }) => contentType.type === type).map(partText)[0];
      assert.equal(decodedFieldValue(message.fields, 'subject'), expected.subject?.trim());
      assert.equal(lines(textOf('text/plain')), lines(expected.text));
      assert.equal(lines(textOf('text/html')), lines(expected.html));
      const attached = leaves.find(({ contentType }) =>
        contentType.type.startsWith('application/'),
      );
      const [attachment] = expected.attachments;
      assert.deepEqual(
        attached?.body.toString('hex'),
        attachment && Buffer.from(attachment.content as ArrayBuffer).toString('hex'),
      );
    }),
    { numRuns: 300 },
  );
});

const lines = (text: string | undefined) => (text ?? '').replaceAll('\r\n', '\n').trimEnd();
