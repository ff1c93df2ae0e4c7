/**
 * Phrases of non-standard reports: those of Exim, qmail, Sendmail, Exchange, Domino and single providers, in lower
 * case. report-parts.ts uses them for the kind of report and the beginning of the original, text-entries.ts for
 * recipients. REPORT_RULES in classify-report.ts contains the phrases about a recipient. For a report with
 * machine-readable fields (RFC 3464), `entryKind` in read-report.ts uses Action and Status instead.
 */

export const ORIGINAL_PHRASES: readonly string[] = [
  'below this line is a copy', // qmail, Yahoo
  'this is a copy of the message', // Exim
  'this is a copy of your message',
  'this is a copy of the headers',
  'a copy of the original message', // OpenSMTPD, several
  'copy of the original message below',
  'copy of the message header', // mxlogic
  'copy of your message',
  'enclosed is a copy of the message', // IndiMail
  'original message follows', // X2 and X4, Sendmail 5
  'original message below',
  '-- original message', // Gmail
  '--original message', // m-filter
  'original message header',
  'original message text',
  'begin original message',
  'start of original message',
  'header of the original message', // GMX
  'headers of the original message',
  'headers follow', // DragonFly, Courier
  'message header follows',
  'unsent message follows', // Sendmail 5
  'unsent message below', // Sendmail 5
  '- returned message', // Notes
  '- undelivered message',
  '- received message',
  'content of the original',
  'the first part of the original',
  'the following is the text of your message',
  'the text of the original message',
  'original mail as follows', // fml
  'quoted original',
  'beginning of the original',
  '*** mail header ***',
  'kopie der urspr', // German
  'kopf der urspr',
];

export const RECIPIENT_PHRASES: readonly string[] = [
  'rcpt to:',
  'rcpt to',
  'rejected recipient',
  'reach the following recipient:',
  'reach the following recipient(s):',
  'delivered to:',
  'deliver to:',
  'delivered to',
  'deliver to',
  'delivering your mail to',
  'delivering to',
  'delivery to',
  'undeliverable to',
  'unknown user:',
  'unknown user',
  'user unknown:',
  'user mailbox exceeds allowed size:',
  'invalid recipient:',
  'invalid final delivery userid:',
  'mail sent to',
  'email sent to',
  'message sent to',
  'addressed to',
  'sent to:',
  'sent to',
  'attempts:', // IMail
  'duplicated message-id in', // fml
  'failed recipient:',
  'intended recipient:',
  'final-recipient:',
  'final-recipient: rfc822;',
  'original-recipient: rfc822;',
  'final recipient:',
  'recipient address:',
  'recipient address',
  'email address:',
  'e-mail address:',
  'recipient email:',
  'recipient:',
  'recipients:',
  'recipient',
  'mailbox',
  'mailbox:',
  'user:',
  'account:',
  'the address',
  'address:',
  'adresse',
  'destinataire',
  'empf\u00e4nger',
  'for:',
];

/** Beginnings of lines about the message. They name no failed recipient. */
export const MESSAGE_FIELD =
  /^\W{0,4}(?:from|sender|reply-to|return-path|errors-to|message[ -]id|date|sent|subject|cc|x-[\w-]+|reporting-mta|references|in-reply-to|received|mail from|generating server|postmaster)\b ?[:;=]/i;

export const BOUNCE_PHRASES: readonly string[] = [
  'could not be delivered',
  'could not deliver',
  "couldn't be delivered",
  'cannot be delivered',
  'can not be delivered',
  'was not delivered',
  'were not delivered',
  'not been delivered',
  'has not been delivered',
  'not delivered to',
  'did not receive this message',
  'did not reach the following',
  'did not like our',
  'unable to deliver',
  "wasn't able to deliver",
  'was unable to deliver',
  'failed permanently',
  'permanent error',
  'permanent fatal errors',
  'had trouble delivering',
  'had delivery problems',
  'delivery problem',
  'delivery errors',
  'delivery error',
  'delivery failed',
  'delivery failure',
  'delivery has failed',
  'delivery has been delayed',
  'delivery to the following recipient',
  'delivery status notification',
  'delivery of your message',
  'error delivering your mail',
  'error occurred while trying to deliver',
  'transcript of session follows',
  'failure reasons',
  'failed recipient',
  'following addresses failed',
  'following address failed',
  'following address(es) failed',
  'undeliverable',
  'undelivered',
  'undelivery',
  'mail delivery failed',
  'returned mail',
  'returned to sender',
  'loop alert', // fml
  'duplicated message-id',
  'following recipients were affected', // MailMarshal
  'unable to relay',
  'mail system error',
  'failure notice',
  'failed delivery',
  'mail failure',
  'user unknown',
  'unknown user',
  'mailbox is full',
  'mailbox full',
  'message could not be',
  'mail could not be',
  'rejected recipient',
  'unzustellbar',
  'nicht zugestellt',
  'non remis',
  'mensaje no',
  'no se pudo entregar',
  'non recapitato',
  '\u914d\u4fe1\u3067\u304d\u307e\u305b\u3093', // could not be delivered
  '\u9001\u4fe1\u3067\u304d\u307e\u305b\u3093', // could not be sent
  '\u9000\u4fe1', // returned mail
  '\u9000\u4fe1\u901a\u77e5',
];

export const DELAY_PHRASES: readonly string[] = [
  'warning message only',
  'warning only',
  'do not need to resend',
  'do not need to re-send',
  'has been delayed',
  'is delayed for more than',
  'being delayed',
  'delivery is delayed',
  'delayed delivery',
  'delivery delayed',
  'delays in delivering',
  'will be retried',
  'still being retried',
  'will continue to retry',
  'will keep trying',
  'will continue to try',
  'will continue trying',
  'will try again',
  'not yet been delivered',
  'has not yet been',
  'temporary failure report',
  'only a temporary failure',
  'message that you sent has not yet been delivered',
  'no action is required on your part',
];

/** Phrases that override delay phrases: no attempt follows. */
export const GIVEN_UP_PHRASES: readonly string[] = [
  'giving up',
  'given up',
  "i've given up",
  "i'm not going to try again",
  'not going to try again',
  'failed permanently',
  'permanent error',
  'permanent fatal errors',
  'could not be delivered for the last',
  'no further attempts',
  'has been abandoned',
  'delivery failed after',
];
