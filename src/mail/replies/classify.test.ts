/**
 * Shows what replies of mail servers mean, by subject. classify-observed.test.ts has real replies of providers,
 * rules.test.ts the examples of the rules.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { classifyFailure, classifyReply } from './classify.ts';
import { MEANINGS, type Classification } from './meanings.ts';
import { REPLY_PHASES, ReplyParser, type SmtpPhase, type SmtpReply } from './smtp-reply.ts';
import { CHARACTER } from '../../../test/support/characters.ts';

const CATEGORIES = new Set(Object.values(MEANINGS).map(({ category }): string => category));
/** Phases in which a reply decides about a message. */
const ALL_PHASES = (['connect', ...REPLY_PHASES] as const).filter(
  (phase) => phase !== 'rset' && phase !== 'quit',
);

function reply(text: string): SmtpReply {
  const [parsed] = new ReplyParser().push(
    Buffer.from(`${text.replaceAll('\n', '\r\n')}\r\n`),
  ).replies;
  assert.ok(parsed, text);
  return parsed;
}

function classification(text: string, phase: SmtpPhase = 'rcpt'): Classification {
  return classifyReply({ phase, reply: reply(text) });
}

test('an address that does not exist bounces and is suppressed', () => {
  const gmail =
    '550-5.1.1 The email account that you tried to reach does not exist. Please try\n' +
    "550-5.1.1 double-checking the recipient's email address for typos or\n" +
    '550 5.1.1 unnecessary spaces. - gsmtp';
  for (const text of [
    gmail,
    '550 5.1.1 RESOLVER.ADR.RecipNotFound; not found',
    '550 5.1.10 RESOLVER.ADR.RecipientNotFound; Recipient not found by SMTP address lookup',
    '550 5.1.1 <jo@acme.test>: Recipient address rejected: User unknown in virtual mailbox table',
    '550 No such user here',
    "554 delivery error: dd This user doesn't have a yahoo.com account (jo@yahoo.com) [0]",
  ]) {
    const { permanent, category, blame, suppress } = classification(text);
    assert.deepEqual(
      { permanent, category, blame, suppress },
      { permanent: true, category: 'mailbox', blame: 'recipient', suppress: true },
      text,
    );
  }
});

test('a refusal because of the sender bounces and does not suppress the recipient', () => {
  for (const text of [
    '550-5.7.1 [192.0.2.1 19] Our system has detected that this message is likely\n' +
      '550-5.7.1 suspicious due to the very low\n550 5.7.1 reputation of the sending IP address.',
    '550 5.1.1 <jo@acme.test> User unknown; rejected due to low reputation of the sending IP',
    "550 5.7.1 Unfortunately, messages from [192.0.2.1] weren't sent. part of their network is on our block list (S3140).",
    '553 5.7.1 [BL21] Connections will not be accepted from 192.0.2.1, because the ip is in Spamhaus list',
    '550 5.2.1 Mailbox unavailable: your IP is on our blacklist',
  ]) {
    const { permanent, category, suppress } = classification(text);
    assert.deepEqual(
      { permanent, category, suppress },
      { permanent: true, category: 'reputation', suppress: false },
      text,
    );
  }
});

test('a block without a reason is classified as a block of this server, and one with a reason by its reason', () => {
  for (const phase of ['mail', 'rcpt', 'data'] as const) {
    for (const text of [
      '550 5.7.1 blocked',
      '550 Blocked.',
      '550 5.7.1 Client host [192.0.2.1] blocked',
      '554 5.7.1 Message rejected due to IP reputation',
      '550 5.7.1 [192.0.2.1] has been blocked',
      '550 5.7.1 192.0.2.1 has been blocked',
      '554 5.7.1 The IP address 192.0.2.1 has been blocked',
    ]) {
      const { category, blame, suppress } = classification(text, phase);
      assert.deepEqual([category, blame, suppress], ['reputation', 'us', false], text);
    }
  }
  for (const [text, category, blame] of [
    ['550 5.7.1 message blocked: content/spam', 'content', 'sender'],
    ['550 5.7.1 Your message has been blocked', 'content', 'sender'],
    ['554 5.7.1 <jo@acme.test>: Relay access denied', 'policy', 'receiver'],
    ['550 5.7.1 Blocked by policy', 'policy', 'receiver'],
    ['550 5.7.1 blocked by recipient', 'policy', 'recipient'],
    ['550 5.7.1 Your email has been blocked', 'policy', 'receiver'],
    [
      '550 5.7.1 This mail has been blocked because the sender is unauthenticated',
      'authentication',
      'sender',
    ],
  ] as const) {
    const found = classification(text, 'data');
    assert.deepEqual([found.category, found.blame], [category, blame], text);
  }
});

