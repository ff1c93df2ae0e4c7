/** Replies that blame the return path or the form of the message, but mention a mailbox, a blocklist or spam. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { classifyReply, meaningOf } from './classify.ts';
import type { MeaningName } from './meanings.ts';
import { ReplyParser, type SmtpPhase } from './smtp-reply.ts';

const RETURN_PATH = 'b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test';
/** The reply begins as Exim writes it. The operator of the server configures the last line. */
const exim = (...lines: string[]) =>
  [`Verification failed for <${RETURN_PATH}>`, ...lines]
    .map((line, index) => `550${index < lines.length ? '-' : ' '}${line}`)
    .join('\n');

const VERIFIED: readonly string[] = [
  exim('No Such User Here', 'Your sender address could not be verified'),
  exim('No Such User Here', 'Sender verify failed'),
  exim('Unrouteable address', 'Sender verify failed'),
  exim('Previous (cached) callout verification failure', 'Sender verify failed'),
  exim('(result of an earlier callout reused).', 'Invalid sender'),
  exim(
    `The mail server could not deliver mail to ${RETURN_PATH}.  The account or domain may not exist, they may be blacklisted, or missing the proper dns entries.`,
    'Sender verify failed',
  ),
  exim(
    'Called:   192.0.2.1',
    `Sent:     RCPT TO:<${RETURN_PATH}>`,
    `Response: 550 5.1.1 <${RETURN_PATH}>: Recipient address rejected: User unknown in local recipient table`,
    'rejected',
  ),
  `550-Callback setup failed while verifying <${RETURN_PATH}>\n550-Response: 550 listed at zen.spamhaus.org\n550 Sender verify failed`,
  `550-Postmaster verification failed while checking <${RETURN_PATH}>\n550 This host does not accept mail from domains whose servers reject the postmaster address.`,
  '451 Could not complete sender verify callout',
  `550 5.1.7 <${RETURN_PATH}>: Sender address rejected: undeliverable address: host mx.acme.test said: 550 5.1.1 User unknown (in reply to RCPT TO command)`,
  `450 4.1.7 <${RETURN_PATH}>: Sender address rejected: unverified address: connect to mx.acme.test[192.0.2.1]:25: Connection refused`,
  '450 4.1.7 <b@acme.test>: Sender address rejected: unverified address: Address verification in progress',
  '550 5.1.8 Sender address verification failed',
  "550 5.7.1 Sender's address could not be verified by callback",
  '553 sender address not verified: no such user',
  '550 5.1.8 Cannot verify sender',
  '550 Envelope sender verification: no such user here',
  '550 Reverse path could not be verified: unknown user',
  '550 sender mailbox not found',
  '550 The from address is not valid: no such user',
  `550 5.1.1 <${RETURN_PATH}>... User unknown`,
  `550 5.1.1 <${RETURN_PATH}>: recipient not found`,
  `550 5.2.1 <${RETURN_PATH}>: mailbox disabled`,
  `550 <${RETURN_PATH}> is not a known user`,
  `550 5.1.1 <${RETURN_PATH}>`,
  `550 Return address <${RETURN_PATH}> is invalid: 550 no such user`,
  '554 5.7.1 Your sender address does not accept bounces',
  "550 5.1.1 The sender's address does not exist",
  "553 The sender's email address was not found: user unknown",
  '550 Rejected: sender account does not exist',
  '550 5.1.1 Unknown sender: user unknown',
  '550 5.1.1 Return-Path mailbox does not exist',
  '550 Return address unknown: user unknown',
  "550 MAIL FROM address doesn't exist: no such user",
  '550 Bounce address invalid: no such user',
  '550 Your e-mail address could not be verified: mailbox not found',
  '550 Der Absender konnte nicht verifiziert werden',
];

