/** Tracking of a message that came by SMTP: only the html that readers see changes, and all other octets stay. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { inspectMessage } from '../../emails/inspection/inspect.ts';
import { mayHaveHtml, trackMessage } from './tracked-message.ts';

const HTML = '<p>Grüße = 100 %</p><a href="https://a.test/">A</a>';
const TRACKED = HTML.replace('https://a.test/', `https://links.test/t/${'x'.repeat(200)}`);

const track = (html: string) =>
  html.replaceAll('https://a.test/', `https://links.test/t/${'x'.repeat(200)}`);

const lines = (...text: string[]) => Buffer.from(text.join('\r\n') + '\r\n');
const tracked = (...text: string[]) => trackMessage(lines(...text), track);

const HEADER = ['From: a@acme.test', 'Subject: Hi', 'MIME-Version: 1.0'];
const base64 = (text: string) => Buffer.from(text).toString('base64');
const IMAGE = ['Content-Type: image/gif', 'Content-Transfer-Encoding: base64', '', 'R0lGODlh'];

test('the html of a message is tracked, however it is encoded', async () => {
  for (const [encoding, text] of [
    ['8bit', HTML],
    ['base64', base64(HTML)],
    [
      'quoted-printable',
      HTML.replaceAll('=', '=3D').replaceAll('ü', '=C3=BC').replaceAll('ß', '=C3=9F'),
    ],
  ] as const) {
    const type = 'Content-Type: text/html; charset=utf-8';
    const message = tracked(...HEADER, `Content-Transfer-Encoding: ${encoding}`, type, '', text);
    const { html, from } = await PostalMime.parse(message);
    assert.equal(html?.trimEnd(), TRACKED, encoding);
    assert.equal(from?.address, 'a@acme.test');
    assert.equal(message.toString().match(/^content-transfer-encoding:/gim)?.length, 1);
    assert.ok(
      message
        .toString()
        .split('\r\n')
        .every((line) => line.length <= 78),
    );
  }
});

test('only the html part changes; text, images and attachments keep their octets', async () => {
  const before = [
    ...HEADER,
    'Content-Type: multipart/mixed; boundary=m',
    '',
    'preamble',
    '--m',
    'Content-Type: multipart/alternative; boundary=n',
    '',
    '--n',
    '',
    'https://a.test/',
    '--n',
    'Content-Type: multipart/related; boundary=r',
    '',
    '--r',
  ];
  const html = [
    'Content-Type: text/html',
    'Content-ID: <1@a>',
    '',
    '<a href=https://a.test/>A</a>',
  ];
  const after = [
    '--r',
    ...IMAGE,
    '--r--',
    '--n--',
    '--m',
    'Content-Type: text/html',
    'Content-Disposition: attachment; filename=a.html',
    '',
    '<a href=https://a.test/>A</a>',
    '--m--',
  ];
  const message = tracked(...before, ...html, ...after);
  const [start, end] = [lines(...before), lines('', ...after)];
  assert.deepEqual(message.subarray(0, start.length), start);
  assert.deepEqual(message.subarray(-end.length), end);
  const parsed = await PostalMime.parse(message);
  assert.equal(parsed.html?.trimEnd(), track('<a href=https://a.test/>A</a>'));
  assert.match(
    message.toString(),
    /Content-ID: <1@a>\r\nContent-Transfer-Encoding: quoted-printable/,
  );
});

test('html that is signed, encrypted, quoted or in another charset does not change', () => {
  const html = ['Content-Type: text/html', '', HTML];
  const multipart = (type: string) => [
    ...HEADER,
    `Content-Type: ${type}; boundary=b`,
    '',
    '--b',
    ...html,
    '--b--',
  ];
  const messages = [
    multipart('multipart/signed'),
    multipart('multipart/encrypted'),
    multipart('multipart/report'),
    [...HEADER, 'DKIM-Signature: v=1; a=rsa-sha256', ...html],
    [...HEADER, 'Content-Type: message/rfc822', '', ...html],
    [...HEADER, 'Content-Type: text/html; charset=iso-8859-1', '', HTML],
    [...HEADER, 'Content-Type: text/plain', '', HTML],
    [...HEADER, '', HTML],
  ];
  for (const message of messages) {
    assert.deepEqual(tracked(...message), lines(...message), message.join('\n'));
  }
  const latin1 = Buffer.concat([
    lines(...HEADER, 'Content-Type: text/html', ''),
    Buffer.from([0xe4]),
  ]);
  assert.equal(
    trackMessage(latin1, (text) => `${text}!`),
    latin1,
  );
});

const UTF8_HTML = ['Content-Type: text/html; charset=utf-8', '', HTML];

/** Returns a multipart; each part is a list of lines. */
const multipartOf = (type: string, ...parts: readonly (readonly string[])[]) => [
  ...HEADER,
  `Content-Type: ${type}; boundary=b`,
  '',
  ...parts.flatMap((part) => ['--b', ...part]),
  '--b--',
];

