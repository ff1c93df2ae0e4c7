/**
 * Composes a message from its parts (RFC 5322, 2045-2047, 2387, 2392). Pure, so an email has the same bytes at every
 * attempt, for every recipient, and in API responses.
 *
 * multipart/alternative contains text and html, /related the html with its inline attachments, /mixed both of these
 * and the other attachments. Boundaries are derived from the email's id and contain `=_`, which encoded content
 * cannot contain. The message never names blind copies.
 */
import { createHmac } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { domainOf } from './address.ts';
import { customField } from './custom-fields.ts';
import type { Attachment, MessageContent } from './email.ts';
import {
  addressField,
  dateText,
  headerField,
  type HeaderField,
  headerLine,
  isContentId,
  isMediaType,
  textField,
  withParameter,
} from './mime/header.ts';
import { DERIVED_TEXT_LENGTH_MAX } from './html/text-from-html.ts';
import {
  base64LineOctets,
  base64Lines,
  base64Octets,
  encodeText,
} from './mime/transfer-encoding.ts';

/** A `text` of null, or of '' beside html, means no text part. */
export type Message = MessageContent & {
  emailId: string;
  date: Date;
  /** With angle brackets, from messageIdOf. */
  messageId: string;
  /** An address for unsubscribing; only used beside a URL. */
  unsubscribeMailto?: string | null;
  feedbackId?: string | null;
  /** Writes addresses of To and Cc in ASCII, for servers without SMTPUTF8. */
  asciiOnly?: boolean;
};

export type ComposedMessage = {
  /** The domain of the author, which must sign. */
  fromDomain: string;
  headers: readonly HeaderField[];
  /** Everything after the empty line, in pieces of whole CRLF lines. Large attachments are never copied. */
  body: readonly Buffer[];
};

export const UNSUBSCRIBE_SUBJECT = 'unsubscribe';
/** RFC 5322 §2.1.1, less the colon and the comma. */
const LIST_LINE_MAX = 990;
const FEEDBACK_KIND_MAX = 64;
/** The tag whose value recipients may read. */
const FEEDBACK_TAG = 'feedback_id';
/** 64 bits. Without the key, nobody can link a project to its domains. */
const FEEDBACK_PROJECT_HEX = 16;
export const FEEDBACK_ID = 'feedback ids';
const HASHED_PROJECTS = new WeakMap<Buffer, LRUCache<string, string>>();
const HASHED_MAX = 1_000;
const SMALL_BYTES = 65_536;
/** Size of the fields of every message and of two signatures. */
const FIXED_BYTES = 5_000;
/** Size of the fields and boundaries of a part, without the file name. */
const PART_BYTES = 500;
/** Maximum octets in a header for one octet of text. */
const HEADER_EXPANSION = 4;
const FIELD_BYTES = 40;
/** Limits on a derived text in UTF-8: per octet of html, a constant, and in total. */
const DERIVED_EXPANSION = 2;
const DERIVED_BYTES = 500;
const DERIVED_BYTES_MAX = 3 * DERIVED_TEXT_LENGTH_MAX;

/** Returns a globally unique id; a bounce that quotes it identifies the email. */
export function messageIdOf(emailId: string, fromDomain: string): string {
  return `<${emailId}@${fromDomain}>`;
}

/**
 * Returns the key under which Gmail's feedback loop counts complaints (`Feedback-ID: a:b:c:sender`): kind of mail,
 * customer, domain, and sending software. It is equal for all mail of a kind. Recipients can read it. So it has no
 * tag except the one for this purpose, and the project is hashed.
 */
export function feedbackIdOf(
  email: {
    tags: readonly { name: string; value: string }[];
    projectId: string;
    fromDomain: string;
  },
  key: Buffer,
): string {
  const tag = email.tags.find(({ name }) => name === FEEDBACK_TAG);
  const kind = tag?.value.slice(0, FEEDBACK_KIND_MAX) ?? 'untagged';
  return `${kind}:${hashProject(email.projectId, key)}:${email.fromDomain}:letterhaus`;
}

