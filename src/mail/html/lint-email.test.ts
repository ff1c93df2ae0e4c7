/** Shows which likely problems of an email are found. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cpuMs } from '../../../test/support/cpu.ts';
import { address } from '../../../test/support/deliveries.ts';
import { EMAIL_DEFAULTS, type MessageContent } from '../email.ts';
import { lintEmail } from './lint-email.ts';

const RECEIPT: MessageContent = {
  ...EMAIL_DEFAULTS,
  from: { name: null, address: address('hello@acme.com') },
  to: [{ name: null, address: address('jo@example.com') }],
  subject: 'Your receipt',
  html: '<p>Thank you for your order of one lamp.</p><a href="https://acme.com">Acme</a>',
};

const codes = (change: Partial<MessageContent>) =>
  lintEmail({ ...RECEIPT, ...change }).map(({ code }) => code);

test('a receipt has no findings', () => {
  assert.deepEqual(codes({}), []);
  assert.deepEqual(codes({ html: null, text: 'Thank you.' }), []);
});

test('a message without a text part has a finding; a derived text part is enough', () => {
  assert.deepEqual(codes({ text: '' }), ['no_text_part']);
  assert.deepEqual(codes({ text: null }), []);
});

test('html of more than 102 KB is clipped by Gmail; attachments do not count', () => {
  const html = (bytes: number) => `<p>${'ü'.repeat((bytes - 8) / 2)}.</p>`;
  assert.deepEqual(codes({ html: html(102 * 1024) }), []);
  assert.deepEqual(codes({ html: html(102 * 1024 + 2) }), ['clipped_by_gmail']);
  const content = Buffer.alloc(200 * 1024).toString('base64');
  const attachment = { filename: 'a', contentType: 'text/plain', contentId: null, content };
  assert.deepEqual(codes({ attachments: [attachment] }), []);
});

test('links and images without TLS are counted, in html and in plain text', () => {
  const html = `${RECEIPT.html}<a class=b href='http://a.test'>a</a><img src=http://b.test/c.png>`;
  assert.match(lintEmail({ ...RECEIPT, html })[0]!.message, /^2 links or images are /);
  assert.deepEqual(codes({ html: null, text: 'See http://a.test now.' }), ['http_links']);
  assert.deepEqual(codes({ html: `${RECEIPT.html}<p>http: is old</p>` }), []);
});

test('a message of images alone has a finding, with or without links', () => {
  const html = '<a href="https://acme.com/summer-sale"><img src="https://acme.com/a.png"></a>';
  assert.deepEqual(codes({ html }), ['image_only']);
  assert.deepEqual(codes({ html: `${html}<p>Everything at half price until Sunday.</p>` }), []);
});

test('mail that looks like bulk mail needs a way to unsubscribe', () => {
  const bulk: Partial<MessageContent>[] = [
    { html: `${RECEIPT.html}<p>Unsubscribe</p>` },
    { subject: 'The Acme newsletter' },
    { headers: [['List-Id', '<news.acme.com>']] },
    { headers: [['Precedence', 'bulk']] },
  ];
  for (const change of bulk) {
    assert.deepEqual(codes(change), ['no_unsubscribe'], JSON.stringify(change));
    assert.deepEqual(codes({ ...change, unsubscribeUrl: 'https://acme.com/u' }), []);
    const headers = [...(change.headers ?? []), ['List-Unsubscribe', '<https://a.test>']] as const;
    assert.deepEqual(codes({ ...change, headers }), []);
  }
});

test('spaces in an attribute cost no more than other characters', () => {
  for (const attribute of ['<img src=', '<a href="', '<a href=', '<img src = "x" href=']) {
    const html = `${attribute}${' '.repeat(250_000)}x>`;
    const tookMs = cpuMs(() => lintEmail({ ...RECEIPT, html }));
    assert.ok(tookMs < 2_000, `${attribute}: ${tookMs} ms`);
  }
});
