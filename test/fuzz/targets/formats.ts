/** MIME, HTML, CSV, policies, replies of mail servers: the other formats that come from outside. */
import assert from 'node:assert/strict';
import { ReplyParser } from '../../../src/mail/replies/smtp-reply.ts';
import { classifyReply } from '../../../src/mail/replies/classify.ts';
import { partsWithin, readMessage, textOfPart } from '../../../src/mail/mime-reader.ts';
import { reportHtml } from '../../../src/mail/html-support.ts';
import { inspectMessage } from '../../../src/mail/inspect.ts';
import { relaxedBodyHash } from '../../../src/mail/dkim.ts';
import { textFromHtml } from '../../../src/mail/text-from-html.ts';
import { trackHtml } from '../../../src/mail/tracked-html.ts';
import { TrackingTokens } from '../../../src/mail/tracking-link.ts';
import { parseStsPolicy, policyNames } from '../../../src/net/tls/mta-sts.ts';
import {
  readCsv,
  COLUMNS_WITHOUT_NAMES,
  columnsOf,
  readRow,
} from '../../../src/suppressions/csv.ts';
import { readPart } from '../../../src/templates/liquid.ts';
import { SYNTAXES, translatePart } from '../../../src/templates/translate.ts';
import { readEntries, type SourceEntry, UnusableFile } from '../../../src/suppressions/entries.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { filled, mutated, strung, unitOf } from '../generators.ts';
import type { Input, Target } from '../target.ts';
import { reportSamples } from './report-samples.ts';

type Format = {
  samples: () => readonly string[];
  fragments: readonly string[];
  read: (bytes: Buffer) => void | Promise<void>;
};

const FORMATS: Record<
  'mime' | 'html' | 'csv' | 'lists' | 'templates' | 'policy' | 'replies' | 'canonical',
  Format
> = {
  mime: {
    samples: reportSamples,
    fragments: [
      'Content-Type: multipart/mixed; boundary=b\r\n',
      'Content-Type: message/rfc822\r\n',
      'Content-Transfer-Encoding: quoted-printable\r\n',
      'Content-Transfer-Encoding: base64\r\n',
      '\r\n\r\n',
      '\r\n--b\r\n',
      '\n--b',
      '--b--',
      '=41',
      '=\r\n',
      '= ',
      'AAAA',
    ],
    read: readsMime,
  },
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
  policy: {
    samples: () => [
      'version: STSv1\r\nmode: enforce\r\nmx: *.a.test\r\nmx: b.test\r\nmax_age: 86400\r\n',
    ],
    fragments: [
      'mode: ',
      'mx: ',
      'max_age: 1',
      'version: STSv1',
      ' ',
      '\t',
      ':',
      '\n',
      '*.',
      '-',
      'a.',
    ],
    read: readsPolicy,
  },
  replies: {
    samples: () => [
      '220 mx.test ESMTP\r\n250-mx.test\r\n250-SIZE 100\r\n250 STARTTLS\r\n550-5.1.1 no\r\n550 5.1.1 such user\r\n',
    ],
    fragments: [
      '250 ',
      '550-',
      '5.1.1 ',
      '\r\n',
      '\n',
      '421 try again',
      '\u00e2\u0080\u00ae',
      '999',
    ],
    read: readsReplies,
  },
  canonical: {
    samples: () => ['Hello  there \r\n\tx\r\n\r\n\r\n'],
    fragments: [' ', '\t', '\r\n', 'x', ' \r\n'],
    read: (bytes) => void relaxedBodyHash([Buffer.concat([bytes, Buffer.from('\r\n')])]),
  },
};
const KINDS = Object.keys(FORMATS) as (keyof typeof FORMATS)[];

function generate(random: RandomSource): Input {
  const kind = random.pick(KINDS);
  const { samples, fragments } = FORMATS[kind];
  const text = random.chance(0.5)
    ? mutated(random, random.pick(samples()), fragments)
    : strung(random, fragments, 30);
  return { kind, bytes: Buffer.from(text, 'latin1') };
}

function grow(random: RandomSource): (bytes: number) => Input {
  const kind = random.pick(KINDS);
  const { samples, fragments } = FORMATS[kind];
  const parts = {
    before: random.chance(0.5) ? '' : random.pick(samples()).slice(0, random.between(0, 200)),
    unit: unitOf(random, fragments),
    after: random.pick(['', 'x', '\r\n']),
  };
  return (bytes) => ({ kind, bytes: Buffer.from(filled(parts, bytes), 'latin1') });
}

function readsMime(bytes: Buffer): void {
  let parts = 0;
  for (const part of partsWithin(readMessage(bytes))) {
    parts += 1;
    if (part.parts.length === 0) textOfPart(part);
  }
  assert.ok(parts <= 300);
  assert.ok(inspectMessage(bytes).attachments.length <= 300);
}

const TRACKED = {
  tracking: { opens: false, clicks: true, base: 'https://links.test' },
  who: {
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
  assert.ok(reportHtml(html).links.length <= 100);
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

/** What is unusable is refused with a sentence, and every entry has a place. */
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

/** Whatever it was, it is Liquid now, unless it is too large for it. */
function translatesTemplate(bytes: Buffer): void {
  for (const syntax of SYNTAXES) {
    const { liquid } = translatePart(bytes.toString(), { syntax, isHtml: true });
    const part = readPart(liquid, { isHtml: true });
    if ('problem' in part) assert.match(part.problem, /^(?:has|is nested) more than|^is longer/);
  }
}

async function* pieces(bytes: Buffer): AsyncGenerator<Buffer> {
  // Many small ones, then the rest at once.
  const small = Math.min(bytes.length, 64);
  for (let at = 0; at < small; at += 1) yield bytes.subarray(at, at + 1);
  yield bytes.subarray(small);
}

function readsPolicy(bytes: Buffer): void {
  const parsed = parseStsPolicy(bytes.toString());
  if ('problem' in parsed) return;
  assert.ok(parsed.policy.mx.length <= 200 && parsed.policy.maxAgeS >= 300);
  policyNames(parsed.policy, 'mx.a.test');
}

/** Cut anywhere, they say the same. */
function readsReplies(bytes: Buffer): void {
  const whole = new ReplyParser().push(bytes);
  const parser = new ReplyParser();
  const replies = [...parser.push(bytes.subarray(0, bytes.length >> 1)).replies];
  const last = parser.push(bytes.subarray(bytes.length >> 1));
  assert.deepEqual([...replies, ...last.replies], whole.replies);
  assert.equal(last.error, whole.error);
  for (const reply of whole.replies) {
    assert.ok(Buffer.byteLength(reply.message) <= 2_048 && reply.message.isWellFormed());
    if (reply.code >= 400) classifyReply({ phase: 'rcpt', reply });
  }
}

function read({ kind, bytes }: Input): void | Promise<void> {
  return FORMATS[kind as keyof typeof FORMATS].read(bytes);
}

export const formats: Target = {
  name: 'formats',
  about: 'MIME, HTML, CSV, policies of MTA-STS, replies of mail servers, bodies to sign',
  generate,
  grow,
  growsUpTo: 256 * 1024,
  cpuMsMax: 100,
  open: () => Promise.resolve({ read }),
};