function hashProject(projectId: string, key: Buffer): string {
  const hashes = HASHED_PROJECTS.get(key) ?? new LRUCache<string, string>({ max: HASHED_MAX });
  HASHED_PROJECTS.set(key, hashes);
  let hashed = hashes.get(projectId);
  if (hashed === undefined) {
    const mac = createHmac('sha256', key).update(projectId).digest('hex');
    hashed = mac.slice(0, FEEDBACK_PROJECT_HEX);
    hashes.set(projectId, hashed);
  }
  return hashed;
}

/** @throws when a string contains characters that headers cannot contain, because a check before is missing */
export function composeMessage(message: Message): ComposedMessage {
  const content = composeContent(message);
  return {
    fromDomain: domainOf(message.from.address),
    headers: [...composeMessageFields(message), ...composeCustomFields(message), ...content.fields],
    body: joinSmallPieces(content.body),
  };
}

function composeMessageFields(message: Message): HeaderField[] {
  const { to, cc, replyTo, asciiOnly = false } = message;
  return [
    headerField('Date', [dateText(message.date)]),
    addressField('From', [message.from]),
    // An address list cannot be empty. A message with only blind copies has neither To nor Cc.
    ...(to.length > 0 ? [addressField('To', to, { asciiOnly })] : []),
    ...(cc.length > 0 ? [addressField('Cc', cc, { asciiOnly })] : []),
    ...(replyTo.length > 0 ? [addressField('Reply-To', replyTo)] : []),
    textField('Subject', message.subject),
    headerField('Message-ID', [message.messageId]),
    headerField('MIME-Version', ['1.0']),
  ];
}

/** Returns one field per name, in any case, because many must not repeat. Our own fields win. */
function composeCustomFields(message: Message): HeaderField[] {
  const { headers, unsubscribeUrl, unsubscribeMailto = null, feedbackId = null } = message;
  const fields = new Map<string, HeaderField>();
  if (unsubscribeUrl !== null) {
    fields.set('list-unsubscribe', unsubscribeField(unsubscribeUrl, unsubscribeMailto));
    const oneClick = headerField('List-Unsubscribe-Post', ['List-Unsubscribe=One-Click']);
    fields.set('list-unsubscribe-post', oneClick);
  }
  for (const [name, value] of headers) {
    const key = name.toLowerCase();
    if (!fields.has(key)) fields.set(key, customField(name, value));
  }
  if (feedbackId !== null && !fields.has('feedback-id')) {
    fields.set('feedback-id', headerField('Feedback-ID', [feedbackId]));
  }
  return [...fields.values()];
}

/** Adds `mailto:` for mail programs without RFC 8058. The others use the first link that they support. */
function unsubscribeField(url: string, mailto: string | null): HeaderField {
  const name = 'List-Unsubscribe';
  const link = `<${requireWritableUrl(url)}>`;
  if (mailto === null) return headerField(name, [link]);
  const mailtoLink = ` <mailto:${mailto}?subject=${UNSUBSCRIBE_SUBJECT}>`;
  // On one line if possible, because some programs do not unfold this field.
  const isOneLine = name.length + link.length + mailtoLink.length <= LIST_LINE_MAX;
  return headerField(name, isOneLine ? [`${link},${mailtoLink}`] : [`${link},`, mailtoLink]);
}

