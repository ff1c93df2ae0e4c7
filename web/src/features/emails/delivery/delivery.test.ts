/** The rules of the delivery of an email: groups of recipients, attempts on a scale, sections of a dialogue. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Recipient, TimelineEvent } from '../../../../../sdk/src/api.ts';
import { attemptsOf, barsOf } from './attempts.ts';
import { dialogueSections } from './dialogue.ts';
import { codesOf, groupRecipients, splitAdvice } from './recipient-groups.ts';

const reason = (advice: string): Recipient['reason'] => ({
  category: 'policy',
  blame: 'us',
  advice,
});
const smtp = (code: number, message: string): Recipient['smtp'] => ({
  code,
  enhanced_code: '4.7.0',
  message,
  mx: 'mx.example.org',
  ip: '192.0.2.1',
  tls: null,
});
const recipient = (address: string, change: Partial<Recipient>): Recipient => ({
  address,
  kind: 'to',
  status: 'delivered',
  attempts: 1,
  next_attempt_at: null,
  completed_at: null,
  reason: null,
  smtp: null,
  ...change,
});

test('recipients with an equal reason are one group, also if their server adds an id to the reply', () => {
  const limited = (id: string): Partial<Recipient> => ({
    status: 'deferred',
    reason: reason('The provider accepts less mail; no action is needed.'),
    smtp: smtp(451, `Rate limited ${id}`),
  });
  const groups = groupRecipients({
    recipients: [
      recipient('a@x.test', {}),
      recipient('b@y.test', limited('4711')),
      recipient('c@x.test', { smtp: smtp(250, 'OK') }),
      recipient('d@y.test', limited('4712')),
      recipient('e@z.test', { status: 'bounced', reason: reason('No such mailbox.') }),
    ],
  });
  assert.deepEqual(
    groups.map(({ status, recipients }) => [status, recipients.length]),
    [
      ['bounced', 1],
      ['deferred', 2],
      ['delivered', 2],
    ],
  );
  assert.equal(codesOf(groups[1]!.smtp), '451 4.7.0');
  assert.equal(codesOf(null), null);
});

test('an advice is split into what is wrong and what to do', () => {
  assert.deepEqual(splitAdvice('The mailbox does not exist: check the address.'), {
    cause: 'the mailbox does not exist',
    remedy: 'Check the address.',
  });
  assert.deepEqual(
    splitAdvice('SPF, DKIM or DMARC did not pass: verify the records.').cause,
    'SPF, DKIM or DMARC did not pass',
  );
  const alone = 'Give the sending IP address a PTR record.';
  assert.deepEqual(splitAdvice(alone), {
    cause: 'give the sending IP address a PTR record',
    remedy: null,
  });
});

const AT = Date.parse('2026-11-27T08:00:00.000Z');
const iso = (ms: number): string => new Date(AT + ms).toISOString();
const event = (
  number: number,
  change: Partial<TimelineEvent> & { attempt: TimelineEvent['attempt'] },
): TimelineEvent => ({
  object: 'event',
  number,
  id: String(number),
  type: 'email.delivery_delayed',
  created_at: iso(0),
  recipient: 'b@y.test',
  data: { smtp: { code: 451, enhanced_code: '4.7.0', message: 'Later' } },
  ...change,
});

const EVENTS = [
  event(1, { recipient: null, attempt: null }),
  event(2, {
    attempt: {
      number: 1,
      started_at: iso(60_000),
      duration_ms: 600,
      phase_ms: { dns: 40, connect: 60, tls: 100 },
      transcript: ['(connecting to mx [192.0.2.1]:25)', 'S: 220 hi'],
    },
  }),
  event(3, { recipient: 'a@x.test', attempt: { number: 1, duration_ms: 9_000 } }),
  event(4, {
    type: 'email.delivered',
    attempt: {
      number: 2,
      started_at: iso(90_600),
      duration_ms: 300,
      phase_ms: {},
      transcript: ['C: MAIL FROM:<>', 'S: 250 OK'],
    },
  }),
];

test('the attempts at one recipient have their phases, and the time since the one before', () => {
  const [first, second, ...others] = attemptsOf(
    'b@y.test',
    { created_at: iso(0), scheduled_at: null },
    EVENTS,
  );
  assert.deepEqual(others, []);
  assert.deepEqual(
    first!.phases.map(({ name, ms }) => `${name} ${ms}`),
    ['queue 60000', 'dns 40', 'connect 60', 'tls 100', 'dialogue 400'],
  );
  assert.deepEqual([first!.sinceLastS, first!.isReused], [null, false]);
  assert.deepEqual([second!.sinceLastS, second!.isReused], [30, true]);
  assert.deepEqual(second!.phases, [{ name: 'dialogue', ms: 300 }]);
  assert.equal(first!.reply?.code, 451);
});

test('attempts share one scale, and a long wait in the queue does not hide the rest', () => {
  const attempts = attemptsOf('b@y.test', { created_at: iso(0), scheduled_at: null }, EVENTS);
  const [first, second] = barsOf(attempts);
  const [queue, dns, ...rest] = first!;
  assert.ok(queue!.isCut && Math.abs(queue!.widthPercent - 30) < 0.01);
  assert.ok(Math.abs(dns!.startPercent - 30) < 0.01);
  const dialogue = rest.at(-1)!;
  assert.ok(Math.abs(dialogue.startPercent + dialogue.widthPercent - 100) < 0.01);
  // 300 ms are three quarters of 400 ms.
  assert.ok(Math.abs(second![0]!.widthPercent - dialogue.widthPercent * 0.75) < 0.01);
  assert.deepEqual(barsOf([]), []);
});

test('a dialogue has sections, and marks the reply that decided', () => {
  const sections = dialogueSections(
    [
      '(connecting to mx [192.0.2.1]:25)',
      'S: 220 mx ready',
      'C: EHLO mail.acme.com',
      'S: 250-mx',
      'S: 250 STARTTLS',
      'C: STARTTLS',
      'S: 220 go',
      '(TLSv1.3, certificate verified)',
      'C: EHLO mail.acme.com',
      'S: 250 mx',
      'C: MAIL FROM:<b@acme.com>',
      'C: RCPT TO:<jo@y.test>',
      'C: DATA',
      'S: 250 ok',
      'S: 250 ok',
      'S: 354 send',
      'S: 451 4.7.0 Later',
      'C: QUIT',
      'S: 221 bye',
    ],
    451,
  );
  assert.deepEqual(
    sections.map(({ title, lines }) => [title, lines.length]),
    [
      ['Connection', 5],
      ['TLS', 5],
      ['Envelope', 6],
      ['Message', 1],
      ['End', 2],
    ],
  );
  const marked = sections.flatMap(({ lines }) => lines).filter(({ isDecisive }) => isDecisive);
  assert.deepEqual(marked, [{ side: 'server', text: '451 4.7.0 Later', isDecisive: true }]);
});

test('without a reply, the last note decided', () => {
  const [section] = dialogueSections(['(connecting to mx)', '(No connection within 30 s.)'], null);
  assert.deepEqual(
    section!.lines.map(({ side, isDecisive }) => [side, isDecisive]),
    [
      ['note', false],
      ['note', true],
    ],
  );
});