test("words in the recipient's own address are ignored", () => {
  assert.equal(
    classification('550 5.1.1 <blacklist@spamhaus.test> User unknown').category,
    'mailbox',
  );
  assert.equal(classification('550 <no-such-user@acme.test>... not today').suppress, false);
});

test('a full mailbox is retried and never suppressed', () => {
  assert.deepEqual(pick(classification('452 4.2.2 mailbox full')), ['quota', false, false]);
  assert.deepEqual(pick(classification('552 5.2.2 mailbox full', 'data')), ['quota', true, false]);
});

test('a rate limit or a temporary block is retried slowly, although the server says 5xx', () => {
  for (const text of [
    '550 Ip frequency limited [Blocked IP 192.0.2.1]',
    '550 5.7.1 Too many messages from you this hour, try again later',
    '554 5.7.1 Your address has been temporarily blocked',
    '550 5.2.1 The user you are trying to contact is receiving mail at a rate that is too high',
    '554 Greylisted for five minutes',
  ]) {
    const { permanent, suppress, retrySlowly } = classification(text, 'data');
    assert.deepEqual(
      { permanent, suppress, retrySlowly },
      { permanent: false, suppress: false, retrySlowly: true },
      text,
    );
  }
  assert.equal(classification('450 4.2.0 Greylisted').retrySlowly, undefined);
  assert.equal(classification('552 5.2.2 Over quota').retrySlowly, undefined);
});

test('text about the message takes precedence over a code about the mailbox', () => {
  for (const text of [
    '521 5.2.1 AOL will not accept delivery of this message.',
    '550 5.1.1 Message refused',
    '550 5.1.1 Blocked by us',
    '550 5.1.1 DMARC says no',
    '550 5.1.1 Rejected as spam',
  ]) {
    const { permanent, suppress } = classification(text, 'data');
    assert.deepEqual({ permanent, suppress }, { permanent: true, suppress: false }, text);
  }
});

test('a refusal about the sender never suppresses the recipient, with any code', () => {
  const about = ['reputation', 'content', 'authentication', 'policy', 'tls', 'greylist', 'quota'];
  for (const meaning of Object.values(MEANINGS)) {
    if (about.includes(meaning.category)) assert.ok(!('suppress' in meaning), meaning.advice);
  }
});

test('552 after RCPT is temporary, elsewhere permanent', () => {
  assert.equal(classification('552 Too many recipients').permanent, false);
  assert.equal(classification('552 5.2.2 Over quota').permanent, false);
  assert.equal(classification('552 5.3.4 Message too big', 'mail').permanent, true);
});

test('a reply before MAIL is never permanent and never about the recipient', () => {
  for (const phase of ['connect', 'greeting', 'ehlo', 'starttls', 'auth', 'rset'] as const) {
    for (const text of ['550 5.1.1 User unknown', '554 5.7.1 No', '421 Busy', '554 mailbox full']) {
      const { permanent, suppress, category } = classification(text, phase);
      assert.equal(permanent, false);
      assert.equal(suppress, false);
      assert.ok(category !== 'mailbox' && category !== 'quota', `${phase}: ${text}`);
    }
  }
});

test('a refusal of MAIL does not suppress the recipient', () => {
  assert.deepEqual(pick(classification('550 5.1.1 User unknown', 'mail')).slice(1), [true, false]);
});

test('an unknown 5xx bounces without suppression, an unknown 4xx is retried', () => {
  assert.deepEqual(pick(classification('550 Nope')), ['policy', true, false]);
  assert.deepEqual(pick(classification('450 Hm')), ['network', false, false]);
});

test('a domain that does not exist is suppressed for a week only', () => {
  const { suppress, suppressDays } = classification('550 5.1.2 Host unknown');
  assert.deepEqual({ suppress, suppressDays }, { suppress: true, suppressDays: 7 });
});

