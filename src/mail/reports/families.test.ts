/** Reports without fields, in the shapes of real mail systems. The words are our own. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readReport } from './read-report.ts';

/** The expected result for a recipient. */
type Recipient = [recipient: string, category: string, permanent: boolean, suppress: boolean];

const JO = 'jo@receiver.test';
const GONE: Recipient = [JO, 'mailbox', true, true];
const FULL: Recipient = [JO, 'quota', true, false];

const ORIGINAL = [
  'Return-Path: <b-token@send.acme.test>',
  'From: Acme <hello@acme.test>',
  `To: ${JO}`,
  'Subject: Your order',
  'Message-ID: <1@acme.test>',
];

function bounce(
  text: string,
  { from = 'MAILER-DAEMON@mx.test', subject = 'Undelivered', more = '' } = {},
) {
  const header = [`From: ${from}`, 'To: b-token@send.acme.test', `Subject: ${subject}`];
  return Buffer.from([...header, ...(more === '' ? [] : [more]), '', text].join('\n'));
}

function recipientsIn(bytes: Buffer): Recipient[] {
  return readReport(bytes).recipients.map(({ recipient, classification }) => [
    recipient ?? '',
    classification?.category ?? '',
    classification?.permanent === true,
    classification?.suppress === true,
  ]);
}

const FAMILIES: Record<
  string,
  { text: string; recipients: Recipient[]; more?: string; from?: string }