function requireWritableUrl(url: string): string {
  if (/^https?:[!-~]+$/i.test(url) && !/[<>"]/.test(url)) return url;
  throw new Error('The unsubscribe link cannot be written in a header.');
}

type Part = { fields: readonly HeaderField[]; body: readonly Buffer[] };

function composeContent({ emailId, html, text, attachments }: Message): Part {
  const isInline = ({ contentId }: Attachment) => html !== null && contentId !== null;
  const inline = attachments
    .filter(isInline)
    .map((attachment) => attachmentPart(attachment, 'inline'));
  const separate = attachments
    .filter((attachment) => !isInline(attachment))
    .map((attachment) => attachmentPart(attachment, 'attachment'));
  const wrap = (kind: Multipart, parts: readonly Part[]) => multipart(kind, parts, emailId);

  // Some mail programs would show an empty text part instead of the html.
  const textParts = text || html === null ? [textPart('plain', text ?? '')] : [];
  const htmlParts = html === null ? [] : [wrap('related', [textPart('html', html), ...inline])];
  return wrap('mixed', [wrap('alternative', [...textParts, ...htmlParts]), ...separate]);
}

function textPart(subtype: 'plain' | 'html', text: string): Part {
  const { encoding, body } = encodeText(text);
  return {
    fields: [
      headerField('Content-Type', [`text/${subtype}; charset=utf-8`]),
      headerField('Content-Transfer-Encoding', [encoding]),
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
      headerField('Content-Type', [safeMediaType(contentType)]),
      headerField('Content-Disposition', withParameter(disposition, 'filename', filename)),
      headerField('Content-Transfer-Encoding', ['base64']),
      ...(contentId === null
        ? []
        : [headerField('Content-ID', [`<${escapeContentId(contentId)}>`])]),
    ],
    body: [base64Lines(content)],
  };
}

/** RFC 2045 §6.4 forbids base64 for messages and multiparts, so they are sent as octet streams. */
function safeMediaType(contentType: string): string {
  const isComposite = /^(?:message|multipart)\//i.test(contentType);
  return isMediaType(contentType) && !isComposite ? contentType : 'application/octet-stream';
}

/** Escapes characters that a Content-ID cannot contain, like `cid:` links (RFC 2392). */
function escapeContentId(contentId: string): string {
  return isContentId(contentId) ? contentId : encodeURIComponent(contentId.toWellFormed());
}

type Multipart = 'mixed' | 'alternative' | 'related';

function multipart(kind: Multipart, parts: readonly Part[], emailId: string): Part {
  const [first] = parts;
  if (first !== undefined && parts.length === 1) return first;
  const boundary = `=_${kind}_${emailId}`;
  // RFC 2387 §3.1 requires the type of the first part as a parameter.
  const parameters = kind === 'related' ? [' type="text/html";'] : [];
  parameters.push(` boundary="${boundary}"`);
  const body = parts.flatMap(({ fields, body: content }) => [
    Buffer.from(`--${boundary}\r\n${fields.map(headerLine).join('')}\r\n`),
    ...content,
  ]);
  return {
    fields: [headerField('Content-Type', [`multipart/${kind};`, ...parameters])],
    body: [...body, Buffer.from(`--${boundary}--\r\n`)],
  };
}

/** Joins small pieces, which are slow to sign and to send. Large pieces are not copied. */
function joinSmallPieces(pieces: readonly Buffer[]): Buffer[] {
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

/**
 * Returns the maximum size of the signed message as transmitted, before it is composed. It serves the size limit and
 * memory budgets. A `text` of null counts as derived from the html.
 */
export function estimateSizeBytes(message: MessageContent): number {
  const { from, to, cc, replyTo, subject, unsubscribeUrl, headers, attachments, html } = message;
  let octets = FIXED_BYTES + fieldOctetsMax(subject) + fieldOctetsMax(unsubscribeUrl ?? '');
  for (const [name, value] of headers) octets += fieldOctetsMax(name) + fieldOctetsMax(value);
  for (const mailboxes of [[from], to, cc, replyTo]) {
    for (const { name, address } of mailboxes) {
      octets += fieldOctetsMax(name ?? '') + fieldOctetsMax(address);
    }
  }
  for (const { filename, contentType, contentId, content } of attachments) {
    octets += fieldOctetsMax(filename) + fieldOctetsMax(contentType);
    octets += fieldOctetsMax(contentId ?? '') + base64LineOctets(content.length) + PART_BYTES;
  }
  const htmlOctets = html === null ? 0 : canonicalOctets(html);
  const { text } = message;
  const textOctets = text === null ? derivedOctetsMax(htmlOctets) : canonicalOctets(text);
  return octets + base64Octets(htmlOctets) + base64Octets(textOctets) + 2 * PART_BYTES;
}

function fieldOctetsMax(text: string): number {
  return HEADER_EXPANSION * Buffer.byteLength(text) + FIELD_BYTES;
}

function derivedOctetsMax(htmlOctets: number): number {
  return Math.min(DERIVED_EXPANSION * htmlOctets + DERIVED_BYTES, DERIVED_BYTES_MAX);
}

function canonicalOctets(text: string): number {
  let octets = Buffer.byteLength(text);
  for (const lineEnd of ['\n', '\r']) {
    for (let at = text.indexOf(lineEnd); at !== -1; at = text.indexOf(lineEnd, at + 1)) octets += 1;
  }
  return octets;
}
