/**
 * Composes delivery notices to the sender of an envelope (RFC 3462, 3464), and decides which outcomes they report (RFC
 * 3461 §5.2).
 *
 * Without NOTIFY a sender gets no notice. Neither does the null reverse-path, nor the sender of a notice. A notice
 * returns only what the sender of the original wrote: the header, or after a failure with RET=FULL the whole message.
 */
import { isAscii } from 'node:buffer';
import type { StoredStatus } from '../core/statuses.ts';
import { type Address, domainOf, type Mailbox } from './address.ts';
import { splitRawMessage } from './mime/raw-message.ts';
import {
  decodeXtext,
  type Dsn,
  type DsnRequest,
  type NotifyEvent,
  typedAddress,
} from './dsn-parameters.ts';
import { addressField, dateText, headerField, headerLine } from './mime/header.ts';
import { encodeText } from './mime/transfer-encoding.ts';
import { MIB } from '../lib/units.ts';

/** A recipient gets at most one notice of each kind. */
export type NoticeKind = 'success' | 'failure' | 'delay';

/** The content of a notice, as it is stored until the notice is composed. */
export type NoticeFacts = {
  action: 'delivered' | 'relayed' | 'failed' | 'delayed';
  status: string;
  diagnostic: string | null;
  remoteMta: string | null;
  advice: string | null;
};

export type Notice = { kind: NoticeKind; facts: NoticeFacts };

/**
 * How the server that accepted a message handles a request for notices. `passed_on`: it supports DSN and reports
 * success itself. `relayed`: it does not, so nothing more will be known.
 */
export type NextServer = 'passed_on' | 'relayed';

type Change = {
  status: StoredStatus;
  smtp: object | null;
  reason: object | null;
  /** Absent: the outcome concerns the mailbox. */
  nextServer?: NextServer;
};

const KINDS: Readonly<Partial<Record<StoredStatus, NoticeKind>>> = {
  delivered: 'success',
  sent: 'success',
  bounced: 'failure',
  failed: 'failure',
  suppressed: 'failure',
  deferred: 'delay',
};
const EVENT_OF_KIND: Readonly<Record<NoticeKind, NotifyEvent>> = {
  success: 'SUCCESS',
  failure: 'FAILURE',
  delay: 'DELAY',
};
const ACTION_OF_KIND = { success: 'delivered', failure: 'failed', delay: 'delayed' } as const;
const CLASS_OF_KIND = { success: '2', failure: '5', delay: '4' } as const;
const DIAGNOSTIC_MAX = 500;
/** Limit on a message that is returned whole, even with RET=FULL. */
const RETURNED_BYTES_MAX = 10 * MIB;
export const NOTICE_SUBJECTS: Readonly<Record<NoticeFacts['action'], string>> = {
  delivered: 'Delivered: your message has arrived',
  relayed: 'Relayed: your message was passed on',
  failed: 'Undelivered: your message could not be delivered',
  delayed: 'Delayed: your message is still being delivered',
};
/** An id that a field can contain unchanged. */
const PLAIN_ID = /^<[!-~]{1,900}>$/;
const SENTENCE_OF_ACTION: Readonly<Record<NoticeFacts['action'], string>> = {
  delivered: 'Your message has arrived at the mail server of this recipient:',
  relayed:
    'Your message was passed on to a mail server that sends no notices about delivery.\n' +
    'Nothing more will be reported if it arrives:',
  failed: 'Your message could not be delivered to this recipient:',
  delayed:
    'Your message could not be delivered to this recipient yet. You need not send it again:\n' +
    'delivery will be retried, and you are only notified again if you asked for that.',
};

/** Returns the notice that is due after a change of a recipient; undefined when none is due. */
export function noticeFor(dsn: Dsn, address: Address, change: Change): Notice | undefined {
  if (dsn.kind === 'notice' || dsn.sender === null) return undefined;
  const kind = KINDS[change.status];
  const notify = dsn.recipients[address]?.notify ?? [];
  if (kind === undefined || !notify.includes(EVENT_OF_KIND[kind])) return undefined;
  if (kind === 'success' && change.nextServer === 'passed_on') return undefined;
  return { kind, facts: noticeFacts(kind, change) };
}

function noticeFacts(kind: NoticeKind, { status, smtp, reason, nextServer }: Change): NoticeFacts {
  const {
    code = null,
    enhanced_code: enhancedCode = null,
    message = '',
    mx = null,
  } = (smtp ?? {}) as Partial<
    Record<'code' | 'enhanced_code' | 'message' | 'mx', string | number | null>
  >;
  const { category, advice = null } = (reason ?? {}) as { category?: string; advice?: string };
  const statusClass = CLASS_OF_KIND[kind];
  // A refusal that is retried until the email expires has a temporary code but fails permanently.
  const matchingStatus =
    typeof enhancedCode === 'string' && enhancedCode.startsWith(statusClass) ? enhancedCode : null;
  const statusOfCause = category === 'expired' ? '5.4.7' : status === 'suppressed' ? '5.7.1' : null;
  const reply = [code, enhancedCode, message]
    .filter((word) => word !== null && word !== '')
    .join(' ');
  return {
    action: nextServer === 'relayed' && kind === 'success' ? 'relayed' : ACTION_OF_KIND[kind],
    status: matchingStatus ?? statusOfCause ?? `${statusClass}.0.0`,
    diagnostic: code === null ? null : toOneLine(`smtp; ${reply}`).slice(0, DIAGNOSTIC_MAX),
    remoteMta: typeof mx === 'string' ? toOneLine(mx) : null,
    advice,
  };
}

