/**
 * Content from senders and members: html and all its readers, templates with their variables, templates of other
 * services, searches, and lists of suppressions.
 */
import assert from 'node:assert/strict';
import { EMAIL_DEFAULTS } from '../../../src/mail/email.ts';
import { checkHtmlSupport } from '../../../src/mail/html/html-support.ts';
import { lintEmail } from '../../../src/mail/html/lint-email.ts';
import { parseAddress } from '../../../src/mail/address.ts';
import { textFromHtml } from '../../../src/mail/html/text-from-html.ts';
import { trackHtml } from '../../../src/mail/html/tracked-html.ts';
import { TrackingTokens } from '../../../src/mail/links/tracking-link.ts';
import { readSearch, SEARCH_MAX } from '../../../src/emails/search.ts';
import { readCsv, COLUMNS_WITHOUT_NAMES, columnsOf, readRow } from '../../../src/move-in/csv.ts';
import { readEntries, type SourceEntry, UnusableFile } from '../../../src/move-in/entries.ts';
import { readPart } from '../../../src/templates/liquid.ts';
import { Work } from '../../../src/templates/work.ts';
import { SYNTAXES, translatePart } from '../../../src/move-in/translate.ts';
import { type Format, targetOf } from './by-format.ts';

const FORMATS: Record<
  'html' | 'csv' | 'lists' | 'templates' | 'liquid' | 'variables' | 'search',
  Format
> = {
  html: {
    samples: () => [
      '<html><head><title>a</title><style>p{}</style></head><body><p>Hello <a href="https://a.test/">A</a><br><ul><li>1<li>2</ul><pre>\n a</pre><table><tr><td>b<td>c</table></body>',
      '<div style="display: none">x</div><!-- c --><img alt="y"><a href=\'mailto:a@b\'><img alt=z></a>&amp;&#8364;&#x1f4a5;&copy',
    ],
    fragments: [
      '<p>',
      '</p>',
      '<a href="x">',
      '</a>',
      '<a href=',
      '<a href="https://a.test/">',
      '</body>',
      '<li>',
      '<ol>',
      '<pre>',
      '<!--',
      '-->',
      '<script>',
      '</script',
      '<td style="display:none">',
      ' style',
      ' src= ',
      'http:',
      '<style>',
      '</style>',
      ' href=',
      'unsubscribe ',
      '&lt;',
      '&amp;',
      '&#',
      '<',
      '=',
    ],
    read: readsHtml,
  },
  csv: {
    samples: () => [
      'address,reason,created_at\r\na@b.test,complaint,2026-11-21T08:30:00Z\r\n"x, y"@c.test,manual,\r\n',
      '\u00ef\u00bb\u00bfemail;reason\na@b.test;hard_bounce\n"a ""b""@c.test";x\n',
    ],
    fragments: ['a@b.test', ',', ';', '"', '""', '\n', '\r\n', 'reason', '=1', "'@", '\t'],
    read: readsCsv,
  },
  lists: {
    samples: () => [
      '{"Suppressions":[{"EmailAddress":"a@b.test","SuppressionReason":"HardBounce","Origin":"Recipient","CreatedAt":"2019-12-17T08:58:33-05:00"}]}',
      '[{"created":1443651125,"email":"a@b.test","reason":"550 5.1.1 no","status":"5.1.1"},\n"c@d.test"]\n',
      '{"items":[{"address":"a@b.test","tags":["*"],"created_at":"Tue, 07 Jan 2025 19:25:45 UTC"}],"paging":{"next":"x"}}\n{"items":[]}',
      'emailAddress,reason\na@b.test,BOUNCE\n',
      '{"address":"a@b.test","code":550,"error":"x"}\n{"address":"b@b.test","code":550,"error":""}',
    ],
    fragments: [
      '{',
      '}',
      '[',
      ']',
      '"',
      '\\',
      ',',
      ':',
      '1e9',
      'null',
      '\n',
      '\ufeff',
      '[[[[',
      '{"a":',
    ],
    read: readsLists,
  },
  templates: {
    samples: () => [
      '{{#each a.b as |c d|}}{{c.e}}{{@index}}{{else}}{{{../f}}}{{/each}} {{~#if g~}}{%{{else if h}}{{^i}}x{{/i}}{{/if}}',
      '{{#with a}}{{this}}{{@root.b}}{{/with}}\n{{!-- c --}}\n{{> d}}{{#equals e "f"}}{{g h=1}}{{/equals}}',
      'Hi {{{NAME}}} {{{CITY|Paris}}} {{x}}',
    ],
    fragments: [
      '{{',
      '}}',
      '{{{',
      '}}}',
      '{%',
      '%}',
      '{',
      '\\',
      '#if',
      '/if',
      '#each x',
      'else',
      '"',
      '[',
      '(',
      '~',
      '../',
    ],
    read: translatesTemplate,
  },
  liquid: {
    samples: () => [
      '{% for x in l limit: n offset: a %}{{ x | upcase }}{% endfor %}{{ l | join: a }}{{ o.b | replace: a, "c" }}',
      '{% if a contains l %}{% endif %}{% case l %}{% when a %}{% endcase %}{% assign r = (1..n) %}{{ r | concat: l }}',
      '{% capture c %}{{ l | split: a | sort | map: a }}{% endcapture %}{{ c | strip: c | truncatewords: 3 }}',
    ],
    fragments: [
      '{{ ',
      ' }}',
      '{% ',
      ' %}',
      'for x in l',
      'endfor',
      'if a == l',
      'endif',
      'assign a = ',
      'l | ',
      'a | ',
      'replace: a, l',
      'split: l',
      'join: l',
      'sort',
      'map: a',
      'append: a',
      'escape',
      'date: a',
      '(1..n)',
      '(l..a)',
      ' limit: l',
      'o.b',
      '| ',
      '"',
    ],
    read: (bytes) => rendersTemplate(bytes.toString()),
  },
  variables: {
    samples: () => ['aaab', 'a,b c', '<&"', '12', '2026-01-02'],
    fragments: ['a', 'b', ' ', ',', '<', '&amp;', '1', '.', '[', 'ü', '\u4e00', '\n'],
    read: (bytes) => rendersVariables(bytes.toString()),
  },
  search: {
    samples: () => ['to:jo@example.com after:2026-11-21 receipt "order 4711" tag:a:b status:sent'],
    fragments: ['to:', 'from:', 'tag:', 'after:', '"', ' ', ':', '@', 'a', '2026-01-01', '_'],
    read: (bytes) => readsSearch(bytes.toString()),
  },
};

