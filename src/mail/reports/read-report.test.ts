/**
 * Bounces and complaints as mail systems write them. families.test.ts has reports without fields, as real systems write
 * them.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { readReport } from './read-report.ts';
import { findRule } from '../replies/rule-matching.ts';
import { REPORT_RULES } from './classify-report.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const JO = 'jo@receiver.test';

const PER_MESSAGE =
  'Reporting-MTA: dns; mx.receiver.test\nArrival-Date: Thu, 29 Oct 2026 08:30:00 +0000';
const ORIGINAL = [
  'Return-Path: <b-token@send.acme.test>',
  'Received: from mail.acme.test by mx.receiver.test; Thu, 29 Oct 2026 08:30:00 +0000',
  'From: Acme <hello@acme.test>',
  `To: ${JO}`,
  'Message-ID: <1@acme.test>',
].join('\n');

const failed = (recipient: string, fields: string) =>
  `Final-Recipient: rfc822; ${recipient}\nAction: failed\n${fields}`;

function notification(
  blocks: readonly string[],
  { words = 'It did not arrive.', type = 'delivery-status', of = 'text/rfc822-headers' } = {},
): Buffer {
  return Buffer.from(`From: MAILER-DAEMON@mx.receiver.test
To: b-token@send.acme.test
Subject: Undelivered Mail
Auto-Submitted: auto-replied
Content-Type: multipart/report; report-type=${type}; boundary="b 1"

--b 1

${words}
--b 1
Content-Type: message/${type}

${blocks.join('\n\n')}

--b 1
Content-Type: ${of}

${ORIGINAL}

--b 1--
`);
}

function recipientsOf(bytes: Buffer) {
  return readReport(bytes).recipients.map(({ recipient, status, code, classification }) => ({
    recipient,
    status,
    code,
    category: classification?.category ?? null,
    permanent: classification?.permanent ?? null,
    suppress: classification?.suppress ?? null,
  }));
}

const GONE = {
  recipient: JO,
  status: '5.1.1',
  code: 550,
  category: 'mailbox',
  permanent: true,
  suppress: true,
};

test('a notification has the result of every recipient', () => {
  const bytes = notification([
    PER_MESSAGE,
    failed(
      JO,
      'Status: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1\n <jo@receiver.test>: no such user',
    ),
    failed('ann@receiver.test', 'Status: 5.7.1\nDiagnostic-Code: smtp; 554 5.7.1 looks like spam'),
    failed('full@receiver.test', 'Status: 5.2.2\nDiagnostic-Code: smtp; 552 5.2.2 Mailbox full'),
    'Final-Recipient: rfc822; here@receiver.test\nAction: delivered\nStatus: 2.0.0',
  ]);
  const report = readReport(bytes);
  assert.equal(report.kind, 'bounce');
  assert.deepEqual(report.returnPaths[0], 'b-token@send.acme.test');
  assert.equal(report.originalMessageId, '1@acme.test');
  assert.equal(report.recipients[0]?.diagnostic, '550 5.1.1 <jo@receiver.test>: no such user');
  assert.deepEqual(recipientsOf(bytes), [
    GONE,
    {
      recipient: 'ann@receiver.test',
      status: '5.7.1',
      code: 554,
      category: 'content',
      permanent: true,
      suppress: false,
    },
    {
      recipient: 'full@receiver.test',
      status: '5.2.2',
      code: 552,
      category: 'quota',
      permanent: true,
      suppress: false,
    },
    {
      recipient: 'here@receiver.test',
      status: '2.0.0',
      code: null,
      category: null,
      permanent: null,
      suppress: null,
    },
  ]);
  const kinds = report.recipients.map(({ kind }) => kind);
  assert.deepEqual(kinds, ['bounce', 'bounce', 'bounce', 'delivered']);
});

test('a status code is enough; the text for people refines a generic one', () => {
  assert.deepEqual(recipientsOf(notification([PER_MESSAGE, failed(JO, 'Status: 5.1.1')])), [
    { ...GONE, code: null },
  ]);
  const vague = notification([PER_MESSAGE, failed(JO, 'Status: 5.0.0')], {
    words: `<${JO}>: host mx.receiver.test said: 550 5.1.1 User unknown (in reply to RCPT TO)`,
  });
  assert.deepEqual(recipientsOf(vague), [GONE]);
});

test('a delay, a delivery and a relay are distinguished', () => {
  const of = (action: string, status: string) =>
    readReport(
      notification([`Final-Recipient: rfc822; ${JO}\nAction: ${action}\nStatus: ${status}`]),
    );
  const delay = of('delayed', '4.4.1');
  assert.equal(delay.kind, 'delay');
  assert.deepEqual(
    delay.recipients.map(({ classification }) => [
      classification?.permanent,
      classification?.suppress,
    ]),
    [[false, false]],
  );
  assert.equal(of('delivered', '2.0.0').kind, 'delivered');
  assert.equal(of('relayed', '2.0.0').kind, 'other');
  assert.equal(of('expanded', '2.0.0').kind, 'other');
  assert.equal(of('FAILED (so sorry)', '5.1.1').kind, 'bounce');
  assert.equal(of('undeliverable', '5.1.1').kind, 'bounce');
  assert.equal(of('deferred', '5.1.1').kind, 'delay');
  assert.equal(
    of('unusual\nWill-Retry-Until: Fri, 30 Oct 2026 08:30:00 +0000', '5.0.0').kind,
    'delay',
  );
});

test('a delay about the mailbox suppresses no recipient', () => {
  const block = `Final-Recipient: rfc822; ${JO}\nAction: delayed\nStatus: 4.1.1\nDiagnostic-Code: smtp; 550 5.1.1 User unknown`;
  assert.deepEqual(
    recipientsOf(notification([PER_MESSAGE, block])).map(({ suppress }) => suppress),
    [false],
  );
});

test('notifications about internationalised addresses are read', () => {
  const block =
    'Final-Recipient: utf-8; j\\x{F6}@receiver.test\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 unknown';
  const bytes = notification([PER_MESSAGE, block], {
    type: 'global-delivery-status',
    of: 'message/global-headers',
  });
  assert.deepEqual(recipientsOf(bytes), [{ ...GONE, recipient: 'jö@receiver.test' }]);
});

test('a missing boundary, empty line or address is recovered', () => {
  const withoutBoundary = notification([PER_MESSAGE, failed(JO, 'Status: 5.1.1')])
    .toString()
    .replace('boundary="b 1"', 'boundary="gone"');
  assert.deepEqual(recipientsOf(Buffer.from(withoutBoundary)), [{ ...GONE, code: null }]);
  const inOneBlock = `${PER_MESSAGE}\nAction: failed\nFinal-Recipient: rfc822; ${JO}\nStatus: 5.1.1`;
  assert.deepEqual(recipientsOf(notification([inOneBlock])), [{ ...GONE, code: null }]);
  const nobody = failed('@mx.receiver.test', 'Status: 5.1.1');
  assert.deepEqual(recipientsOf(notification([PER_MESSAGE, nobody])), [{ ...GONE, code: null }]);
});

test('text before the recipient does not concern the mailbox', () => {
  for (const diagnostic of [
    'host mx.receiver.test refused to talk to me: 554 5.1.1 user unknown',
    '550 5.1.1 unknown user (in reply to MAIL FROM command)',
    '550-Verification failed for <b@acme.test> 550-No Such User Here 550 Sender verify failed',
  ]) {
    const block = failed(JO, `Status: 5.0.0\nDiagnostic-Code: smtp; ${diagnostic}`);
    assert.equal(recipientsOf(notification([PER_MESSAGE, block]))[0]?.suppress, false, diagnostic);
  }
});

function feedback(fields: string, original = ORIGINAL): Buffer {
  return Buffer.from(
    notification([fields], { type: 'feedback-report' }).toString().replace(ORIGINAL, original),
  );
}

test('a feedback report is a complaint, an authentication report is not', () => {
  for (const [type, kind] of [
    ['abuse', 'complaint'],
    ['Fraud', 'complaint'],
    ['virus', 'complaint'],
    ['opt-out', 'complaint'],
    ['other', 'complaint'],
    ['auth-failure', 'other'],
    ['not-spam', 'other'],
  ]) {
    const report = readReport(
      feedback(`Feedback-Type: ${type}\nVersion: 1\nOriginal-Mail-From: <b-two@send.acme.test>`),
    );
    assert.deepEqual([report.kind, report.feedbackType], [kind, type?.toLowerCase()]);
    assert.deepEqual(report.returnPaths, ['b-two@send.acme.test', 'b-token@send.acme.test']);
    assert.equal(report.recipients[0]?.recipient, JO);
  }
});

test('non-standard complaints from Microsoft and Apple Mail are recognised', () => {
  const outlook = `From: staff@hotmail.com
Subject: complaint about message from 192.0.2.1
Content-Type: multipart/mixed; boundary=b

--b
Content-Type: message/rfc822

X-HmXmrOriginalRecipient: ${JO}
To: undisclosed recipients
Return-Path: b-token@send.acme.test

--b--
`;
  const report = readReport(Buffer.from(outlook));
  assert.deepEqual([report.kind, report.recipients[0]?.recipient], ['complaint', JO]);
  const apple = `From: ${JO}\nAuto-Submitted: auto-replied\nX-Apple-Unsubscribe: true\n\nunsubscribe`;
  const optOut = readReport(Buffer.from(apple));
  assert.deepEqual([optOut.kind, optOut.feedbackType], ['complaint', 'opt-out']);
});

test('automatic replies and ordinary messages are not bounces', () => {
  const auto = ['auto_reply', []];
  const kinds: [header: string, kind: unknown[]][] = [
    ['Auto-Submitted: auto-replied', auto],
    ['X-Autoreply: yes', auto],
    ['Precedence: auto_reply', auto],
    ['Subject: Out of Office: Re: Your order', auto],
    ['Subject: =?utf-8?q?R=C3=A9ponse_automatique?=', auto],
    ['Subject: Abwesenheitsnotiz', auto],
    ['Subject: Your order', ['other', []]],
  ];
  for (const [header, expected] of kinds) {
    const text = `I am away; write to ${JO} instead, or wait.`;
    const report = readReport(Buffer.from(`From: ann@receiver.test\n${header}\n\n${text}`));
    assert.deepEqual([report.kind, report.recipients], expected, header);
  }
  const receipt = `Your message was read.\n\nFinal-Recipient: rfc822; ${JO}\nDisposition: manual-action/MDN-sent-manually; displayed`;
  const { kind, recipients } = readReport(
    Buffer.from(`From: ${JO}\nSubject: Read: Your order\n\n${receipt}`),
  );
  assert.deepEqual([kind, recipients], ['other', []]);
});

test('every rule for report texts matches its example and each of its phrases', () => {
  for (const rule of REPORT_RULES) {
    for (const message of [rule.example, ...(rule.text?.split(' | ') ?? [])]) {
      const reply = { code: 550, enhancedCode: null, message: message.replaceAll(' + ', ' ... ') };
      const found = findRule(REPORT_RULES, { phase: 'rcpt', reply });
      assert.equal(found, rule, `${message} is recognised as ${found?.meaning}: ${found?.example}`);
    }
  }
});

const SEEDS = [
  notification([
    PER_MESSAGE,
    failed(JO, 'Status: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1 unknown'),
  ]),
  feedback('Feedback-Type: abuse\nOriginal-Rcpt-To: jo@receiver.test'),
  Buffer.from(
    `From: postmaster@mx.test\n\nUndeliverable:\n<${JO}>:\n550 no such user\n--- Below this line is a copy\n${ORIGINAL}`,
  ),
];

const damages = fc.array(
  fc.record({
    at: fc.nat(1_500),
    removed: fc.nat(200),
    inserted: fc.oneof(
      fc.constantFrom('\n', '\n\n', '--b 1\n', '@', '<', '550 ', '5.1.1', '=?utf-8?q?', '\0', ': '),
      fc.string({ unit: CHARACTER, maxLength: 40 }),
    ),
    times: fc.constantFrom(1, 1, 1, 50),
  }),
  { maxLength: 8 },
);

test('a mangled report never throws', () => {
  fc.assert(
    fc.property(fc.constantFrom(...SEEDS), damages, (seed, changes) => {
      let bytes = seed;
      for (const { at, removed, inserted, times } of changes) {
        const middle = Buffer.from(inserted.repeat(times));
        bytes = Buffer.concat([bytes.subarray(0, at), middle, bytes.subarray(at + removed)]);
      }
      const { kind, recipients } = readReport(bytes);
      assert.ok(recipients.length <= 500);
      for (const { classification, diagnostic } of recipients) {
        if (kind === 'delay') assert.equal(classification?.suppress ?? false, false);
        if (classification?.suppress === true) assert.ok(classification.permanent);
        assert.ok((diagnostic ?? '').length <= 2_000);
      }
    }),
    { numRuns: 2_000 },
  );
});

test('a report that is made to be slow is read quickly', () => {
  const long = [
    `From: postmaster@mx.test\n\n${'<a@b.test>: 550 '.repeat(100_000)}`,
    `From: postmaster@mx.test\n\nundeliverable\n${'a@'.repeat(500_000)}`,
    `From: postmaster@mx.test\n\nundeliverable\n${'550 '.repeat(300_000)}`,
    `From: postmaster@mx.test\n\nundeliverable\n${'<x@y.test>:\n550 5.1.1 unknown\n'.repeat(30_000)}`,
    `Content-Type: message/delivery-status\n\n${`${failed(JO, 'Status: 5.1.1')}\n\n`.repeat(20_000)}`,
    `Subject: ${'=?utf-8?q?a?= '.repeat(80_000)}\n\n${'a'.repeat(1_000_000)}@`,
  ];
  for (const text of long) {
    const { recipients } = readReport(Buffer.from(text));
    assert.ok(recipients.length <= 500, text.slice(0, 80));
  }
});
