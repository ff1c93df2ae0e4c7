/** The reader of reports that arrive by mail, up to their consequence for a recipient. */
import assert from 'node:assert/strict';
import { consequenceOf } from '../../../src/inbound/consequence.ts';
import type { StoredStatus } from '../../../src/core/statuses.ts';
import {
  readReport,
  REPORT_BYTES_MAX,
  type ReportKind,
} from '../../../src/mail/reports/read-report.ts';
import type { SentRecipient } from '../../../src/inbound/report-store.ts';
import { parseMailbox } from '../../../src/mail/address.ts';
import type { RandomSource } from '../../chaos/random.ts';
import { filled, manyTimes, mutated, strung, times, unitOf } from '../generators.ts';
import type { Input, Target } from '../target.ts';
import { reportSamples } from './report-samples.ts';

const WORDS = [
  ' could not be delivered ',
  'undeliverable',
  'a@b',
  'jo@receiver.test',
  '<jo@receiver.test>: ',
  '"jo x"@b.c ',
  '550 5.1.1 ',
  '450-4.2.2 ',
  '552 ',
  '5.1.1',
  'RCPT TO:',
  '>>> DATA\r\n<<< ',
  'mailbox is full',
  'user unknown',
  'will be retried',
  'giving up',
  'x ',
  ' '.repeat(40),
  '\r\n',
  '\r\n\r\n',
  '<mailto:',
  '----- Original message -----\r\n',
  'Received: from ',
  'Return-Path: <',
];
const FIELDS = [
  'Final-Recipient: rfc822; jo@receiver.test\r\n',
  'Original-Recipient: rfc822;<a@b>\r\n',
  'Action: failed\r\n',
  'Action: delayed\r\n',
  'Action: \r\n',
  'Status: 5.1.1\r\n',
  'Status: 4.\r\n',
  'Diagnostic-Code: smtp; 550 5.1.1 no such user\r\n',
  'Diagnostic-Code: ;;;\r\n',
  'Reporting-MTA: dns; mx.test\r\n',
  'X-Failed-Recipients: a@b, c@d\r\n',
  'Subject: failure notice\r\n',
  'Subject: =?utf-8?B?w6k=?= =?x?q?=41?=\r\n',
  'From: MAILER-DAEMON@x\r\n',
  'To: a@b, "c" <d@e>\r\n',
  'Auto-Submitted: auto-replied\r\n',
  'Feedback-Type: abuse\r\n',
  'Received: from a by b\r\n',
  'Return-Path: <b-x@send.a.test>\r\n',
  ' folded\r\n',
  '\r\n',
  'Content-Transfer-Encoding: base64\r\n',
  'Content-Transfer-Encoding: quoted-printable\r\n',
];
const TYPES = [
  'text/plain',
  'text/html',
  'text/plain; charset=gb18030',
  "text/plain; charset*=utf-8''%41; a*0=b; a*1*=%",
  'message/delivery-status',
  'message/feedback-report',
  'message/rfc822',
  'text/rfc822-headers',
  'multipart/report; boundary=b; report-type=delivery-status',
  'multipart/mixed; boundary="b b"',
  'application/octet-stream',
];

function generate(random: RandomSource): Input {
  const bytes = random.chance(0.6)
    ? mutated(random, random.pick(reportSamples()), [...WORDS, ...FIELDS])
    : written(random, 0);
  return { kind: 'report', bytes: Buffer.from(bytes, 'latin1') };
}

function written(random: RandomSource, depth: number): string {
  const type = random.pick(TYPES);
  const head = `${strung(random, FIELDS, 6)}Content-Type: ${type}\r\n\r\n`;
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1];
  if (boundary === undefined || depth > 4) {
    return `${head}${strung(random, random.chance(0.5) ? WORDS : FIELDS, 12)}`;
  }
  const parts = times(
    random.between(0, 4),
    () => `\r\n--${boundary}\r\n${written(random, depth + 1)}`,
  );
  const many = random.chance(0.02) ? '\r\n--b\r\n'.repeat(manyTimes(random)) : '';
  return `${head}${parts.join('')}${many}${random.chance(0.7) ? `\r\n--${boundary}--\r\n` : ''}`;
}

const FRONTS = [
  'From: MAILER-DAEMON@x\r\nSubject: failure notice\r\n\r\nundeliverable\r\n',
  'From: MAILER-DAEMON@x\r\nSubject: ',
  'From: MAILER-DAEMON@x\r\nTo: ',
  'Content-Type: multipart/mixed; boundary=b\r\n\r\n--b\r\n',
  'Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n',
  'Content-Type: multipart/report; boundary=b\r\n\r\n--b\r\n\r\nundeliverable\r\n--b\r\nContent-Type: text/rfc822-headers\r\n\r\n',
  'Content-Type: message/feedback-report\r\n\r\n',
  'From: MAILER-DAEMON@x\r\nContent-Type: text/html\r\n\r\n<p>undeliverable',
  'Content-Type: message/rfc822\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n',
  'Content-Type: ',
  '',
];

const HOSTILE = [
  'a@b ',
  'a@b',
  '"a"@b ',
  '550 ',
  '5.1.1 ',
  'Received: ',
  '=?x?q?a?=',
  ...WORDS,
  ...FIELDS,
];

function grow(random: RandomSource): (bytes: number) => Input {
  const parts = {
    before: random.pick(FRONTS),
    // Half of the units consist of the addresses, codes and fields that reports name.
    unit: unitOf(random, random.chance(0.5) ? HOSTILE.slice(0, 7) : HOSTILE),
    after: random.chance(0.3) ? 'x' : '',
  };
  return (bytes) => ({ kind: 'report', bytes: Buffer.from(filled(parts, bytes), 'latin1') });
}

const RECIPIENT: SentRecipient = {
  projectId: 'p',
  environment: 'live',
  position: 0,
  address: parseMailbox('jo@receiver.test')!.address,
  status: 'delivered',
  isTooOld: false,
  email: { id: 'e', from: parseMailbox('hello@acme.test')! },
};

const KINDS = new Set(['bounce', 'delay', 'complaint', 'delivered', 'auto_reply', 'other']);
const KIND_OF_STATUS: Partial<Record<StoredStatus, ReportKind>> = {
  bounced: 'bounce',
  complained: 'complaint',
  delivered: 'delivered',
};

function read({ bytes }: Input): void {
  const report = readReport(bytes);
  assert.ok(KINDS.has(report.kind));
  assert.ok(report.recipients.length <= 20 && report.returnPaths.length <= 20);
  for (const { recipient, diagnostic, status } of report.recipients) {
    assert.ok(recipient === null || recipient.includes('@'));
    assert.ok(status === null || /^[245]\.\d{1,3}\.\d{1,3}$/.test(status));
    assert.ok(diagnostic === null || !/[\0-\x1f\x7f-\x9f]/.test(diagnostic));
    assert.ok(diagnostic === null || (diagnostic.isWellFormed() && diagnostic.length <= 2_000));
  }
  const consequence = consequenceOf(report, RECIPIENT, { newId: () => 'id' });
  const kinds = new Set([report.kind, ...report.recipients.map(({ kind }) => kind)]);
  const status = consequence?.settlement.status;
  if (status !== undefined) assert.ok(kinds.has(KIND_OF_STATUS[status]!), status);
  if (report.kind === 'complaint') assert.equal(status, 'complained');
}

export const reports: Target = {
  name: 'reports',
  about: 'bounces, complaints and other reports, and what follows from them',
  generate,
  grow,
  growsUpTo: REPORT_BYTES_MAX,
  cpuMsMax: 50,
  open: () => Promise.resolve({ read }),
};
