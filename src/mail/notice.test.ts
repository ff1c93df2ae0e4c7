/** Delivery notices: which outcome is reported to whom, and the message. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import PostalMime from 'postal-mime';
import type { StoredStatus } from '../core/statuses.ts';
import { parseAddress } from './address.ts';
import { type DsnRequest, type RcptDsn, typedAddress } from './dsn-parameters.ts';
import { composeNotice, type NextServer, noticeFor, noticeSender } from './notice.ts';
import { readReport } from './reports/read-report.ts';

const JO = parseAddress('jo@receiver.test')!;
const SENDER = parseAddress('app@acme.example')!;

function asking(recipient: Partial<RcptDsn>, changes: Partial<DsnRequest> = {}): DsnRequest {
  const recipients = { [JO]: { notify: null, orcpt: null, ...recipient } };
  return { kind: 'request', sender: SENDER, ret: null, envid: null, recipients, ...changes };
}

const REFUSED = { code: 550, enhanced_code: '5.1.1', message: 'No such user', mx: 'mx.r.test' };

test('an outcome is reported if NOTIFY requests it, with its action and status', () => {
  const cases: [StoredStatus, RcptDsn['notify'], string | null, object?, NextServer?][] = [
    ['delivered', ['SUCCESS'], 'success delivered 2.0.0'],
    ['delivered', ['SUCCESS'], 'success relayed 2.0.0', {}, 'relayed'],
    [
      'sent',
      ['SUCCESS', 'FAILURE'],
      'success relayed 2.1.5',
      { enhanced_code: '2.1.5' },
      'relayed',
    ],
    ['delivered', ['SUCCESS'], null, {}, 'passed_on'],
    ['delivered', ['FAILURE', 'DELAY'], null],
    ['delivered', [], null],
    ['delivered', null, null],
    ['bounced', ['FAILURE'], 'failure failed 5.1.1', REFUSED],
    ['bounced', ['FAILURE'], 'failure failed 5.1.1', REFUSED, 'passed_on'],
    ['bounced', ['SUCCESS', 'DELAY'], null, REFUSED],
    ['bounced', [], null, REFUSED],
    ['bounced', null, null, REFUSED],
    ['failed', ['FAILURE'], 'failure failed 5.0.0', { enhanced_code: '4.2.2' }],
    ['suppressed', ['FAILURE'], 'failure failed 5.7.1'],
    ['deferred', ['DELAY'], 'delay delayed 4.2.2', { enhanced_code: '4.2.2' }],
    ['deferred', ['DELAY'], 'delay delayed 4.0.0', { enhanced_code: '5.7.1' }],
    ['deferred', ['SUCCESS', 'FAILURE'], null],
    ['complained', ['SUCCESS', 'FAILURE', 'DELAY'], null],
    ['canceled', ['SUCCESS', 'FAILURE', 'DELAY'], null],
    ['queued', ['SUCCESS', 'FAILURE', 'DELAY'], null],
  ];
  for (const [status, notify, expected, smtp = {}, nextServer] of cases) {
    const change = { status, smtp, reason: null, ...(nextServer && { nextServer }) };
    const notice = noticeFor(asking({ notify }), JO, change);
    const found = notice && [notice.kind, notice.facts.action, notice.facts.status].join(' ');
    assert.equal(found ?? null, expected, `${status} ${String(notify)}`);
  }
  const bounced = { status: 'bounced', smtp: REFUSED, reason: null } as const;
  const request = asking({ notify: ['FAILURE'] });
  assert.equal(noticeFor({ ...request, sender: null }, JO, bounced), undefined);
  assert.equal(noticeFor({ kind: 'notice' }, JO, bounced), undefined);
  assert.equal(noticeFor(request, parseAddress('kim@receiver.test')!, bounced), undefined);
  const expired = { status: 'failed', smtp: null, reason: { category: 'expired' } } as const;
  assert.equal(noticeFor(request, JO, expired)?.facts.status, '5.4.7');
});

const RAW = 'From: Acme <hello@acme.example>\r\nSubject: Hi\r\n\r\nSecret body\r\n';

function composed(
  request: DsnRequest,
  smtp: object,
  { status = 'bounced', raw = RAW }: { status?: StoredStatus; raw?: string } = {},
): Buffer {
  const reason = { category: 'mailbox', advice: 'Check the address.' };
  const notice = noticeFor(request, JO, { status, smtp, reason, nextServer: 'relayed' });
  assert.ok(notice);
  return composeNotice({
    facts: notice.facts,
    at: new Date('2026-11-21T08:31:00Z'),
    request,
    recipient: JO,
    from: noticeSender({ name: 'Acme', address: parseAddress('hello@acme.example')! }),
    to: SENDER,
    messageId: '<0193f2a4@acme.example>',
    hostname: 'mail.acme.example',
    original: {
      raw: Buffer.from(raw),
      messageId: '<1@app.test>',
      arrivedAt: new Date('2026-11-21T08:30:00Z'),
      expiresAt: new Date('2026-11-24T08:30:00Z'),
    },
    now: new Date('2026-11-21T08:32:00Z'),
  });
}

/** Returns the parts of a notice, by type and text. */
async function partsOf(raw: Buffer) {
  const { attachments, text, from } = await PostalMime.parse(raw, {
    attachmentEncoding: 'utf8',
    forceRfc822Attachments: true,
  });
  const parts = attachments.map(({ mimeType, content }) => [mimeType, content as string] as const);
  return { from, text, parts: new Map(parts), types: parts.map(([type]) => type) };
}

