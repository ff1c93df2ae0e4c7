/** Samples of reports to mutate: the shapes of several mail systems, and the messages of a given folder. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { feedbackReport, statusReport } from '../../support/reports.ts';

const HEAD = 'From: MAILER-DAEMON@mx.test\r\nTo: b-token@send.acme.test\r\n';
const ORIGINAL =
  'Return-Path: <b-token@send.acme.test>\r\nReceived: from a.test ([192.0.2.1]) by mx.test; Thu, 29 Oct 2026 08:30:00 +0000\r\n' +
  'From: Acme <hello@acme.test>\r\nTo: jo@receiver.test\r\nSubject: =?utf-8?Q?H=C3=A9?=\r\nMessage-ID: <1@acme.test>\r\n';

/** Reports of Exim, qmail, Sendmail and Exchange, an html report of a provider, and an automatic reply. */
const IN_WORDS = [
  `${HEAD}X-Failed-Recipients: jo@receiver.test, ann@other.test\r\nSubject: Mail delivery failed\r\n\r\nA message that you sent could not be delivered to one or more of its recipients. This is a permanent error. The following address(es) failed:\r\n\r\n  jo@receiver.test\r\n    host mx.receiver.test [192.0.2.1]\r\n    SMTP error from remote mail server after RCPT TO:<jo@receiver.test>:\r\n    550 5.1.1 <jo@receiver.test>: no such user\r\n  ann@other.test\r\n    mailbox is full: retry timeout exceeded\r\n\r\n------ This is a copy of the message, including all the headers. ------\r\n\r\n${ORIGINAL}`,
  `${HEAD}Subject: failure notice\r\n\r\nHi. This is the qmail-send program at mx.test.\r\nI'm afraid I wasn't able to deliver your message to the following addresses.\r\nThis is a permanent error; I've given up. Sorry it didn't work out.\r\n\r\n<jo@receiver.test>:\r\n192.0.2.1 does not like recipient.\r\nRemote host said: 550 5.1.1 User unknown\r\nGiving up on 192.0.2.1.\r\n\r\n--- Below this line is a copy of the message.\r\n\r\n${ORIGINAL}`,
  `${HEAD}Subject: Returned mail: see transcript for details\r\nContent-Type: multipart/report; report-type=delivery-status; boundary="s/1"\r\n\r\n--s/1\r\n\r\n   ----- The following addresses had permanent fatal errors -----\r\n<jo@receiver.test>\r\n    (reason: 552 5.2.2 Mailbox full)\r\n\r\n   ----- Transcript of session follows -----\r\n... while talking to mx.receiver.test.:\r\n>>> DATA\r\n<<< 552 5.2.2 Mailbox full\r\n--s/1\r\nContent-Type: message/delivery-status\r\n\r\nReporting-MTA: dns; mx.test\r\n\r\nFinal-Recipient: RFC822; jo@receiver.test\r\nAction: failed\r\nStatus: 5.2.2\r\nDiagnostic-Code: SMTP; 552 5.2.2 Mailbox full\r\n\r\n--s/1\r\nContent-Type: message/rfc822\r\n\r\n${ORIGINAL}\r\nHello\r\n--s/1--\r\n`,
  `${HEAD}Subject: Undeliverable: Hello\r\nContent-Type: text/html; charset=iso-8859-1\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n<html><body><p><b>Delivery has failed to these recipients or groups:</b></p>=\r\n<a href=3D"mailto:jo@receiver.test">jo@receiver.test</a><br>The email address you entered couldn't be found.&nbsp;550 5.1.10 RESOLVER.ADR.RecipientNotFound</body></html>\r\n`,
  `From: Jo <jo@receiver.test>\r\nSubject: Automatic reply: Hello\r\nAuto-Submitted: auto-replied\r\nContent-Type: text/plain; charset=iso-2022-jp\r\nContent-Transfer-Encoding: base64\r\n\r\nT3V0IG9mIG9mZmljZQ==\r\n`,
  `From: staff@hotmail.com\r\nSubject: complaint about message from 192.0.2.1\r\nContent-Type: multipart/mixed; boundary=m\r\n\r\n--m\r\nContent-Type: message/rfc822\r\n\r\nX-HmXmrOriginalRecipient: jo@receiver.test\r\n${ORIGINAL}\r\n--m--\r\n`,
  `${HEAD}Subject: Delivery Status Notification (Delay)\r\n\r\nThis is a warning message only. You do not need to resend your message. It has been delayed and will be retried for 3 days.\r\nRCPT TO: jo@receiver.test 450 4.2.0 Greylisted\r\n`,
];

const samples = [
  statusReport(),
  statusReport({ action: 'delayed', status: '4.4.1', diagnostic: '421 4.4.1 timed out' }),
  statusReport({ action: 'delivered', status: '2.0.0' }),
  feedbackReport('b-token@send.acme.test'),
  ...IN_WORDS,
];

/** Returns the samples in Latin-1. */
export function reportSamples(): readonly string[] {
  return samples;
}

/** Adds all messages of a folder to the samples. */
export function loadSamples(folder: string): void {
  for (const file of readdirSync(folder).toSorted()) {
    if (file.endsWith('.eml')) samples.push(readFileSync(join(folder, file), 'latin1'));
  }
}
