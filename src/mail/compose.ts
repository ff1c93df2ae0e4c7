/**
 * A message from its parts (RFC 5322, 2045-2047, 2387, 2392): a pure function, so that one email
 * has the same bytes at every attempt, for every recipient, and whenever the API returns them.
 *
 * multipart/alternative holds text and html, /related the html with its inline attachments, /mixed
 * those with the other attachments. Boundaries come from the email's id and have `=_` in them,
 * which no encoded content can have. Blind copies are not mentioned.
 */
import { domainOf } from './address.ts';
import type { Attachment, MessageContent } from './email.ts';
import {
  addressField,
  field,
  type HeaderField,
  headerLine,
  isContentId,
  isMediaType,
  textField,
  withParameter,
} from './header.ts';
import { DERIVED_TEXT_LENGTH_MAX } from './text-from-html.ts';
import { base64LineOctets, base64Lines, base64Octets, encodeText } from './transfer-encoding.ts';

/** Here a `text` of null, or of '' beside html, is no text part. */
export type Message = MessageContent & {
  emailId: string;
  date: Date;
  /** With its angle brackets, as messageIdOf makes it. */
  messageId: string;
  /** An address for unsubscribing; only beside a web address. */
  unsubscribeMailto?: string | null;
  /** As feedbackIdOf makes it, for messages that bring no Feedback-ID of their own. */
  feedbackId?: string | null;
};

export type ComposedMessage = {
  /** Of the author: the signature has to be this domain's. */
  fromDomain: string;
  /** In the order of the wire. */
  headers: readonly HeaderField[];
  /**
   * Everything after the empty line, CRLF throughout, ending with one. Each piece begins and ends
   * with whole lines; a large attachment is a piece of its own, which is never copied.
   */
  body: readonly Buffer[];
};

/** Globally unique, and a bounce that quotes it names the email. */
export function messageIdOf(emailId: string, fromDomain: string): string {
  return `<${emailId}@${fromDomain}>`;
}

/** What a mail program writes that unsubscribes by mail. */
export const UNSUBSCRIBE_SUBJECT = 'unsubscribe';
/** RFC 5322 §2.1.1, with room for the colon and the comma. */
const LIST_LINE_MAX = 990;

const FEEDBACK_KIND_MAX = 64;

/**
 * For whose mail complaints are counted (Gmail's feedback loop, `Feedback-ID: a:b:c:sender`): what kind
 * of mail, whose, from which domain, and by what it was sent. The same for all mail of a kind, and
 * nothing that is not known to whoever gets the message or worth knowing.
 */
export function feedbackIdOf(email: {
  tags: readonly { value: string }[];
  projectId: string;
  fromDomain: string;
}): string {
  const kind = email.tags[0]?.value.slice(0, FEEDBACK_KIND_MAX) ?? 'untagged';
  return `${kind}:${email.projectId}:${email.fromDomain}:posthorn`;
}

/** @throws when a string has characters that no header may have: a check was forgotten upstream */
export function composeMessage(message: Message): ComposedMessage {
  const content = contentOf(message);
  return {
    fromDomain: domainOf(message.from.address),
    headers: [...messageFields(message), ...customFields(message), ...content.fields],
    body: joinedWhereSmall(content.body),
  };
}

function messageFields(message: Message): HeaderField[] {
  const { to, cc, replyTo } = message;
  return [
    field('Date', [dateText(message.date)]),
    addressField('From', [message.from]),
    // An address list cannot be empty: a message with blind copies only has neither.
    ...(to.length > 0 ? [addressField('To', to)] : []),
    ...(cc.length > 0 ? [addressField('Cc', cc)] : []),
    ...(replyTo.length > 0 ? [addressField('Reply-To', replyTo)] : []),
    textField('Subject', message.subject),
    field('Message-ID', [message.messageId]),
    field('MIME-Version', ['1.0']),
  ];
}

/** `Sat, 21 Nov 2026 08:30:00 +0000` (RFC 5322 §3.3). */
export function dateText(date: Date): string {
  return date.toUTCString().replace('GMT', '+0000');
}