test('a reply that asks for less mail is recognised; greylisting is not one', () => {
  for (const text of ['421 Bye', '451 4.7.0 Later', '452 4.5.3 Too many recipients']) {
    assert.equal(classification(text).slowDown, true, text);
  }
  assert.equal(classification('451 4.7.1 Greylisting in action').slowDown, undefined);
  assert.equal(classification('450 4.2.1 Mailbox busy').slowDown, undefined);
});

test('the reply code decides when the enhanced code contradicts it', () => {
  assert.equal(classification('450 5.1.1 User unknown').permanent, false);
  assert.equal(classification('550 4.7.1 No').permanent, true);
});

test('the replies of the simulator are classified as documented', () => {
  assert.deepEqual(pick(classification('550 5.1.1 No such user')), ['mailbox', true, true]);
  assert.deepEqual(pick(classification('550 5.7.1 Blocked by policy')), ['policy', true, false]);
  assert.deepEqual(pick(classification('452 4.2.2 Mailbox full')), ['quota', false, false]);
});

function pick({ category, permanent, suppress }: Classification): [string, boolean, boolean] {
  return [category, permanent, suppress];
}

test('timeouts and lost connections are retried and suppress no recipient', () => {
  assert.equal(classifyFailure({ phase: 'connect', cause: 'timeout' }).category, 'network');
  assert.equal(classifyFailure({ phase: 'mail', cause: 'garbage' }).category, 'protocol');
  assert.equal(classifyFailure({ phase: 'tls', cause: 'tls' }).category, 'tls');
  const doubt = classifyFailure({ phase: 'data', cause: 'closed', inDoubt: true });
  assert.match(doubt.advice, /may have arrived/);
  assert.equal(doubt.permanent || doubt.suppress, false);
});

test('no reply suppresses unless it is a 5xx from RCPT on', () => {
  const phases = [
    'connect',
    'greeting',
    'ehlo',
    'auth',
    'mail',
    'rcpt',
    'data_command',
    'data',
  ] as const;
  const words = fc.constantFrom('user unknown', 'blocked', 'mailbox full', 'x@y', '5.1.1', 'no');
  fc.assert(
    fc.property(
      fc.constantFrom(...phases),
      fc.integer({ min: 400, max: 599 }),
      fc.option(fc.constantFrom('5.1.1', '4.1.1', '5.2.1', '5.7.1', '4.2.2', '5.0.0', '5.9.999')),
      fc.array(words),
      (phase, code, enhancedCode, message) => {
        const found = classifyReply({
          phase,
          reply: { code, enhancedCode, message: message.join(' ') },
        });
        const mayEnd = code >= 500 && ['rcpt', 'data_command', 'data'].includes(phase);
        assert.ok(mayEnd || !found.suppress);
        assert.ok(!found.suppress || (found.permanent && found.category === 'mailbox'));
      },
    ),
  );
});

test('no reply makes the classifier throw, and its result is always complete', () => {
  const text = fc.oneof(fc.string({ unit: CHARACTER, maxLength: 300 }), fc.string());
  fc.assert(
    fc.property(
      fc.constantFrom(...ALL_PHASES),
      fc.integer({ min: 400, max: 599 }),
      fc.option(fc.tuple(fc.nat(9), fc.nat(999), fc.nat(999)).map((code) => code.join('.'))),
      fc.array(text).map((lines) => lines.join('\n')),
      (phase, code, enhancedCode, message) => {
        const found = classifyReply({ phase, reply: { code, enhancedCode, message } });
        assert.equal(typeof found.permanent, 'boolean');
        assert.equal(typeof found.suppress, 'boolean');
        assert.ok(CATEGORIES.has(found.category) && found.advice.endsWith('.'));
      },
    ),
  );
});

test('only the first 2,048 characters of a reply are classified', () => {
  const far = { code: 550, enhancedCode: null, message: `${'x '.repeat(1024)}User unknown` };
  assert.equal(classifyReply({ phase: 'rcpt', reply: far }).suppress, false);
  const near = { ...far, message: `${'x '.repeat(1000)}User unknown ${'y'.repeat(1_000_000)}` };
  assert.equal(classifyReply({ phase: 'rcpt', reply: near }).suppress, true);
});
