/** Header fields of clients, each with the grammar of its name: a table of accepted and of refused values. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { checkCustomHeader, customField } from './custom-fields.ts';
import { headerLine } from './mime/header.ts';
import { CHARACTER } from '../../test/support/characters.ts';

/** Returns the unfolded field. Asserts that it was accepted and that mail can carry its lines. */
function fieldText(name: string, value: string): string {
  assert.equal(checkCustomHeader(name, value), null, `${name}: ${value}`);
  const line = headerLine(customField(name, value));
  assert.match(line, /^[!-9;-~]+: (?:[ -~]+\r\n(?= [ -~]*[!-~]))*[ -~]+\r\n$/, line);
  for (const part of line.split('\r\n')) assert.ok(part.length <= 998, `${part.length}: ${part}`);
  return line.slice(name.length + 2, -2).replaceAll('\r\n', '');
}

test('clients cannot add headers that Letterhaus writes, or trace headers', () => {
  const names =
    'From sender TO Cc Bcc Reply-To Subject Date Message-ID Return-Path Received MIME-Version ' +
    'DKIM-Signature DKIM-X ARC-Seal Authentication-Results Content-Type content-disposition ' +
    'Resent-From resent-sender Resent-Date Received-SPF Delivered-To DomainKey-Signature';
  for (const name of names.split(' ')) {
    assert.match(checkCustomHeader(name, 'x') ?? '', /is written by the service/, name);
  }
});

/** The client's value and the written field; `=` means unchanged. */
const ACCEPTED: Record<string, Record<string, string>> = {
  'List-Unsubscribe': {
    '<https://x.example/ü>': '<https://x.example/%C3%BC>',
    '<https://bücher.example/ä?n=Jörg&a=%C3%BC#ß>':
      '<https://xn--bcher-kva.example/%C3%A4?n=J%C3%B6rg&a=%C3%BC#%C3%9F>',
    '<https://例え.jp:8443/日本>': '<https://xn--r8jz45g.jp:8443/%E6%97%A5%E6%9C%AC>',
    '<https://x.example/🚀>, <mailto:jörg@müller.de?subject=Tschüß>':
      '<https://x.example/%F0%9F%9A%80>, <mailto:j%C3%B6rg@xn--mller-kva.de?subject=Tsch%C3%BC%C3%9F>',
    '<https://x.example/u?a=?b&c=?utf-8?q?d?=>': '=',
    '<mailto:leave@acme.test?subject=unsubscribe>,<https://acme.test/u>':
      '<mailto:leave@acme.test?subject=unsubscribe>, <https://acme.test/u>',
    'https://acme.test/u?a=b,c': '<https://acme.test/u?a=b,c>',
    '< https://acme.test/u >,': '<https://acme.test/u>',
    '(leave here) <https://acme.test/{id}|"x">  (or write)':
      '(leave here) <https://acme.test/%7Bid%7D%7C%22x%22> (or write)',
    '<https://acme.test/100%>': '<https://acme.test/100%25>',
    '<HTTPS://ACME.test/U>': '=',
  },
  'list-unsubscribe-post': { 'list-unsubscribe=one-click': 'List-Unsubscribe=One-Click' },
  'List-Post': { NO: '=', 'NO (posting is not allowed)': '=', '<mailto:a@b.test>': '=' },
  'List-Help': {
    '<ftp://ftp.acme.test/hilfe-für-alle> (auf Deutsch)':
      '<ftp://ftp.acme.test/hilfe-f%C3%BCr-alle> (auf Deutsch)',
  },
  'Archived-At': { '<https://acme.test/é>': '<https://acme.test/%C3%A9>' },
  'List-Id': {
    'Acme <list.acme.test>': '=',
    'Grüße <list.acme.test>': '=?utf-8?B?R3LDvMOfZQ==?= <list.acme.test>',
    '"Acme, News" <news.müller.de>': '"Acme, News" <news.xn--mller-kva.de>',
    'news.acme.test': '<news.acme.test>',
    '<123>': '=',
  },
  'In-Reply-To': {
    '<a.b+c=d@mail.acme.test>': '=',
    '<=?x@acme.test>': '=',
    'a@acme.test': '<a@acme.test>',
    '<CAF"x"[1]@acme.test>': '=',
  },
  References: {
    '<a@b.test> <c@d.test>': '=',
    '<a@b.test><c@d.test>,  <e@f.test>': '<a@b.test> <c@d.test> <e@f.test>',
    '<without-an-at>': '=',
  },
  'Disposition-Notification-To': {
    'Jörg <jo@acme.test>': '=?utf-8?B?SsO2cmc=?= <jo@acme.test>',
    'a@b.test,"Doe, Jo" <c@bücher.test>': 'a@b.test, "Doe, Jo" <c@xn--bcher-kva.test>',
  },
  'Errors-To': { '<a@b.test>': 'a@b.test' },
  Expires: {
    'Thu, 26 Nov 2026 08:30:00 +0100': '=',
    '26 Nov 2026 08:30 GMT': '=',
    '2026-11-26T09:30:00+01:00': 'Thu, 26 Nov 2026 08:30:00 +0000',
  },
  'Auto-Submitted': { 'auto-generated': '=', 'auto-replied; owner-email="a@b.test"': '=', no: '=' },
  Precedence: { bulk: '=', auto_reply: '=' },
  Importance: { High: 'high' },
  Priority: { 'Non-Urgent': 'non-urgent' },
  Sensitivity: { 'company-confidential': 'Company-Confidential' },
  Keywords: {
    'invoice, Rechnung für März': 'invoice, =?utf-8?Q?Rechnung_f=C3=BCr_M=C3=A4rz?=',
    '"a, b",c d': '"a, b", c d',
  },
  'Feedback-ID': { 'a:b:c:acme': '=' },
  'Accept-Language': { 'de, en;q=0.8': '=' },
  'BIMI-Selector': { 'v=BIMI1; s=brand;': '=' },
  // Text, although it resembles one of the fields above.
  Comments: { '<ü>': '=?utf-8?B?PMO8Pg==?=' },
  'X-List-Unsubscribe': { 'https://ü': '=?utf-8?Q?https=3A//=C3=BC?=' },
  'X-Priority': { '1 (Highest)': '=' },
  Organization: { Müller: '=?utf-8?Q?M=C3=BCller?=' },
};

