/** Headers and addresses: those of received mail, those that clients give, and the paths of SMTP. */
import assert from 'node:assert/strict';
import { readAddressList } from '../../../src/mail/address-fields.ts';
import {
  explainAddress,
  formatMailbox,
  parseDomain,
  parseMailbox,
} from '../../../src/mail/address.ts';
import { addressesIn, addressIn } from '../../../src/mail/reports/text-entries.ts';
import { checkCustomHeader, customField } from '../../../src/mail/custom-fields.ts';
import { decodeWords } from '../../../src/mail/mime/decode.ts';
import {
  readContentId,
  readContentType,
  readDisposition,
  readTransferEncoding,
} from '../../../src/mail/mime/fields.ts';
import {
  addressField,
  headerLine,
  isContentId,
  isMediaType,
  withParameter,
} from '../../../src/mail/mime/header.ts';
import { readHeader } from '../../../src/mail/mime/reader.ts';
import { relaxedField } from '../../../src/mail/dkim.ts';
import { readCommand, readMail, readRcpt } from '../../../src/net/smtp/server/server-commands.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { filled, mutated, strung, unitOf } from '../generators.ts';
import type { Input, Target } from '../target.ts';

const SAMPLES = [
  'jo@receiver.test',
  'Jo <jo@receiver.test>',
  '"Jo, \\"J\\"" <jo@receiver.test>, ann@a.test (comment (nested)), group: a@b.c, d@e.f;',
  '"a b"@c.test',
  'j\u00c3\u00b6rg@m\u00c3\u00bcnchen.de',
  'a@xn--mnchen-3ya.de',
  '=?utf-8?Q?J=C3=B6rg?= =?utf-8?B?w6k=?= <jo@receiver.test>',
  'From: Acme <hello@acme.test>\r\nTo: jo@b.test,\r\n ann@c.test\r\nSubject: =?x?q?=?=\r\n\r\nbody',
  'multipart/mixed; boundary="a b"; charset*0*=utf-8\'\'%41; charset*1=x',
  'FROM:<a@b.test> SIZE=100 BODY=8BITMIME SMTPUTF8',
  'TO:<@relay.test:"a\\"b"@c.test>',
  'application/pdf; name="x.pdf"',
  'rfc822; <jo@\\x{e9}.test>',
];
const FRAGMENTS = [
  'a@b.c',
  '"a"',
  '<a@b>',
  '@',
  '.',
  '\\"',
  '(',
  ')',
  ',',
  ';',
  ':',
  '=?utf-8?Q?',
  '=?x?b?AAAA?=',
  '?=',
  'xn--',
  'xn--a.',
  'a'.repeat(64),
  '\r\n ',
  '\r\n',
  'From: ',
  'SIZE=',
  ' BODY=7BIT',
  '; a*0=',
  "utf-8''%",
  '\u00f0\u009f\u0092\u00a5',
  '\u00e2\u0080\u00ae',
  'multipart/mixed',
];
const READERS = {
  header: readsHeader,
  list: readsList,
  mailbox: readsMailbox,
  found: readsFound,
  words: (text: string) => void decodeWords(text),
  structured: readsStructured,
  custom: readsCustom,
  domain: readsDomain,
  path: readsPath,
  parameter: readsParameter,
};
const KINDS = Object.keys(READERS) as (keyof typeof READERS)[];

function generate(random: RandomSource): Input {
  const text = random.chance(0.5)
    ? mutated(random, random.pick(SAMPLES), FRAGMENTS)
    : strung(random, FRAGMENTS, 12);
  return { kind: random.pick(KINDS), bytes: Buffer.from(text, 'latin1') };
}

function grow(random: RandomSource): (bytes: number) => Input {
  const kind = random.pick(KINDS);
  const parts = {
    before: random.pick(['', 'a', 'From: ', '"', '<', 'a@', 'FROM:<', 'text/plain; a=', '=?']),
    unit: unitOf(random, FRAGMENTS),
    after: random.pick(['', '>', 'x', '@', '"']),
  };
  return (bytes) => ({ kind, bytes: Buffer.from(filled(parts, bytes), 'latin1') });
}