/** One per name, in whatever case: many of them must not occur twice. Posthorn's own come first. */
function customFields(message: Message): HeaderField[] {
  const { headers, unsubscribeUrl, unsubscribeMailto = null, feedbackId = null } = message;
  const fields = new Map<string, HeaderField>();
  if (unsubscribeUrl !== null) {
    fields.set('list-unsubscribe', unsubscribeField(unsubscribeUrl, unsubscribeMailto));
    const oneClick = field('List-Unsubscribe-Post', ['List-Unsubscribe=One-Click']);
    fields.set('list-unsubscribe-post', oneClick);
  }
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    if (!fields.has(key)) fields.set(key, textField(name, value.trim()));
  }
  if (feedbackId !== null && !fields.has('feedback-id')) {
    fields.set('feedback-id', field('Feedback-ID', [feedbackId]));
  }
  return [...fields.values()];
}

/** `mailto:` for readers that know no RFC 8058; those that do take the first they know. */
function unsubscribeField(url: string, mailto: string | null): HeaderField {
  const name = 'List-Unsubscribe';
  const link = `<${writableUrl(url)}>`;
  if (mailto === null) return field(name, [link]);
  const byMail = ` <mailto:${mailto}?subject=${UNSUBSCRIBE_SUBJECT}>`;
  // One word: it stays on one line, which some readers of this field count on.
  const isOneLine = name.length + link.length + byMail.length <= LIST_LINE_MAX;
  return field(name, isOneLine ? [`${link},${byMail}`] : [`${link},`, byMail]);
}