> = {
  Exim: {
    text: `This message was created automatically by mail delivery software.

A message that you sent could not be delivered to one or more of its
recipients. This is a permanent error. The following address(es) failed:

  ${JO}
    host mx.receiver.test [192.0.2.1]
    SMTP error from remote mail server after RCPT TO:<${JO}>:
    550 5.1.1 <${JO}>: no such user
  ann@other.test
    (ultimately generated from list@receiver.test)
    mailbox is full: retry timeout exceeded

------ This is a copy of the message, including all the headers. ------
`,
    more: `X-Failed-Recipients: ${JO}, ann@other.test`,
    recipients: [GONE, ['ann@other.test', 'quota', true, false]],
  },
  'a system that could not verify the sender': {
    text: `${JO}: Sender address could not be verified: unknown user`,
    recipients: [[JO, 'policy', true, false]],
  },
  'a system that names the envelope first': {
    text: 'Message of <b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test> returned, undeliverable: account does not exist',
    more: `X-Failed-Recipients: ${JO}`,
    recipients: [GONE],
  },
  'Exim, after MAIL': {
    text: `The following address(es) failed:

  ${JO}
    SMTP error from remote mail server after MAIL FROM:<hello@acme.test> SIZE=2048:
    550 no such user, said of the sender

------ This is a copy of the message, including all the headers. ------
`,
    recipients: [[JO, 'policy', true, false]],
  },
  qmail: {
    text: `Hi. This is the qmail-send program at mx.test.
I'm afraid I wasn't able to deliver your message to the following addresses.

<${JO}>:
192.0.2.1 does not like recipient.
Remote host said: 550 5.1.1 unknown here
Giving up on 192.0.2.1.

<ann@nowhere.test>:
Sorry, I couldn't find any host named nowhere.test. (#5.1.2)

--- Below this line is a copy of the message.

${ORIGINAL.join('\n')}
`,
    recipients: [GONE, ['ann@nowhere.test', 'mailbox', true, true]],
  },
  'Sendmail 8, without MIME': {
    text: `   ----- The following addresses had permanent fatal errors -----
<${JO}>
    (reason: 550 5.1.1 <${JO}>... User unknown)

   ----- Transcript of session follows -----
... while talking to mx.receiver.test.:
>>> DATA
<<< 550 5.1.1 <${JO}>... User unknown
550 5.1.1 <${JO}>... User unknown
<<< 503 5.0.0 Need RCPT (recipient)
`,
    recipients: [GONE],
  },
  'Sendmail 5': {
    text: `   ----- Transcript of session follows -----
While talking to mx.receiver.test:
>>> RCPT To:<${JO}>
<<< 550 <${JO}>, User Unknown
550 <${JO}>... User unknown

   ----- Unsent message follows -----
${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  'Exchange 2003': {
    from: 'System Administrator <postmaster@mx.test>',
    text: `Your message

  To:      ${JO}
  Subject: Your order
  Sent:    Thu, 29 Oct 2026 08:30:00 +0000

did not reach the following recipient(s):

${JO} on Thu, 29 Oct 2026 08:31:00 +0000
    The recipient name is not recognized
\tThe MTS-ID of the original message is: c=de;a= ;p=receiver;l=MX-1
    MSEXCH:IMS:Receiver:SITE:MX 0 (000C05A6) Unknown Recipient
`,
    recipients: [GONE],
  },
  'Exchange Online': {
    text: `Delivery has failed to these recipients or groups:

${JO}<mailto:${JO}>
The address wasn't found at the destination domain.

Diagnostic information for administrators:

Generating server: mx.receiver.test

${JO}
Remote Server returned '550 5.1.10 RESOLVER.ADR.RecipientNotFound; not found'
`,
    recipients: [GONE],
  },
  Domino: {
    text: `Your message

  Subject: Your order

was not delivered to:

  ${JO}

because:

  User jo (${JO}) not listed in Domino Directory
`,
    recipients: [GONE],
  },
  Notes: {
    text: `------- Failure Reasons  --------

User not listed in public Name & Address Book
${JO}

------- Returned Message --------
${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  'Gmail, before 2015': {
    text: `Delivery to the following recipient failed permanently:

     ${JO}

Technical details of permanent failure:
The other server said:
550 550 No such user here (state 14).

----- Original message -----

${ORIGINAL.join('\n')}
`,
    more: `X-Failed-Recipients: ${JO}`,
    recipients: [GONE],
  },
  Yahoo: {
    text: `Sorry, we were unable to deliver your message to the following address.

<${JO}>:
552: 5.2.2 Mailbox full

--- Below this line is a copy of the message.
`,
    recipients: [FULL],
  },
  'GMX and 1&1': {
    text: `The following address failed:

"${JO}":
SMTP error from remote server after RCPT command:
host: mx.receiver.test
5.1.1 <${JO}>: not here

--- The header of the original message is following. ---

${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  KDDI: {
    text: `Your mail sent on: Thu, 29 Oct 2026 08:30:00 +0900
     Could not be delivered to: <${JO}>
     As their mailbox is full.
`,
    recipients: [FULL],
  },
  ezweb: {
    text: `Each of the following recipients was rejected by a remote mail server.

    Recipient: <${JO}>
    >>> RCPT TO:<${JO}>
    <<< 550 <${JO}>: User unknown
`,
    recipients: [GONE],
  },
  Biglobe: {
    text: `   ----- The following addresses had delivery problems -----
${JO}    (the mailbox has no room)

   ----- Non-delivered information -----
The number of messages in recipient's mailbox exceeded the local limit.
`,
    recipients: [FULL],
  },
  OpenSMTPD: {
    text: `    An error has occurred while attempting to deliver a message for
    the following list of recipients:

${JO}: 550 5.1.1 not a user here

    Below is a copy of the original message:

${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  DragonFly: {
    text: `There was an error delivering your mail to <${JO}>.

mx.receiver.test [192.0.2.1] did not like our RCPT TO:
550 5.1.1 unknown

Message headers follow.

${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  IMail: { text: `Unknown user: ${JO}\n\nOriginal message follows.\n`, recipients: [GONE] },
  MailMarshal: {
    text: `Your message:
   From:    hello@acme.test
   Subject: Your order

Could not be delivered because of

550 5.1.1 User unknown

The following recipients were affected:
    ${JO}
`,
    recipients: [GONE],
  },
  mFILTER: {
    text: `-------server message
550 5.1.1 unknown user <${JO}>

-------original message
${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  'MX Logic': {
    text: `The following address failed:

  <${JO}>: 550 5.1.1 <${JO}>... User Unknown

 Included is a copy of the message header:
${ORIGINAL.join('\n')}
`,
    recipients: [GONE],
  },
  McAfee: {
    text: `--- The following addresses had delivery problems ---

<${JO}>   (User unknown ${JO})
`,
    recipients: [GONE],
  },
  James: {
    text: `Failed recipient(s):
  ${JO}

Error message:
550 5.1.1 no such user here

Message details:
  Subject: Your order
  MAIL FROM: b-token@send.acme.test
  RCPT TO: ${JO}
`,
    recipients: [GONE],
  },
  ActiveHunter: {
    text: `  ----- The following addresses had permanent fatal errors -----

>>> ${JO} <${JO}>
550 sorry, no mailbox here by that name (#5.1.1)
`,
    recipients: [GONE],
  },
  InterScan: {
    text: `Unable to deliver message to <${JO}>.

Sent <<< RCPT TO:<${JO}>
Received >>> 550 5.1.1 <${JO}>... user unknown
`,
    recipients: [GONE],
  },
  'a network that is away': {
    text: `I was unable to deliver your message.

<${JO}>: connect to mx.receiver.test[192.0.2.1]:25: Connection refused
`,
    recipients: [[JO, 'network', false, false]],
  },
  Zoho: {
    text: `This is a permanent error.

${JO} Invalid Address, ERROR_CODE :550, ERROR_CODE :5.1.1 unknown.
`,
    recipients: [GONE],
  },
  'a rate limit that says user unknown': {
    text: `<${JO}>:\n550 5.1.1 User unknown; too many connections from your host\n`,
    recipients: [[JO, 'policy', false, false]],
  },
  'a block that says user unknown': {
    text: `<${JO}>:\n550 5.1.1 rejected: 192.0.2.1 is on our blacklist\n`,
    recipients: [[JO, 'reputation', true, false]],
  },
};

for (const [family, { text, recipients, ...header }] of Object.entries(FAMILIES)) {
  test(`a bounce of ${family} is recognised`, () => {
    const bytes = bounce(text, header);
    assert.equal(readReport(bytes).kind, 'bounce');
    assert.deepEqual(recipientsIn(bytes), recipients);
  });
}

test('a bounce without a recipient is about the recipient of the original', () => {
  const text = `Your message could not be delivered: the mailbox is full.\n\nOriginal message follows.\n\n${ORIGINAL.join('\n')}\n`;
  assert.deepEqual(recipientsIn(bounce(text)), [FULL]);
  const report = readReport(bounce(text));
  assert.equal(report.originalMessageId, '1@acme.test');
  assert.deepEqual(report.returnPaths, ['b-token@send.acme.test']);
});

test('the result of one recipient is not attributed to another', () => {
  const text = `<${JO}>: 550 5.1.1 User unknown\n<ann@receiver.test>: not now\n`;
  assert.deepEqual(recipientsIn(bounce(text)), [
    GONE,
    ['ann@receiver.test', 'policy', true, false],
  ]);
});

test('a delay is recognised as not final', () => {
  for (const text of [
    `THIS IS A WARNING MESSAGE ONLY.\nDelivery to the following recipient has been delayed:\n\n  ${JO}\n\n550 5.1.1 user unknown\n`,
    `A message is delayed for more than 10 minutes for the following\nrecipients:\n\n${JO}: Network error\n`,
    `<${JO}>: mailbox is full\nIt will be retried until it is 4 days old, and has not yet been delivered.\n`,
  ]) {
    const report = readReport(bounce(text, { subject: 'Delayed Mail' }));
    assert.equal(report.kind, 'delay', text);
    assert.equal(report.recipients[0]?.recipient, JO);
    assert.deepEqual(
      report.recipients.map(({ classification }) => [
        classification?.permanent,
        classification?.suppress,
      ]),
      [[false, false]],
    );
  }
});