const EMAIL = {
  ...EMAIL_DEFAULTS,
  from: { name: null, address: parseAddress('hello@acme.com')! },
  to: [],
  subject: 'Hello',
};

const TRACKED = {
  tracking: { opens: false, clicks: true, base: 'https://links.test' },
  recipient: {
    projectId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
    environment: 'live' as const,
    emailId: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21ab',
    position: 0,
  },
  tokens: new TrackingTokens([Buffer.alloc(32, 1)]),
  isUntracked: () => false,
};
const TRACKED_LINK = /https:\/\/links\.test\/t\/([\w-]+)/g;

function readsHtml(bytes: Buffer): void {
  const html = bytes.toString();
  const text = textFromHtml(html);
  assert.ok(text.length <= html.length + 200 && text.length <= 200_000 && text.isWellFormed());
  assert.ok(checkHtmlSupport(html).links.length <= 100);
  for (const { message } of lintEmail({ ...EMAIL, html })) assert.ok(message.length < 300);
  lintEmail({ ...EMAIL, html: null, text: html });
  const tracked = trackHtml(html, TRACKED);
  const shown = tracked.replace(TRACKED_LINK, (_, token: string) => {
    assert.ok(TRACKED.tokens.read(token) !== null);
    return '';
  });
  assert.ok(shown.length <= html.length && tracked.length >= shown.length);
}