test('a notice is a report of RFC 3464 with the identifiers that the sender gave', async () => {
  const notify: RcptDsn['notify'] = ['SUCCESS', 'FAILURE', 'DELAY'];
  const request = asking(
    { notify, orcpt: 'rfc822;old+2Bnews@receiver.test' },
    { envid: 'QQ+2B314+20x', ret: 'FULL' },
  );
  const raw = composed(request, REFUSED);
  assert.match(raw.toString(), /^Content-Type: multipart\/report; report-type=delivery-status;$/m);
  assert.match(raw.toString(), /^Auto-Submitted: auto-replied$/m);
  assert.match(raw.toString(), /^In-Reply-To: <1@app\.test>$/m);
  const read = await partsOf(raw);
  assert.equal(read.from?.address, 'mailer-daemon@acme.example');
  assert.match(
    read.text ?? '',
    /could not be delivered[^]*jo@receiver\.test[^]*Check the address\./,
  );
  assert.deepEqual(read.types, ['message/delivery-status', 'message/rfc822']);
  assert.equal(
    read.parts.get('message/delivery-status')?.replaceAll('\r\n', '\n').trimEnd(),
    `Original-Envelope-Id: QQ+314 x
Reporting-MTA: dns; mail.acme.example
Arrival-Date: Sat, 21 Nov 2026 08:30:00 +0000

Original-Recipient: rfc822;old+news@receiver.test
Final-Recipient: rfc822;jo@receiver.test
Action: failed
Status: 5.1.1
Remote-MTA: dns; mx.r.test
Diagnostic-Code: smtp; 550 5.1.1 No such user
Last-Attempt-Date: Sat, 21 Nov 2026 08:31:00 +0000`,
  );
  assert.match(read.parts.get('message/rfc822') ?? '', /Secret body/);
  const [recipient] = readReport(raw).recipients;
  assert.deepEqual([recipient?.recipient, recipient?.status], ['jo@receiver.test', '5.1.1']);

  // Only a notice of a failure returns the message.
  const delayed = composed(request, { code: 451, message: 'Later' }, { status: 'deferred' });
  assert.match(delayed.toString(), /^Action: delayed\r\nStatus: 4\.0\.0\r\n/m);
  assert.match(delayed.toString(), /^Will-Retry-Until: Tue, 24 Nov 2026 08:30:00 \+0000\r$/m);
  for (const other of [
    delayed,
    composed(request, {}, { status: 'delivered' }),
    composed({ ...request, ret: 'HDRS' }, REFUSED),
    composed({ ...request, ret: null }, REFUSED),
  ]) {
    const { types } = await partsOf(other);
    assert.deepEqual(types, ['message/delivery-status', 'text/rfc822-headers']);
    assert.ok(!other.includes('Secret body'));
  }
});

test('an internationalised recipient is escaped by RFC 6533', () => {
  const named = ['jo+x@a.test', 'jörg@a.test', 'jörg+x=y@a.test', '"j\\\\ö"@a.test'].map(
    typedAddress,
  );
  assert.deepEqual(named, [
    'rfc822;jo+x@a.test',
    'utf-8;j\\x{F6}rg@a.test',
    'utf-8;j\\x{F6}rg\\x{2B}x\\x{3D}y@a.test',
    'utf-8;"j\\x{5C}\\x{5C}\\x{F6}"@a.test',
  ]);
});

test('text of servers and senders adds no line to a notice', async () => {
  const message = `no\r\nAction: delivered\r\n\r\n--notice-0193f2a4\r\n\u2028ö ${'x'.repeat(2_000)}`;
  const request = asking({ notify: ['FAILURE'] });
  const raw = composed(request, { ...REFUSED, message, mx: 'a\r\nb' });
  const { types } = await partsOf(raw);
  assert.deepEqual(types, ['message/delivery-status', 'text/rfc822-headers']);
  assert.equal(raw.toString().match(/^Action: /gm)?.length, 1);
  const eightBit = composed(request, REFUSED, { raw: RAW.replace('Hi', 'Grüße') });
  assert.match(eightBit.toString(), /^Content-Type: message\/global-headers\r\n.*: 8bit\r$/m);
});