function readsHeader(text: string): void {
  const bytes = Buffer.from(text);
  const { fields, bodyStart, isCut } = readHeader(bytes);
  let end = 0;
  for (const field of fields) {
    assert.equal(field.start, end);
    assert.ok(field.end > field.start);
    assert.ok(!/[\r\n:]/.test(field.name) && !field.value.includes('\n'));
    relaxedField({ name: field.name, value: field.value });
    end = field.end;
  }
  assert.ok(isCut || (bodyStart >= end && bodyStart <= Math.max(bytes.length, end)));
}

function readsList(text: string): void {
  for (const mailbox of readAddressList(text)) {
    assert.deepEqual(parseMailbox(formatMailbox(mailbox))?.address, mailbox.address);
  }
}

function readsMailbox(text: string): void {
  const mailbox = parseMailbox(text);
  if (mailbox === null) return assert.ok(explainAddress(text).includes(' is not an email'));
  assert.deepEqual(parseMailbox(formatMailbox(mailbox)), mailbox);
  checkLines(headerLine(addressField('To', [mailbox])));
}

function readsFound(text: string): void {
  let last = 0;
  for (const { address, start, end } of addressesIn(text)) {
    assert.ok(start >= last && end > start && end <= text.length);
    assert.ok(address.includes('@') && address.length <= 340);
    last = end;
  }
  addressIn(text);
}

function readsStructured(text: string): void {
  const { type } = readContentType(text);
  assert.match(type, /^[^\s/()]+\/[^\s/()]+$/);
  readDisposition(text);
  readTransferEncoding(text);
  readContentId(text);
}

function readsCustom(text: string): void {
  const [name = '', ...rest] = text.split(':');
  const value = rest.join(':');
  if (checkCustomHeader(name, value) !== null) return;
  checkLines(headerLine(customField(name, value)));
}

/** Asserts that no text of a client becomes a line of its own. */
function checkLines(written: string): void {
  const lines = written.split('\r\n');
  assert.equal(lines.pop(), '');
  for (const [index, line] of lines.entries()) {
    assert.ok(line.length <= 998 && !/[\r\n]/.test(line) && line.trim() !== '', line);
    assert.equal(line.startsWith(' '), index > 0);
  }
}

function readsDomain(text: string): void {
  const domain = parseDomain(text);
  if (domain !== null) assert.equal(parseDomain(domain), domain);
}

function readsPath(text: string): void {
  const command = readCommand(Buffer.from(`MAIL ${text}`));
  if (command === null) return;
  const mail = readMail(command.argument, { dsn: true });
  if (!('refused' in mail)) assert.ok(mail.from.length <= 254);
  const rcpt = readRcpt(command.argument, { smtpUtf8: true, dsn: true });
  const kept = ['dsn' in mail ? mail.dsn?.envid : null, 'dsn' in rcpt ? rcpt.dsn?.orcpt : null];
  for (const parameter of kept) {
    if (typeof parameter === 'string') assert.match(parameter, /^[!-~]+$/);
  }
  if (!('refused' in rcpt)) assert.ok(rcpt.address !== '' && !/[\r\n\0]/.test(rcpt.address));
}

function readsParameter(text: string): void {
  isMediaType(text);
  isContentId(text);
  const name = text.slice(0, 100).toWellFormed();
  const written = withParameter('attachment', 'filename', name).join('');
  const read = readContentType(`x/${written}`).parameters.get('filename');
  // The API refuses names with control characters earlier.
  if (/^[ -~\u00a0-\uffff]*$/.test(name)) assert.equal(read, name);
}

function readOne({ kind, bytes }: Input): void {
  // Most of the text is ASCII or UTF-8. Other bytes are replaced, as everywhere at the edge.
  READERS[kind as keyof typeof READERS](bytes.toString());
}

export const headers: Target = {
  name: 'headers',
  about: 'header fields, addresses, encoded words, parameters, paths of SMTP commands',
  generate,
  grow,
  growsUpTo: 128 * 1024,
  cpuMsMax: 50,
  open: () => Promise.resolve({ read: readOne }),
};