async function readsCsv(bytes: Buffer): Promise<void> {
  let line = 0;
  let columns = COLUMNS_WITHOUT_NAMES;
  for await (const rows of readCsv(pieces(bytes))) {
    for (const row of rows) {
      assert.ok(row.line > line);
      line = row.line;
      if (!('cells' in row)) continue;
      columns = columnsOf(row.cells) ?? columns;
      const said = readRow(row.cells, columns);
      if ('problem' in said) assert.ok(said.problem.length < 700);
    }
  }
}

/** Asserts that unusable lists are refused with a sentence, and that entries are in the order of their lines. */
async function readsLists(bytes: Buffer): Promise<void> {
  const seen: SourceEntry[] = [];
  try {
    for await (const { entries } of readEntries(pieces(bytes), null)) seen.push(...entries);
  } catch (error) {
    assert.ok(error instanceof UnusableFile && error.message.length < 700, String(error));
  }
  let line = 1;
  for (const entry of seen) {
    assert.ok(entry.line >= line);
    line = entry.line;
    assert.ok(!('problem' in entry.read) || entry.read.problem.length < 700);
  }
}

/** Asserts that every template becomes valid Liquid, unless it is too large. */
function translatesTemplate(bytes: Buffer): void {
  for (const syntax of SYNTAXES) {
    const { liquid } = translatePart(bytes.toString(), { syntax, isHtml: true });
    const part = readPart(liquid, { isHtml: true });
    if ('problem' in part) assert.match(part.problem, /^(?:has|is nested) more than|^is longer/);
  }
}

async function* pieces(bytes: Buffer): AsyncGenerator<Buffer> {
  // The first bytes arrive one by one, and the rest at once.
  const small = Math.min(bytes.length, 64);
  for (let at = 0; at < small; at += 1) yield bytes.subarray(at, at + 1);
  yield bytes.subarray(small);
}

function rendersTemplate(source: string): void {
  const part = readPart(source, { isHtml: true });
  if ('problem' in part) return;
  const l = ['b', ['a', '1'], { b: null }, 'a'.repeat(9_000)];
  part.render({ a: 'aba', l, n: 3, o: { b: 'x'.repeat(9_000) } }, new Work());
}

/** Operations that each do one thing with a text and with a list of it, many times. */
const OPERATIONS = [
  '{{ l }}',
  '{{ t | replace: t, "x" }}',
  '{{ l | replace: s, "x" }}',
  '{{ l | split: s | size }}',
  '{% if t contains s %}{% endif %}',
  '{% if m contains l %}{% endif %}',
  '{% if l == m %}{% endif %}',
  '{{ l | sort | size }}',
  '{{ m | map: s | size }}',
  '{{ m | sum: t }}',
  '{{ m | join: s | size }}',
  '{{ l | escape_once | url_encode | size }}',
  '{{ t | truncatewords: 3 }}{{ t | squish | strip: s | size }}',
  '{% for x in m limit: t %}{% endfor %}',
  '{% for x in (1..t) %}{% endfor %}',
  '{{ t | date: "%Y" }}',
  '{% case t %}{% when s, t, s %}{% endcase %}',
  '{{ t | plus: t | times: t }}',
].map((operation) => {
  const part = readPart(`{% for i in (1..1000) %}${operation}{% endfor %}`, { isHtml: true });
  if ('problem' in part) throw new Error(part.problem);
  return part;
});

function rendersVariables(text: string): void {
  const t = text.slice(0, 100_000);
  const values = { t, s: t.slice(1), l: [t, [t]], m: t.slice(0, 5_000).split('') };
  const operation = OPERATIONS[t.charCodeAt(t.length >> 1) % OPERATIONS.length];
  operation?.render(values, new Work());
}

function readsSearch(text: string): void {
  const found = readSearch(text.slice(0, SEARCH_MAX));
  if ('problems' in found) assert.ok(found.problems.length > 0);
  readSearch(text);
}

export const content = targetOf(
  {
    name: 'content',
    about: 'html, CSV, templates with variables, templates of others, searches, suppression files',
  },
  FORMATS,
);