/** Servers choose this text, so it must not add lines. */
function toOneLine(text: string): string {
  return text.replaceAll(/[^ -~]+/g, ' ').trim();
}

type NoticeMessage = {
  facts: NoticeFacts;
  at: Date;
  request: DsnRequest;
  recipient: Address;
  from: Mailbox;
  to: Address;
  messageId: string;
  hostname: string;
  original: { raw: Buffer; messageId: string; arrivedAt: Date; expiresAt: Date };
  now: Date;
};

/** Returns the whole message, with CRLF line ends. */
export function composeNotice(notice: NoticeMessage): Buffer {
  const { facts, from, to, messageId, original, now } = notice;
  const boundary = `notice-${messageId.slice(1, messageId.indexOf('@'))}`;
  const inReplyTo = PLAIN_ID.test(original.messageId) ? [original.messageId] : [];
  const header = [
    headerField('Date', [dateText(now)]),
    addressField('From', [from]),
    addressField('To', [{ name: null, address: to }]),
    headerField('Subject', [NOTICE_SUBJECTS[facts.action]]),
    headerField('Message-ID', [messageId]),
    ...inReplyTo.map((id) => headerField('In-Reply-To', [id])),
    // RFC 3834 §5: programs must not reply to it.
    headerField('Auto-Submitted', ['auto-replied']),
    headerField('MIME-Version', ['1.0']),
    headerField('Content-Type', [
      'multipart/report; report-type=delivery-status;',
      ` boundary="${boundary}"`,
    ]),
  ];
  const text = encodeText(noticeText(notice));
  const parts: Part[] = [
    {
      type: 'text/plain; charset=utf-8',
      encoding: text.encoding,
      body: text.body,
    },
    {
      type: 'message/delivery-status',
      encoding: '7bit',
      body: Buffer.from(deliveryStatusText(notice)),
    },
    returnedPart(notice),
  ];
  const delimiter = Buffer.from(`\r\n--${boundary}\r\n`);
  return Buffer.concat([
    Buffer.from(header.map(headerLine).join('')),
    ...parts.flatMap(({ type, encoding, body }) => [
      delimiter,
      Buffer.from(`Content-Type: ${type}\r\nContent-Transfer-Encoding: ${encoding}\r\n\r\n`),
      body,
    ]),
    Buffer.from(`\r\n--${boundary}--\r\n`),
  ]);
}

type Part = { type: string; encoding: string; body: Buffer };

/** Returns the original or its header. A header outside of ASCII needs the global types (RFC 6533 §4). */
function returnedPart({ facts, request, original }: NoticeMessage): Part {
  const { raw } = original;
  const { headerBytes } = splitRawMessage(raw);
  const returnsWholeMessage =
    facts.action === 'failed' && request.ret === 'FULL' && raw.length <= RETURNED_BYTES_MAX;
  const isPlain = isAscii(headerBytes);
  const body = returnsWholeMessage ? raw : headerBytes;
  const messageType = isPlain ? 'message/rfc822' : 'message/global';
  const headerType = isPlain ? 'text/rfc822-headers' : 'message/global-headers';
  return {
    type: returnsWholeMessage ? messageType : headerType,
    encoding: isAscii(body) ? '7bit' : '8bit',
    body,
  };
}

function noticeText({ facts, recipient, hostname }: NoticeMessage): string {
  return [
    `This is the mail system at ${hostname}.`,
    '',
    SENTENCE_OF_ACTION[facts.action],
    '',
    `    ${recipient}`,
    '',
    ...(facts.advice === null ? [] : [facts.advice, '']),
    ...(facts.diagnostic === null || facts.action === 'delivered'
      ? []
      : [
          `The server${facts.remoteMta === null ? '' : ` ${facts.remoteMta}`} replied:`,
          '',
          `    ${facts.diagnostic.slice('smtp; '.length)}`,
          '',
        ]),
  ].join('\n');
}

/** Writes a group of fields about the message, and one about the recipient (RFC 3464 §2). */
function deliveryStatusText({
  facts,
  at,
  request,
  recipient,
  hostname,
  original,
}: NoticeMessage): string {
  const { envid, recipients } = request;
  const orcpt = recipients[recipient]?.orcpt ?? null;
  const isRetried = facts.action === 'delayed';
  const groups: (readonly (readonly [string, string | null])[])[] = [
    [
      ['Original-Envelope-Id', envid && decodeXtext(envid)],
      ['Reporting-MTA', `dns; ${hostname}`],
      ['Arrival-Date', dateText(original.arrivedAt)],
    ],
    [
      ['Original-Recipient', orcpt && decodeXtext(orcpt)],
      ['Final-Recipient', typedAddress(recipient)],
      ['Action', facts.action],
      ['Status', facts.status],
      ['Remote-MTA', facts.remoteMta && `dns; ${facts.remoteMta}`],
      ['Diagnostic-Code', facts.diagnostic],
      ['Last-Attempt-Date', dateText(at)],
      ['Will-Retry-Until', isRetried ? dateText(original.expiresAt) : null],
    ],
  ];
  return groups.map((fields) => fields.map(statusLine).join('')).join('\r\n');
}

function statusLine([name, value]: readonly [string, string | null]): string {
  return value === null ? '' : `${name}: ${toOneLine(value)}\r\n`;
}

export function noticeSender(from: Mailbox): Mailbox {
  const address = `mailer-daemon@${domainOf(from.address)}` as Address;
  return { name: 'Mail Delivery System', address };
}