const OTHERS: readonly [string, MeaningName][] = [
  ['550 Callout verification failed', 'mailbox_problem'],
  ['451 Could not complete recipient verify callout', 'mailbox_problem'],
  ['550 Recipient verification failed for <jo@dest.test>: user unknown', 'mailbox_problem'],
  [
    '550 The mail server could not deliver mail to jo@dest.test. The account or domain may not exist, they may be blacklisted, or missing the proper dns entries.',
    'mailbox_problem',
  ],
  [`550 5.7.1 <${RETURN_PATH}>: blocked using zen.spamhaus.org`, 'blocklisted'],
  [`451 4.7.1 <${RETURN_PATH}>: greylisted, try again later`, 'greylisted'],
  [`550 5.1.1 <jo@dest.test> from <${RETURN_PATH}>: user unknown`, 'no_such_mailbox'],
  [
    `450 4.1.8 <${RETURN_PATH}>: Sender address rejected: Domain not found`,
    'sender_domain_unknown',
  ],
  ['550 5.7.1 DKIM signature of the sender could not be verified', 'not_authenticated'],
  ['550 5.7.26 The sender could not be verified by SPF', 'not_authenticated'],
  [
    "550 5.1.1 User unknown. Check the recipient's address and the sender's address",
    'no_such_mailbox',
  ],
  ['550 No such user here, please verify your address book', 'no_such_mailbox'],
  ['550 RFC822 address unknown: user not found', 'no_such_mailbox'],
];

test('a server that verifies the sender blames the return path, not the recipient', () => {
  for (const text of VERIFIED) {
    for (const phase of ['mail', 'rcpt', 'data'] as const) {
      const { meaning, ...classification } = read(text, phase);
      assert.equal(meaning, 'sender_unverified', text);
      assert.deepEqual(
        [classification.category, classification.blame, classification.suppress],
        ['policy', 'sender', false],
      );
      assert.match(classification.advice, /check that mail to your return path is accepted/);
      assert.equal(classification.permanent, text.startsWith('5'));
    }
  }
  for (const [text, meaning] of OTHERS) assert.equal(read(text, 'rcpt').meaning, meaning, text);
});

/** Gmail adds this to every refusal. */
const GMAIL =
  'To reduce the amount of spam sent to Gmail, this message has been blocked. For more information, go to Email sender guidelines. - gsmtp';