for (const [name, values] of Object.entries(ACCEPTED)) {
  test(`${name} is written by its grammar`, () => {
    for (const [value, expected] of Object.entries(values)) {
      const text = expected === '=' ? value : expected;
      assert.equal(fieldText(name, value), text);
      assert.equal(fieldText(name.toLowerCase(), ` ${value} `), text);
    }
  });
}

/** Values that would have another meaning, or none, for programs that parse the field. */
const REFUSED: Record<string, [RegExp, ...string[]]> = {
  'List-Unsubscribe': [
    /URL|more than 900/,
    'ü',
    'Click here: https://acme.test/u',
    '<https://acme.test/a b>',
    '<acme.test/u>',
    '<https://>',
    '<https://\u00ad/>',
    '<https:/a.test/u>',
    '<https:a.test>',
    '<mailto:a@ü.test/b>',
    '<https://ü.test\\b/>',
    '<mailto:>',
    '<https://a.test/>; <https://b.test/>',
    '<https://a.test/',
    '<https://a.test/> (für Sie)',
    '=?utf-8?q?<https://a.test/>?=',
    `<https://a.test/${'ü'.repeat(300)}>`,
    ',',
  ],
  'Archived-At': [/URL/, '<https://a.test/>, <https://b.test/>'],
  'List-Unsubscribe-Post': [/must be List-Unsubscribe=One-Click/, 'yes', 'One-Click'],
  'List-Post': [/URL/, 'NO, never', 'nobody'],
  'List-Id': [/id of a list/, 'Weekly news', '<a b>', 'ü', 'a <b> c', '<>', 'jo@acme.test'],
  'In-Reply-To': [
    /message ids/,
    'ü',
    '<ü@acme.test>',
    'Your message of Monday',
    '<a b@c.test>',
    '<a@b.test',
    '<>',
    ', ,',
    'x',
  ],
  References: [/message ids/, '<a@b.test> and <c@d.test>', '=?utf-8?q?=3Ca=40b=3E?='],
  'Disposition-Notification-To': [
    /address/,
    'Jo',
    'a@b.test, c',
    'jörg@b.test',
    'a@b.test c@d.test',
    ',',
  ],
  Expires: [
    /must be a date/,
    '0',
    'tomorrow',
    '2026-11-26',
    'Thu, 32 Nov 2026 08:30:00 +0000',
    '26 Nov 26 08:30 GMT',
  ],
  'Auto-Submitted': [/one word/, 'automatisch für Sie', 'générée', 'auto generated'],
  Precedence: [/one word/, 'très'],
  Importance: [/must be low or normal or high/, '1', 'höchste'],
  Priority: [/must be non-urgent or normal or urgent/, 'high'],
  'TLS-Required': [/must be No/, 'Yes'],
  Keywords: [/no word/, ', ,', '""'],
  'Feedback-ID': [/outside of ASCII/, 'ü:b:c:acme'],
  'CFBL-Address': [/outside of ASCII/, 'fbl@bücher.test; report=arf'],
};

