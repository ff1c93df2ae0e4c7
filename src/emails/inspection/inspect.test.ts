/** Shows how the parts of a message are listed, also those with hostile names. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { withParameter } from '../../mail/mime/header.ts';
import { inspectMessage } from './inspect.ts';

const inspect = (...lines: string[]) => inspectMessage(Buffer.from(lines.join('\r\n')));

const mixed = (...parts: readonly (readonly string[])[]) =>
  inspect(
    'Content-Type: multipart/mixed; boundary=b',
    '',
    ...parts.flatMap((part) => ['--b', ...part]),
    '--b--',
  );

test('a text with a file name is listed as a file and not shown as the text', () => {
  const { html, text, attachments } = mixed(
    ['Content-Type: text/html; name=report.html', 'Content-Disposition: inline', '', '<p>Report'],
    ['Content-Type: Text/Plain (x)', 'Content-Transfer-Encoding: BASE64 (x)', '', 'SGk='],
    ['Content-Type: text/html', 'Content-Transfer-Encoding: x-uuencode', '', 'begin 644'],
    ['Content-Type: message/rfc822', '', 'Content-Type: text/html', '', '<p>Another message'],
  );
  assert.deepEqual([html, text], [null, 'Hi']);
  assert.deepEqual(
    attachments.map(({ filename, contentType }) => [filename, contentType]),
    [
      ['report.html', 'text/html'],
      ['attachment-2', 'text/html'],
      ['attachment-3', 'message/rfc822'],
    ],
  );
});

test('file names of strangers are made safe to store', () => {
  for (const [given, name] of [
    ['=?utf-8?q?x?=.txt', '=?utf-8?q?x?=.txt'],
    ['invoice\u202efdp.exe', 'invoice_fdp.exe'],
    ['../../etc/passwd', '.._.._etc_passwd'],
    ['C:\\x\\y.pdf', 'C:_x_y.pdf'],
    ['a.exe. . ', 'a.exe'],
    ['..', 'attachment-1'],
    ['. ', 'attachment-1'],
    ['.env', '.env'],
    ['"; filename=y', '"; filename=y'],
  ] as const) {
    const disposition = withParameter('attachment', 'filename', given).join('');
    const { attachments } = inspect(`Content-Disposition: ${disposition}`, '', 'x');
    assert.equal(attachments[0]?.filename, name, given);
  }
});

test('a Content-ID is read without its comments', () => {
  const part = ['Content-Type: image/gif', 'Content-ID: (x) <logo@acme> (y)', '', ''];
  assert.equal(mixed(part).attachments[0]?.contentId, 'logo@acme');
});