const FORM: Readonly<Partial<Record<MeaningName, readonly string[]>>> = {
  header_not_ascii: [
    '550 Message headers can not have 8-bit non-ASCII characters',
    '554 5.6.0 Message contains non-ASCII characters in headers',
    '550 5.1.1 Message headers can not have 8-bit non-ASCII characters',
    '550 5.6.7 The Subject header has non-ASCII characters',
    '550 5.6.8 Subject: contains raw UTF-8',
    '554 5.6.0 INVALID HEADER (INVALID CHARACTERS OR SPACE GAP) Non-encoded 8-bit data (char E4 hex): Subject:',
    '550 5.6.9 improper use of 8-bit data in message header',
    '550 5.7.1 The message contains a unicode character in a disallowed header.',
    '550 Non-ASCII characters in header are not allowed',
    '554 Message headers contain raw UTF-8, but SMTPUTF8 was not used',
    '553 5.6.0 Invalid characters in subject',
  ],
  header_repeated: [
    `550 5.7.1 [192.0.2.1] Our system has detected that this message is not RFC 5322 compliant: duplicate headers. ${GMAIL}`,
    `550 5.7.1 This message is not RFC 5322 compliant. There are multiple Subject headers. ${GMAIL}`,
    '550 Messages should have one or no Message-ID headers, not 2.',
    "554 Transaction failed: Duplicate header 'Subject'.",
    '550 5.7.1 more than one Subject header',
    '550 5.7.1 This message has two From headers',
  ],
  header_missing: [
    `550 5.7.1 Messages missing a valid address in the From: header, or having no From: header, are not accepted. ${GMAIL}`,
    `550 5.7.1 Messages missing a valid Message-ID: header are not accepted. ${GMAIL}`,
    '554 5.6.0 Message has no header/body separator',
    '554 5.7.1 Message has no From: header',
    '550 5.7.1 The message is missing a Message-ID',
    '550 5.7.1 Empty Subject is not accepted',
    '550 Header error: missing From',
  ],
  header_invalid: [
    '550-Message headers fail syntax check\n550 unqualified address not permitted: failing address in "From:" header is: <root>',
    '550 5.7.1 Messages with multiple addresses in From: header are not accepted.',
    `550 5.7.1 Encoded-word syntax is not permitted in message header From. ${GMAIL}`,
    '554 5.6.0 Reject, id=00867-01 - BAD-HEADER-7',
    '554 5.6.0 Message contains invalid header',
    '554 5.7.1 Message-ID is invalid',
    "550 5.7.1 This message is not RFC 5322 compliant, the issue is: 'From' header has non compliant domain name.",
    '550 5.1.20 Multiple From addresses are not allowed without Sender address',
  ],
  header_too_long: [
    '554 5.6.0 Message header size, or recipient list, exceeds policy limit',
    "552 5.3.4 Your message exceeded Google's message header size limits.",
    '552 5.6.0 Headers too large (32768 max)',
  ],
  date_invalid: [
    '550 Date header far in the past/future.',
    '554 Invalid Date header',
    '550 5.7.1 RFC5322 requirement error: not exactly one Date field',
  ],
  bare_line_end: [
    '552 5.2.0 Message contains bare CR and is violating 822.bis section 2.3',
    '521 5.5.2 mx.dest.test Error: bare <LF> received',
    '554 5.6.0 Message contains bare newlines',
    '550 5.6.11 SMTPSEND.BareLinefeedsAreIllegal; message contains bare linefeeds',
    "554 Rejected - Message containing bare LF's.",
    '451 See http://pobox.com/~djb/docs/smtplf.html.',
    '550 CR without LF',
  ],
  line_too_long: [
    '500 5.5.2 Line too long',
    '550 maximum allowed line length is 998 octets, got 1203',
    '500 Line limit exceeded',
    '554 Too long line in message body',
    '550 Maximum line length exceeded (see RFC 5322 2.1.1).',
  ],
  octets_refused: [
    '554 5.6.0 Message contains NUL characters',
    '550 Body contains NUL',
    '550 5.1.1 Message contains 8-bit data',
    '554 5.6.3 Body type 8BITMIME not supported',
    '550 Message rejected: contains control characters',
  ],
  mime_invalid: [
    '550 5.6.0 This message contains invalid MIME headers',
    '550 5.6.0 This message contains text that uses unnecessary base64 encoding',
    '554 5.6.0 Message MIME complexity exceeds the policy maximum',
    '550 unsupported content-transfer-encoding',
    '550 Message is not MIME compliant',
    '554 Malformed multipart boundary',
  ],
  bad_format: [
    '554 5.6.0 Mail message is malformed. Not accepted.',
    `550 5.7.1 Our system has detected that this message is not RFC 2822 compliant. ${GMAIL}`,
    '554 Message is not compliant with RFC',
    '550 Message is not RFC822 compliant',
    '550 5.7.1 Message rejected: empty body',
  ],
  // Other replies from Gmail, which do not concern the form.
  spam: [
    `550 5.7.1 Our system has detected that this message is likely unsolicited mail. ${GMAIL}`,
  ],
  no_smtputf8: [
    '553 5.6.7 Non-ASCII addresses not permitted for that recipient',
    '550 5.1.3 Address contains non-ASCII characters',
    '550 SMTPUTF8 is required, but was not offered by host mx.dest.test',
  ],
  message_needs_smtputf8: [
    '550 5.6.9 UTF-8 header message cannot be transferred to one or more recipients',
  ],
  not_authenticated: [
    "421 4.7.32 Your email has been rate limited because the From: header (RFC5322) in this message isn't aligned with either the authenticated SPF or DKIM organizational domain.",
    '550 5.7.1 Missing DKIM-Signature header',
  ],
  loop: ['554 5.4.6 Too many Received headers - suspected mail loop'],
};

test('a reply about the form of the message names the fault, regardless of its other words', () => {
  for (const [meaning, texts] of Object.entries(FORM)) {
    for (const text of texts) {
      const found = read(text, 'data');
      assert.equal(found.meaning, meaning, text);
      assert.equal(found.suppress, false, text);
      if (/^(?:header|line|bare|date|octets|mime|bad)_/.test(meaning)) {
        assert.deepEqual([found.category, found.blame], ['content', 'sender'], text);
      }
    }
  }
});

function read(text: string, phase: SmtpPhase) {
  const bytes = Buffer.from(`${text.replaceAll('\n', '\r\n')}\r\n`);
  const [reply] = new ReplyParser().push(bytes).replies;
  assert.ok(reply, text);
  return { meaning: meaningOf({ phase, reply }), ...classifyReply({ phase, reply }) };
}