for (const [name, [reason, ...values]] of Object.entries(REFUSED)) {
  test(`${name} is refused with a sentence when its grammar does not allow the value`, () => {
    for (const value of values) {
      assert.match(checkCustomHeader(name, value) ?? 'accepted', reason, value);
      // An email from before the field had a grammar is still sent.
      assert.match(headerLine(customField(name, value)), /^[ -~\r\n]+$/);
    }
  });
}

test('a custom List-Unsubscribe stays on one line as long as a line may be', () => {
  const two = '<mailto:leave@acme.test?subject=1234567890>, <https://acme.test/leave/1234567890>';
  assert.equal(customField('list-unsubscribe', two).value, two);
  const many = `${two}, ${two}, <https://acme.test/${'x'.repeat(850)}>`;
  assert.ok(customField('List-Unsubscribe', many).value.split('\r\n').length > 1);
});

test('a custom header needs a name and a value that fit a line', () => {
  for (const name of ['', 'X Y', 'X:', 'X-Ü', 'X\r\nBcc', 'x'.repeat(77), 'X\0']) {
    assert.match(checkCustomHeader(name, 'x') ?? '', /not a header name/, name);
  }
  const bad = [
    '',
    ' ',
    'a\r\nBcc: x@y.z',
    'a\tb',
    'a\0',
    '\ud800',
    'x'.repeat(901),
    'x '.repeat(4_001),
  ];
  for (const value of [...bad, `a${' '.repeat(901)}b`]) {
    assert.notEqual(checkCustomHeader('X-A', value), null, JSON.stringify(value));
  }
  for (const value of [
    '1',
    'Grüße',
    'a  b',
    'x'.repeat(900),
    '<https://acme.com/u>',
    'word '.repeat(999),
  ]) {
    assert.equal(checkCustomHeader('X-A', value), null, value);
  }
  assert.equal(checkCustomHeader('List-Unsubscribe', '<mailto:u@acme.com>'), null);
});

test('each grammar takes time proportional to the value, even for the longest hostile values', () => {
  const shapes = [
    'x',
    'x.',
    'x=',
    '<',
    '<x> ',
    '<a:b>,',
    '(',
    '(x) ',
    '"',
    '"\\',
    '"x", ',
    ',',
    '@',
    'x@y ',
    ' ; x=y',
    '=?',
    '/',
    'ü',
  ];
  const longest = shapes.flatMap((shape) => [
    shape.repeat(890 / shape.length),
    `${shape.repeat(200)} `.repeat(9).slice(0, 7_990),
  ]);
  const ends = ['', '\u00e9', '"', ' ', '<', ')', 'x'];
  const values = longest.flatMap((value) => ends.map((end) => value + end));
  for (const name of [...Object.keys(ACCEPTED), ...Object.keys(REFUSED)]) {
    for (const value of values) checkCustomHeader(name, value);
  }
});

const pieces = fc.array(
  fc.oneof(
    fc.constantFrom(
      '<',
      '>',
      '<a@b.test>',
      '<https://',
      'acme.test',
      '@',
      ',',
      ';',
      '(',
      ')',
      '"',
      '\\',
      ' ',
      '%',
      '=',
    ),
    fc.constantFrom(
      '=?utf-8?q?x?=',
      'mailto:',
      '/ü',
      'bücher.test',
      'no',
      '🚀',
      '\u017f',
      '?',
      ':',
      'x'.repeat(300),
    ),
    fc.string({ unit: CHARACTER, maxLength: 4 }),
  ),
  { maxLength: 8 },
);

test('every accepted custom header is written in ASCII, as one field, and is the same when written again', () => {
  const names = fc.oneof(
    fc.constantFrom(...Object.keys(ACCEPTED), ...Object.keys(REFUSED)),
    fc.stringMatching(/^[A-Za-z0-9-]{1,80}$/),
  );
  const values = pieces.map((parts) => parts.join(''));
  fc.assert(
    fc.property(names, values, (name, value) => {
      if (checkCustomHeader(name, value) !== null) return;
      const once = fieldText(name, value);
      // For the parser of requests, an encoded word is text.
      if (!once.includes('=?')) assert.equal(fieldText(name, once), once);
    }),
    { numRuns: 3_000 },
  );
});
