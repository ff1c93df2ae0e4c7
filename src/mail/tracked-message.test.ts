import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import { trackMessage } from './tracked-message.ts';

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

test('what is signed, encrypted, quoted or of another charset is not changed', () => {
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