test('html is tracked with any comments, case and folding in its fields', () => {
  for (const fields of [
    ['Content-Type: TEXT/HTML; CHARSET=UTF-8', 'Content-Transfer-Encoding: BASE64'],
    ['Content-Type: text/html; charset=utf-8', 'Content-Transfer-Encoding: base64 (body)'],
    [
      'content-type: text (a \\) b) / (page)',
      '\thtml',
      'CONTENT-TRANSFER-ENCODING: (x)',
      ' base64',
    ],
    ['Content-Type: Text/Html;', ' charset (of it) = "utf-8"', 'Content-Transfer-Encoding: Base64'],
    ["Content-Type: text/html; charset*=us-ascii'en'UTF-8", 'Content-Transfer-Encoding: base64;'],
  ]) {
    const message = lines(...HEADER, ...fields, '', base64(HTML));
    assert.ok(mayHaveHtml(message), fields.join());
    const rewritten = trackMessage(message, track);
    assert.equal(inspectMessage(rewritten).html?.trimEnd(), TRACKED, fields.join());
    assert.equal(rewritten.toString().match(/^content-transfer-encoding:/gim)?.length, 1);
  }
});

test('a part with an unknown, forbidden or repeated encoding keeps its octets and its label', () => {
  const type = 'Content-Type: text/html';
  const encoding = (value: string) => `Content-Transfer-Encoding: ${value}`;
  for (const message of [
    ...['x-uuencode', 'base-64', '8-bit', 'base64 8bit', '"base64"', ''].map((value) => [
      ...HEADER,
      type,
      encoding(value),
      '',
      HTML,
    ]),
    // Parsers differ on whether base64 ends at the padding.
    [...HEADER, type, encoding('base64'), '', base64('<p>1'), base64(HTML)],
    [...HEADER, type, encoding('base64'), '', HTML],
    multipartOf('multipart/mixed', [type, encoding('base64'), encoding('8bit'), '', HTML]),
    multipartOf('multipart/mixed', [type, 'Content-Type: text/plain', '', HTML]),
    [...HEADER, encoding('base64'), ...multipartOf('multipart/mixed', UTF8_HTML).slice(3)],
    [
      ...HEADER,
      encoding('quoted-printable'),
      ...multipartOf('multipart/mixed', UTF8_HTML).slice(3),
    ],
  ]) {
    const html = trackMessage(lines(...message), (text) => `${track(text)}!`);
    assert.deepEqual(html, lines(...message), message.join('\n'));
  }
});

