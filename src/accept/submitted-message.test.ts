/** Shows what the service changes in a message that a client submits by SMTP, and which messages it refuses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import nodemailer from 'nodemailer';
import { isRefusal } from '../core/refusals.ts';
import { parseAddress } from '../mail/address.ts';
import {
  readSubmission,
  readSubmittedRecipient,
  type SubmittedMessage,
} from './submitted-message.ts';

const address = (text: string) => parseAddress(text) ?? assert.fail(text);
const TRACE = {
  client: null,
  protocol: 'ESMTPSA',
  hostname: 'mx.acme.test',
  emailId: '01990000-0000-7000-8000-000000000000',
  at: new Date('2026-11-21T08:30:00.123Z'),
};

function read(content: Buffer | string, changes: Partial<SubmittedMessage> = {}) {
  return readSubmission({
    projectId: 'p1',
    feedbackKey: Buffer.alloc(32),
    content: Buffer.from(content),
    longestLine: 80,
    recipients: [address('jo@b.test')],
    trace: TRACE,
    ...changes,
  });
}

function rawOf(content: Buffer | string): string {
  const submission = read(content);
  assert.ok(!isRefusal(submission), JSON.stringify(submission));
  return submission.draft.email.submitted?.raw.toString('latin1') ?? '';
}

const FRONT =
  'Received: by mx.acme.test with ESMTPSA id ' +
  '01990000-0000-7000-8000-000000000000;\r\n\tSat, 21 Nov 2026 08:30:00 +0000\r\n';
const DATE = 'Date: Sat, 21 Nov 2026 08:30:00 +0000\r\n';
const ID = 'Message-ID: <01990000-0000-7000-8000-000000000000@acme.test>\r\n';

const FEEDBACK_ID = 'Feedback-ID: untagged:9241cf755cdfa1e2:acme.test:letterhaus\r\n';

test('missing fields are prepended, X-Letterhaus fields removed, and the rest stays unchanged', () => {
  assert.equal(
    rawOf(
      'From: a@acme.test\r\nBcc: x@y.test\r\nX-Letterhaus-Tags: a=c, feedback_id=b\r\n\r\n.\r\nx\r\n',
    ),
    `${FRONT}${DATE}${ID}${FEEDBACK_ID.replace('untagged', 'b')}From: a@acme.test\r\n\r\n.\r\nx\r\n`,
  );
  assert.equal(
    rawOf('message-id:<own@x>\r\nDATE:yesterday\r\nFrom: a@acme.test\r\n'),
    `${FRONT}${FEEDBACK_ID}message-id:<own@x>\r\nDATE:yesterday\r\nFrom: a@acme.test\r\n\r\n`,
  );
});

test('a From or Sender with comments stays unchanged where all receivers read it the same, else it is rewritten', () => {
  const from = (value: string) =>
    /^From: ([^]*?)\r\n(?! )/m.exec(rawOf(`From: ${value}\r\n\r\n`))?.[1];
  assert.equal(from('hello@acme.test (Cron Daemon)'), 'hello@acme.test (Cron Daemon)');
  assert.equal(from('Jo <hello(x)@acme.test(y)>'), 'Jo <hello@acme.test>');
  assert.equal(from('hello @ acme.test (a\r\n (b))'), '"a (b)" <hello@acme.test>');
  const submission = read('From: hello@acme.test (Cron Daemon)\r\nSender: (x) a@acme.test\r\n\r\n');
  assert.ok(!isRefusal(submission));
  assert.deepEqual(submission.draft.email.from, {
    name: 'Cron Daemon',
    address: 'hello@acme.test',
  });
  const sender = (value: string) =>
    /^Sender: (.*)\r\n/m.exec(rawOf(`From: a@acme.test\r\nSender: ${value}\r\n\r\n`))?.[1];
  assert.equal(sender('"Cron" <root@acme.test> (web1)'), '"Cron" <root@acme.test> (web1)');
  assert.equal(sender('"Cron" Daemon\r\n <root@acme.test>'), 'Cron Daemon <root@acme.test>');
  assert.equal(sender('root(x)@acme.test (a (b))'), '"x a (b)" <root@acme.test>');
  for (const value of ['"x" <a(@acme.test)@bank.test>', `${'"x" '.repeat(200)}<a@acme.test>`]) {
    const other = read(`From: a@acme.test\r\nSender: ${value}\r\n\r\n`);
    assert.ok(isRefusal(other) && other.message.startsWith('Sender: may have one address'), value);
  }
  const refused = read('From: a@acme.test (<c@bank.test>)\r\n\r\n');
  assert.ok(
    isRefusal(refused) && refused.message.startsWith('From: can be read in more than one way'),
  );
});

test('a message with an html part is tracked by its domain, however its type is written', () => {
  const trackingUrl = 'https://links.acme.test';
  for (const [type, base] of [
    ['text/html', trackingUrl],
    ['TEXT/HTML; charset=utf-8', trackingUrl],
    ['text (x) /\r\n\tHtml', trackingUrl],
    ['text/plain', null],
  ] as const) {
    const submission = read(`From: a@acme.test\r\nContent-Type: ${type}\r\n\r\n<p>`, {
      trackingUrl,
    });
    assert.ok(!isRefusal(submission), type);
    assert.equal(submission.draft.email.tracking.base, base, type);
  }
});

test('claims about checks are removed with their folds, in upper or lower case', () => {
  const claims = [
    'Authentication-Results: mx.acme.test;\r\n\tspf=pass\r\n dkim=pass\r\n',
    'AUTHENTICATION-RESULTS:x\r\n',
    'ARC-Seal: i=1; a=rsa-sha256; cv=none;\r\n b=abc=\r\n',
    'arc-message-signature: i=1\r\n',
    'ARC-Authentication-Results: i=1; mx.acme.test; dmarc=pass\r\n',
    'Received-SPF: pass\r\n',
    'Return-Path: <a@acme.test>\r\n',
  ];
  const kept = ['DKIM-Signature: v=1; b=x\r\n', 'Received: from a by b\r\n', 'X-Arc: 1\r\n'];
  const from = 'From: a@acme.test\r\n';
  const content = `${kept[0]}${claims.join('')}${from}${kept[1]}${kept[2]}\r\nARC-Seal: body\r\n`;
  const body = '\r\nARC-Seal: body\r\n';
  assert.ok(rawOf(content).endsWith(`${FEEDBACK_ID}${kept[0]}${from}${kept[1]}${kept[2]}${body}`));
  for (const claim of claims) {
    const refused = read(`${from}${claim.replace(':', ' :')}\r\n`);
    assert.ok(isRefusal(refused), claim);
  }
});

test('the scheduled time is read from the header and removed from the message', () => {
  const at = 'X-Letterhaus-Scheduled-At: 2027-01-31T09:00:00+01:00\r\n';
  const submission = read(`From: a@acme.test\r\n${at}\r\n`);
  assert.ok(!isRefusal(submission));
  const { scheduledAt, email } = submission.draft;
  assert.equal(scheduledAt?.toISOString(), '2027-01-31T08:00:00.000Z');
  const raw = email.submitted?.raw.toString() ?? '';
  assert.doesNotMatch(raw, /scheduled/i);
  assert.match(raw, /^Date: Sun, 31 Jan 2027 08:00:00 \+0000\r$/m);
  for (const wrong of ['X-Letterhaus-Scheduled-At: tomorrow\r\n', at + at]) {
    const refused = read(`From: a@acme.test\r\n${wrong}\r\n`);
    assert.ok(isRefusal(refused));
    assert.match(refused.message, /^X-Letterhaus-Scheduled-At: /);
  }
});

test('the EHLO name of a client cannot add a header', () => {
  const client = { helo: 'x)\r\nX-Evil: 1', address: '2001:db8::1%eth0' };
  const evil = { ...TRACE, client };
  const submission = read('From: a@acme.test\r\n\r\n', { trace: evil });
  assert.ok(!isRefusal(submission));
  const raw = submission.draft.email.submitted?.raw.toString() ?? '';
  assert.match(raw, /^Received: from unknown \(\[IPv6:2001:db8::1\]\)\r\n\tby /);
});

test('recipients are classified as to, cc or bcc by the header', () => {
  const recipients = ['a@b.test', 'C@d.test', 'e@f.test'].map(address);
  const submission = read(
    'From: x@acme.test\r\nTo: A <A@B.test>, other@b.test\r\nCc: c@d.test\r\n\r\n',
    { recipients },
  );
  assert.ok(!isRefusal(submission));
  const { draft } = submission;
  assert.deepEqual(
    draft.recipients.map(({ kind }) => kind),
    ['to', 'cc', 'bcc'],
  );
  assert.deepEqual(
    [draft.email.to, draft.email.cc, draft.bcc].map((list) => list.map((one) => one.address)),
    [['A@b.test', 'other@b.test'], ['c@d.test'], ['e@f.test']],
  );
});

test('a long address list in the header is cut to 100, recipients first', () => {
  const list = Array.from({ length: 300 }, (_, index) => `n${index}@b.test`);
  const recipients = ['n299@b.test', 'n60@b.test'].map(address);
  const submission = read(`From: x@acme.test\r\nTo: ${list.join(',\r\n ')}\r\n\r\n`, {
    recipients,
  });
  assert.ok(!isRefusal(submission));
  const { email, recipients: mailed } = submission.draft;
  const others = Array.from({ length: 99 }, (_, index) => index).filter((index) => index !== 60);
  const shown = [60, 299, ...others];
  assert.deepEqual(
    email.to.map((one) => one.address),
    shown.map((index) => `n${index}@b.test`),
  );
  assert.deepEqual(
    mailed.map(({ kind }) => kind),
    ['to', 'to'],
  );
});

test('a recipient of the envelope is an address without a name or a comment', () => {
  const rules = { environment: 'test', allowPrivateNetworks: false } as const;
  assert.deepEqual(readSubmittedRecipient('Jo@B.test', rules), { address: 'Jo@b.test' });
  for (const text of ['Jo <jo@b.test>', 'jo@b.test (Jo)', '(x) jo@b.test', '']) {
    assert.ok(isRefusal(readSubmittedRecipient(text, rules)), text);
  }
});

test('all problems are reported at once', () => {
  const refused = read(
    'From: x@\r\nSubject: a\r\nSubject: b\r\nX-Letterhaus-Tags: =\r\n\r\nx\0\r\n',
    {
      longestLine: 2_000,
    },
  );
  assert.ok(isRefusal(refused));
  assert.deepEqual(
    refused.details?.map(({ field }) => field),
    ['', '', 'Subject', 'From', 'X-Letterhaus-Tags', 'X-Letterhaus-Tags'],
  );
});

test('an invalid header is refused in every form', () => {
  const from = 'From: a@acme.test\r\n';
  for (const header of [
    `X-Long: ${' x\r\n'.repeat(2_500_000)}`,
    'X-Many: 1\r\n'.repeat(1_001),
    `To: ${'a@b.test,\r\n '.repeat(100_000)}\r\n`,
  ]) {
    const refused = read(`${from}${header}\r\n\r\nx\r\n`);
    assert.ok(isRefusal(refused));
    assert.match(refused.message, /^The header has more than 256 KB or 1,000 fields/);
  }
});

test('a message in a mail loop is refused', () => {
  const after = (hops: number) =>
    read(`${'Received: from a by b\r\n'.repeat(hops)}From: a@acme.test\r\n\r\nx\r\n`);
  assert.ok(!isRefusal(after(100)));
  const refused = after(101);
  assert.ok(isRefusal(refused) && refused.message.includes('100 servers'));
});

test('any octets give a draft or a refusal, and the body is never changed', () => {
  const piece = fc.oneof(
    fc.constantFrom('From: a@acme.test\r\n', 'To: ', 'Bcc: x@y.test\r\n', '\r\n', ' fold\r\n', ':'),
    fc.constantFrom('X-Letterhaus-Tags: a=b\r\n', 'Date: x\r\n', 'Subject: =?utf-8?q?=00?=\r\n'),
    fc.string({ unit: 'binary-ascii', maxLength: 10 }).map((text) => text.replace(/[\r\n]/g, '')),
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 12 }), fc.uint8Array(), (pieces, bytes) => {
      const header = `From: x@acme.test\r\n${pieces.join('')}`;
      const body = Buffer.from(bytes)
        .toString('latin1')
        .replace(/[\r\n]/g, '');
      const content = Buffer.from(`${header}\r\n\r\n${body}\r\n`, 'latin1');
      const submission = read(content);
      if (isRefusal(submission)) return assert.ok(submission.message.length > 0);
      const raw = submission.draft.email.submitted?.raw;
      assert.ok(raw?.toString('latin1').endsWith(`\r\n${body}\r\n`));
    }),
    { numRuns: 1_000 },
  );
});

test('a repeated message has the same fingerprint, another one does not', async () => {
  const transport = nodemailer.createTransport({
    streamTransport: true,
    buffer: true,
    newline: 'windows',
  });
  const write = async (changes: object = {}) => {
    const mail = {
      from: 'a@acme.test',
      to: 'jo@b.test',
      subject: 'x',
      text: 'x',
      html: 'y',
      attachments: [{ filename: 'a', content: 'z' }],
      headers: { 'X-Letterhaus-Idempotency-Key': 'k' },
    };
    const sent = await transport.sendMail({ ...mail, ...changes });
    const submission = read(sent.message as Buffer);
    assert.ok(!isRefusal(submission));
    return submission.idempotency?.fingerprint;
  };
  assert.equal(await write(), await write());
  for (const change of [{ subject: 'y' }, { text: 'y' }, { to: 'k@b.test' }, { html: 'z' }]) {
    assert.notEqual(await write(change), await write());
  }
});