function writableUrl(url: string): string {
  if (/^https?:[!-~]+$/i.test(url) && !/[<>"]/.test(url)) return url;
  throw new Error('The unsubscribe link cannot be written in a header.');
}

/** A part of the message: the fields that say what it is, and its body, ending with CRLF. */
type Part = { fields: readonly HeaderField[]; body: readonly Buffer[] };

function contentOf({ emailId, html, text, attachments }: Message): Part {
  const isInline = ({ contentId }: Attachment) => html !== null && contentId !== null;
  const inline = attachments.filter(isInline).map((one) => attachmentPart(one, 'inline'));
  const separate = attachments
    .filter((one) => !isInline(one))
    .map((one) => attachmentPart(one, 'attachment'));
  const wrap = (kind: Multipart, parts: readonly Part[]) => multipart(kind, parts, emailId);

  // An empty text beside html (of images only, say) is what some readers would show in its place.
  const textParts = text || html === null ? [textPart('plain', text ?? '')] : [];
  const htmlParts = html === null ? [] : [wrap('related', [textPart('html', html), ...inline])];
  return wrap('mixed', [wrap('alternative', [...textParts, ...htmlParts]), ...separate]);
}

function textPart(subtype: 'plain' | 'html', text: string): Part {
  const { encoding, body } = encodeText(text);
  return {
    fields: [
      field('Content-Type', [`text/${subtype}; charset=utf-8`]),
      field('Content-Transfer-Encoding', [encoding]),
    ],
    body: [body],
  };
}

function attachmentPart(
  { filename, contentType, contentId, content }: Attachment,
  disposition: 'inline' | 'attachment',
): Part {
  return {
    fields: [
      field('Content-Type', [attachmentType(contentType)]),
      field('Content-Disposition', withParameter(disposition, 'filename', filename)),
      field('Content-Transfer-Encoding', ['base64']),
      ...(contentId === null ? [] : [field('Content-ID', [`<${writableId(contentId)}>`])]),
    ],
    body: [base64Lines(content)],
  };
}

/** RFC 2045 §6.4 forbids base64 around other messages and multiparts: they go as plain octets. */
function attachmentType(contentType: string): string {
  const isComposite = /^(?:message|multipart)\//i.test(contentType);
  return isMediaType(contentType) && !isComposite ? contentType : 'application/octet-stream';
}

/** RFC 2392 has `cid:` links escape what an id cannot hold; so what it cannot hold is escaped. */
function writableId(contentId: string): string {
  return isContentId(contentId) ? contentId : encodeURIComponent(contentId.toWellFormed());
}

type Multipart = 'mixed' | 'alternative' | 'related';

/** The parts in one, or the only one as it is. */
function multipart(kind: Multipart, parts: readonly Part[], emailId: string): Part {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return first;
  const boundary = `=_${kind}_${emailId}`;
  // RFC 2387 §3.1 wants the type of the first part named.
  const parameters = kind === 'related' ? [' type="text/html";'] : [];
  parameters.push(` boundary="${boundary}"`);
  const body = parts.flatMap(({ fields, body: content }) => [
    Buffer.from(`--${boundary}\r\n${fields.map(headerLine).join('')}\r\n`),
    ...content,
  ]);
  return {
    fields: [field('Content-Type', [`multipart/${kind};`, ...parameters])],
    body: [...body, Buffer.from(`--${boundary}--\r\n`)],
  };
}

const SMALL_BYTES = 65_536;

/** Few pieces cost the signer and the socket less than many; large ones are not worth a copy. */
function joinedWhereSmall(pieces: readonly Buffer[]): Buffer[] {
  const joined: Buffer[] = [];
  let small: Buffer[] = [];
  for (const piece of pieces) {
    if (piece.length <= SMALL_BYTES) {
      small.push(piece);
      continue;
    }
    joined.push(Buffer.concat(small), piece);
    small = [];
  }
  return [...joined, Buffer.concat(small)].filter((piece) => piece.length > 0);
}

/** Fields that every message has, and two signatures. */
const FIXED_BYTES = 5_000;
/** Fields and boundaries of a part, without the name of the file. */
const PART_BYTES = 500;
/** What an octet of text can become in a header, and what its field takes besides. */
const HEADER_EXPANSION = 4;
const FIELD_BYTES = 40;
/** What a derived text takes at most, per octet of its html, besides and in all (in UTF-8). */
const DERIVED_EXPANSION = 2;
const DERIVED_BYTES = 500;
const DERIVED_BYTES_MAX = 3 * DERIVED_TEXT_LENGTH_MAX;

/**
 * How large the message will be at most, signed and on the wire: for the limit on its size and for
 * budgets of memory, before it is composed. A `text` of null counts as derived from the html.
 */
export function estimateSizeBytes(message: MessageContent): number {
  const { from, to, cc, replyTo, subject, headers, attachments, html } = message;
  const mailboxes = [from, ...to, ...cc, ...replyTo];
  const inHeaders = [
    subject,
    message.unsubscribeUrl ?? '',
    ...headers.flat(),
    ...mailboxes.flatMap(({ name, address }) => [name ?? '', address]),
    ...attachments.flatMap((one) => [one.filename, one.contentType, one.contentId ?? '']),
  ];
  const htmlOctets = html === null ? 0 : canonicalOctets(html);
  const text = message.text;
  const textOctets = text === null ? derivedOctetsMax(htmlOctets) : canonicalOctets(text);
  const contents = [
    ...[htmlOctets, textOctets].map(base64Octets),
    ...attachments.map(({ content }) => base64LineOctets(content.length)),
  ];
  return (
    FIXED_BYTES +
    sum(inHeaders.map((one) => HEADER_EXPANSION * Buffer.byteLength(one) + FIELD_BYTES)) +
    sum(contents.map((octets) => octets + PART_BYTES))
  );
}

function derivedOctetsMax(htmlOctets: number): number {
  return Math.min(DERIVED_EXPANSION * htmlOctets + DERIVED_BYTES, DERIVED_BYTES_MAX);
}

/** With CRLF at every line end. */
function canonicalOctets(text: string): number {
  let octets = Buffer.byteLength(text);
  for (const lineEnd of ['\n', '\r']) {
    for (let at = text.indexOf(lineEnd); at !== -1; at = text.indexOf(lineEnd, at + 1)) octets += 1;
  }
  return octets;
}

function sum(numbers: readonly number[]): number {
  return numbers.reduce((total, number) => total + number, 0);
}