test('only the html that readers show is tracked, not files', () => {
  const html = (...fields: string[]) => ['Content-Type: text/html', ...fields, '', HTML];
  const text = ['', 'Hi'];
  const image = ['Content-ID: <1@a>', ...IMAGE];
  const related = (parameters: string, ...parts: string[][]) =>
    multipartOf(`multipart/related; type="text/html"${parameters}`, ...parts);
  const named = html('Content-Disposition: inline; filename=report.html');
  for (const [count, message] of [
    [1, [...HEADER, ...UTF8_HTML]],
    [1, [...HEADER, ...html('Content-Disposition: INLINE (x)')]],
    // The whole message is shown, even with a file name.
    [1, [...HEADER, ...named]],
    [0, [...HEADER, ...html('Content-Disposition: attachment')]],
    [0, [...HEADER, ...html('Content-Disposition: (a file) Attachment; filename=a.html')]],
    [1, multipartOf('MULTIPART/ALTERNATIVE', text, html())],
    [0, multipartOf('multipart/alternative', text, html('Content-Disposition: attachment'))],
    // A second part without a name is shown below the first.
    [2, multipartOf('multipart/mixed', html(), image, html())],
    [1, multipartOf('multipart/mixed', html(), named)],
    [1, multipartOf('multipart/mixed', named, html())],
    [0, multipartOf('multipart/mixed', text, ['Content-Type: text/html; name=r.html', '', HTML])],
    [
      0,
      multipartOf('multipart/mixed', text, ["Content-Type: text/html; NAME*=utf-8''r", '', HTML]),
    ],
    [0, multipartOf('multipart/mixed', text, html('Content-Disposition: inline; filename*0=r'))],
    // An unknown disposition is an attachment (RFC 2183 §2.8).
    [0, multipartOf('multipart/mixed', text, html('Content-Disposition: x-hidden'))],
    [1, multipartOf('multipart/mixed', html(), ['Content-Type: message/rfc822', '', ...html()])],
    [1, multipartOf('multipart/mixed', html(), ['Content-Type: message/global', '', ...html()])],
    [1, related('', html(), image, html('Content-ID: <2@a>'))],
    [1, related('', named, image)],
    [1, related('; start="<2@a>"', image, html('Content-ID: <2@a>'))],
    [0, related('; start="<1@a>"', html('Content-ID: <2@a>'), image)],
  ] as const) {
    const rewritten = trackMessage(lines(...message), (before) => {
      assert.equal(before.trimEnd(), HTML);
      return track(before);
    }).toString();
    assert.equal(rewritten.split('links.test').length - 1, count, message.join('\n'));
  }
});

test('a part that is signed or encrypted does not change, wherever it is', () => {
  const inner = (type: string) => [
    `Content-Type: ${type}; boundary=c`,
    '',
    '--c',
    ...UTF8_HTML,
    '--c--',
  ];
  for (const type of [
    'multipart/signed; micalg=pgp-sha256; protocol="application/pgp-signature"',
    'Multipart/Signed; protocol="application/pkcs7-signature"',
    'MULTIPART/ENCRYPTED',
    'multipart/x-unknown',
    'multipart/digest',
  ]) {
    const message = multipartOf('multipart/mixed', ['', 'Hi'], inner(type));
    assert.deepEqual(tracked(...message), lines(...message), type);
  }
  for (const field of ['DKIM-Signature: v=1', 'arc-seal: i=1', 'DomainKey-Signature: a=rsa-sha1']) {
    const message = [...HEADER, field, ...UTF8_HTML];
    assert.deepEqual(tracked(...message), lines(...message), field);
  }
});

test('a part that changes loses the fields that its former octets had', () => {
  const md5 = ['Content-MD5: Q2hlY2sgSW50ZWdyaXR5IQ==', 'Content-Length: 12'];
  const rewritten = tracked(
    ...multipartOf('multipart/mixed', [...md5, ...UTF8_HTML], [...md5, ...IMAGE]),
  );
  assert.equal(rewritten.toString().match(/^Content-MD5/gm)?.length, 1);
  assert.match(
    rewritten.toString(),
    /\r\nContent-MD5: .*\r\nContent-Length: 12\r\nContent-Type: image\/gif/,
  );
});

test('mayHaveHtml is false for a message without html', () => {
  for (const type of ['text/plain', 'multipart/mixed; boundary=b', 'image/gif']) {
    const message = lines(...HEADER, `Content-Type: ${type}`, 'X-Type: text/Html', '', 'Text/HTML');
    assert.equal(mayHaveHtml(message), false, type);
  }
});
