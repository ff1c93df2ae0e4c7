/**
 * Parses and checks the email of a request. After this file every string is what its type says. An SMTP submission
 * becomes the same draft (submitted-message.ts).
 *
 * Reports all problems of a request at once, each with the name of its field as the client wrote it.
 */
import { type FieldProblem, printableName, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Environment } from '../core/scope.ts';
import {
  type Address,
  domainOf,
  explainAddress,
  isReservedDomain,
  type Mailbox,
  parseMailbox,
} from '../mail/address.ts';
import { isUnambiguous } from '../mail/address-fields.ts';
import { estimateSizeBytes } from '../mail/compose.ts';
import { checkCustomHeader } from '../mail/custom-fields.ts';
import type { Attachment, Email, Tag } from '../mail/email.ts';
import { isContentId, isMediaType } from '../mail/mime/header.ts';
import {
  NO_TRACKING_URL,
  TRACKED_HTML_MAX_LENGTH,
  type Tracking,
} from '../mail/links/tracking-link.ts';
import { formatHostedLink, PUBLIC_URL_MAX_LENGTH } from '../mail/links/unsubscribe-link.ts';
import { typeByName, withCharset } from './content/attachment-type.ts';
import { MIB } from '../lib/units.ts';

export type EmailDraft = {
  email: Email;
  bcc: readonly Mailbox[];
  recipients: readonly DraftRecipient[];
  /** The id that the trace field of an SMTP submission names, or null when accepting generates one. */
  emailId: string | null;
  scheduledAt: Date | null;
  /** Seconds from the scheduled time until undelivered recipients end `failed`, or null for the default of 72 h. */
  expiresInS: number | null;
  /** Upper bound of the composed message's size. Counts for back-pressure and the 30 MB limit. */
  sizeBytes: number;
  /** Accept the email even if every recipient is suppressed; it then ends `suppressed`. Absent: refuse it. */
  acceptsSuppressed?: true;
};

export type DraftRecipient = { kind: 'to' | 'cc' | 'bcc'; address: Address };

type Optional<Value> = Value | null | undefined;

/** The request with its wire names: types are checked, contents are not. null means absent. */
export type DraftInput = {
  from: string;
  to: string | readonly string[];
  cc?: Optional<string | readonly string[]>;
  bcc?: Optional<string | readonly string[]>;
  reply_to?: Optional<string | readonly string[]>;
  subject: string;
  html?: Optional<string>;
  text?: Optional<string>;
  headers?: Optional<Readonly<Record<string, string>>>;
  attachments?: Optional<readonly AttachmentInput[]>;
  tags?: Optional<readonly Tag[]>;
  metadata?: Optional<Readonly<Record<string, string>>>;
  expires_in?: Optional<number>;
  unsubscribe?: Optional<string | boolean>;
  tls?: Optional<'opportunistic' | 'enforced'>;
  tracking?: Optional<{ opens?: Optional<boolean>; clicks?: Optional<boolean> }>;
  scheduled_at?: Optional<string>;
};

/** An attachment with its content. accept/content/attachment-urls.ts has downloaded those named by URL. */
type AttachmentInput = {
  filename: string;
  content?: string | null | undefined;
  content_type?: string | null | undefined;
  content_id?: string | null | undefined;
};

export type DraftRules = {
  environment: Environment;
  allowPrivateNetworks: boolean;
  /** null or absent: this service has no pages for recipients. */
  pagesUrl?: string | null;
  receivesMail?: boolean;
  /** null or absent: nothing can be tracked. */
  trackingUrl?: string | null;
  /** Mail that the service writes may have reserved names of metadata. */
  isOwnMail?: boolean;
};

/**
 * Adds a problem. `message` continues the sentence that begins with the field's name. For `''`, it is a whole
 * sentence about the message.
 */
export type AddProblem = (field: string, message: string) => void;

export const RECIPIENTS_MAX = 50;
export const SUBJECT_MAX = 998;
export const TAGS_MAX = 75;
export const TAG_PATTERN = /^[A-Za-z0-9_-]{1,256}$/;
export const METADATA_NAME_MAX = 256;
export const METADATA_VALUE_MAX = 1_024;
/** The service marks its own mail with such names, for instance to conceal its content. */
const RESERVED_METADATA = /^letterhaus_/i;
export const EXPIRES_IN_S = { min: 60, max: 432_000 };
const HEADERS_MAX = 50;
const URL_MAX_LENGTH = 900;
const ATTACHMENTS_MAX = 100;
const FILENAME_MAX_BYTES = 255;

export const MESSAGE_MAX_BYTES = 30 * MIB;
const MESSAGE_TOO_LARGE =
  'The message would be larger than 30 MB; send smaller attachments, or links.';

export function parseDraft(input: DraftInput, rules: DraftRules): EmailDraft | Refusal {
  const problems: FieldProblem[] = [];
  const addProblem: AddProblem = (field, message) => void problems.push({ field, message });

  const from = readMailbox('from', input.from, addProblem);
  if (from !== null && !isUnambiguous(from.address)) {
    addProblem(
      'from',
      'has @, < or > in quotes before its @, which some receivers read as another address',
    );
  }
  const { bcc, ...lists } = readRecipients(input, rules, addProblem);
  const fields = {
    ...lists,
    subject: readSubject(input.subject, addProblem),
    html: input.html || null,
    text: input.text ?? null,
    headers: readHeaders(input, addProblem),
    attachments: readAttachments(input.attachments ?? [], addProblem),
    tags: readTags(input.tags ?? [], addProblem),
    metadata: readMetadata(input.metadata ?? {}, rules, addProblem),
    unsubscribeUrl: readUnsubscribe(input, rules, addProblem),
    tls: input.tls ?? null,
    tracking: readTracking(input, rules, addProblem),
    submitted: null,
  };
  const scheduledAt = readScheduledAt('scheduled_at', input.scheduled_at, addProblem);
  const expiresInS = readExpiry(input.expires_in, addProblem);
  if (!fields.html && !fields.text) addProblem('html', 'is required, unless there is text');
  if (problems.length > 0 || from === null) return refuseFields(problems);

  const email: Email = { from, ...fields };
  const sizeBytes = estimateSizeBytes(email);
  if (sizeBytes > MESSAGE_MAX_BYTES)
    return refuseFields([{ field: '', message: MESSAGE_TOO_LARGE }]);
  const recipients = recipientsOf({ ...lists, bcc });
  return { email, bcc, recipients, emailId: null, scheduledAt, expiresInS, sizeBytes };
}

function recipientsOf(lists: Pick<Recipients, 'to' | 'cc' | 'bcc'>): DraftRecipient[] {
  return (['to', 'cc', 'bcc'] as const).flatMap((kind) =>
    lists[kind].map(({ address }) => ({ kind, address })),
  );
}

type Recipients = Record<'to' | 'cc' | 'bcc' | 'replyTo', readonly Mailbox[]>;

function readMailbox(field: string, text: string, addProblem: AddProblem): Mailbox | null {
  const mailbox = parseMailbox(text);
  if (mailbox === null) addProblem(field, explainAddress(text));
  return mailbox;
}

function readRecipients(input: DraftInput, rules: DraftRules, addProblem: AddProblem): Recipients {
  const none: Recipients = { to: [], cc: [], bcc: [], replyTo: [] };
  const count = countAddresses(input.to) + countAddresses(input.cc) + countAddresses(input.bcc);
  if (count > RECIPIENTS_MAX || countAddresses(input.reply_to) > RECIPIENTS_MAX) {
    if (count > RECIPIENTS_MAX) {
      addProblem('to', `has more than ${RECIPIENTS_MAX} addresses, together with cc and bcc`);
    } else addProblem('reply_to', `has more than ${RECIPIENTS_MAX} addresses`);
    return none;
  }
  if (countAddresses(input.to) === 0) addProblem('to', 'needs at least one address');
  const isAllowed = rules.environment === 'test' || rules.allowPrivateNetworks;
  const read = (field: string, value: DraftInput['cc'], mayBeReserved = isAllowed): Mailbox[] =>
    nameAddresses(field, value).flatMap(([name, text]) => {
      const mailbox = readMailbox(name, text, addProblem);
      if (mailbox && !mayBeReserved) refuseReserved(name, mailbox, addProblem);
      return mailbox ?? [];
    });
  return {
    to: read('to', input.to),
    cc: read('cc', input.cc),
    bcc: read('bcc', input.bcc),
    replyTo: read('reply_to', input.reply_to, true),
  };
}

/** Reserved domains have no owner and return mail (RFC 2606, RFC 6761). */
export function refuseReserved(field: string, { address }: Mailbox, addProblem: AddProblem): void {
  const domain = domainOf(address);
  if (!isReservedDomain(domain)) return;
  addProblem(field, `${domain} is a reserved domain that receives no mail; use a test key for it`);
}

function countAddresses(value: DraftInput['cc']): number {
  return typeof value === 'string' ? 1 : (value?.length ?? 0);
}

/** Pairs each address with its field name: `to` for a single address, `to[2]` in a list. */
function nameAddresses(field: string, value: DraftInput['cc']): [string, string][] {
  if (typeof value === 'string') return [[field, value]];
  return (value ?? []).map((text, index) => [`${field}[${index}]`, text]);
}

const CONTROL_CHARACTER = /[\u0000-\u001f\u007f-\u009f]/;

function readSubject(subject: string, addProblem: AddProblem): string {
  if (subject === '') addProblem('subject', 'is empty; give the email a subject');
  if (isLongerThan(SUBJECT_MAX, subject)) {
    addProblem('subject', `is longer than ${SUBJECT_MAX} characters`);
  }
  if (CONTROL_CHARACTER.test(subject))
    addProblem('subject', 'has control characters; remove line breaks');
  return subject;
}

/** Counts code points, so that an emoji is one character. */
function isLongerThan(max: number, text: string): boolean {
  return text.length > 2 * max || (text.length > max && [...text].length > max);
}

function readHeaders(input: DraftInput, addProblem: AddProblem): Email['headers'] {
  const headers = Object.entries(input.headers ?? {});
  if (headers.length > HEADERS_MAX) addProblem('headers', `has more than ${HEADERS_MAX} headers`);
  const seen = new Set<string>();
  for (const [name, value] of headers.slice(0, HEADERS_MAX)) {
    const isTwice = seen.has(name.toLowerCase());
    seen.add(name.toLowerCase());
    const problem = checkCustomHeader(name, value) ?? clashWithUnsubscribe(name, input);
    if (problem) addProblem(`headers.${printableName(name)}`, problem);
    else if (isTwice)
      addProblem(
        `headers.${printableName(name)}`,
        'appears twice; upper and lower case are the same name',
      );
  }
  return headers;
}

function clashWithUnsubscribe(name: string, { unsubscribe }: DraftInput): string | null {
  const clashes = Boolean(unsubscribe) && /^list-unsubscribe(-post)?$/i.test(name);
  return clashes ? 'is set by the field unsubscribe; use one of them' : null;
}

export function readTags(tags: readonly Tag[], addProblem: AddProblem): readonly Tag[] {
  if (tags.length > TAGS_MAX) addProblem('tags', `has more than ${TAGS_MAX} tags`);
  for (const [index, tag] of tags.slice(0, TAGS_MAX).entries()) {
    for (const part of ['name', 'value'] as const) {
      if (TAG_PATTERN.test(tag[part])) continue;
      addProblem(`tags[${index}].${part}`, 'must be 1-256 of A-Z, a-z, 0-9, underscore and hyphen');
    }
  }
  return tags;
}

function readMetadata(
  metadata: Readonly<Record<string, string>>,
  { isOwnMail = false }: Pick<DraftRules, 'isOwnMail'>,
  addProblem: AddProblem,
): Email['metadata'] {
  const entries = Object.entries(metadata);
  if (entries.length > TAGS_MAX) addProblem('metadata', `has more than ${TAGS_MAX} members`);
  for (const [name, value] of entries.slice(0, TAGS_MAX)) {
    const field = `metadata.${printableName(name)}`;
    if (name === '' || name.length > METADATA_NAME_MAX) {
      addProblem(field, `must have a name of 1-${METADATA_NAME_MAX} characters`);
    }
    if (!isOwnMail && RESERVED_METADATA.test(name)) {
      addProblem(
        field,
        'has a name that is reserved for the service; do not begin it with letterhaus_',
      );
    }
    if (value.length > METADATA_VALUE_MAX) {
      addProblem(field, `is longer than ${METADATA_VALUE_MAX} characters`);
    }
  }
  return metadata;
}

export function readExpiry(
  seconds: DraftInput['expires_in'],
  addProblem: AddProblem,
): number | null {
  if (seconds === null || seconds === undefined) return null;
  const { min, max } = EXPIRES_IN_S;
  if (Number.isInteger(seconds) && seconds >= min && seconds <= max) return seconds;
  addProblem('expires_in', `must be whole seconds, ${min} to ${max} (5 days)`);
  return null;
}

/** ISO 8601 as in RFC 3339. A time without an offset is refused, because its meaning depends on the time zone. */
const TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;
/** JSON writes later years with six digits, which PostgreSQL does not read. */
const TIME_MAX_MS = Date.UTC(9999, 11, 31);

/**
 * Parses a time without judging it. The database's clock decides whether it has come or is too far ahead
 * (accept/store/decision.ts).
 */
export function readScheduledAt(
  field: string,
  text: DraftInput['scheduled_at'],
  addProblem: AddProblem,
): Date | null {
  if (text === null || text === undefined) return null;
  const [, year, month, day] = TIME.exec(text) ?? [];
  const timeMs = year === undefined ? Number.NaN : Date.parse(text);
  // Date.parse reads 30 February as 2 March.
  const isDay =
    new Date(Date.UTC(Number(year), Number(month) - 1, Number(day))).getUTCDate() === Number(day);
  if (!Number.isNaN(timeMs) && isDay) {
    return new Date(Math.min(Math.max(timeMs, 0), TIME_MAX_MS));
  }
  addProblem(field, 'must be a time in ISO 8601 with its offset, like 2027-01-31T09:00:00+01:00');
  return null;
}

const NO_PUBLIC_URL =
  'needs LETTERHAUS_PUBLIC_URL, the https address at which recipients reach this service ' +
  `(${PUBLIC_URL_MAX_LENGTH} characters at most); set it, or give an https URL of yours`;

/**
 * Reads the List-Unsubscribe URL (RFC 8058): the client's https URL, or for `true` a page of this service
 * (mail/links/unsubscribe-link.ts).
 */
function readUnsubscribe(
  { unsubscribe }: DraftInput,
  { pagesUrl = null, receivesMail = false }: Pick<DraftRules, 'pagesUrl' | 'receivesMail'>,
  addProblem: AddProblem,
): string | null {
  if (unsubscribe === true) {
    if (pagesUrl !== null) return formatHostedLink(pagesUrl, { byMail: receivesMail });
    addProblem('unsubscribe', NO_PUBLIC_URL);
  }
  if (typeof unsubscribe !== 'string') return null;
  const url = URL.parse(unsubscribe);
  const isPlain = /^https:\/\/[!-~]+$/i.test(unsubscribe) && !/[<>"]/.test(unsubscribe);
  if (
    isPlain &&
    url?.protocol === 'https:' &&
    !url.username &&
    unsubscribe.length <= URL_MAX_LENGTH
  ) {
    return unsubscribe;
  }
  addProblem(
    'unsubscribe',
    `must be an https URL of at most ${URL_MAX_LENGTH} characters, %-escaped`,
  );
  return null;
}

/** The domain's setting does not track an email without such html either. */
function readTracking(
  { tracking, html }: DraftInput,
  { trackingUrl = null }: Pick<DraftRules, 'trackingUrl'>,
  addProblem: AddProblem,
): Tracking {
  const isTrackable = Boolean(html) && html!.length <= TRACKED_HTML_MAX_LENGTH;
  const { opens = null, clicks = null } = tracking ?? {};
  for (const [name, isAsked] of Object.entries({ opens, clicks })) {
    if (isAsked && trackingUrl === null) addProblem(`tracking.${name}`, NO_TRACKING_URL);
    else if (isAsked && !isTrackable) {
      const max = `${TRACKED_HTML_MAX_LENGTH / 1024} K`;
      addProblem(`tracking.${name}`, `needs html, of at most ${max} characters`);
    }
  }
  return { opens, clicks, base: isTrackable ? trackingUrl : null };
}

function readAttachments(
  attachments: readonly AttachmentInput[],
  addProblem: AddProblem,
): Attachment[] {
  if (attachments.length > ATTACHMENTS_MAX) {
    addProblem('attachments', `has more than ${ATTACHMENTS_MAX} attachments`);
    return [];
  }
  return attachments.map((attachment, index) => {
    const field = `attachments[${index}]`;
    const type = readType(`${field}.content_type`, attachment, addProblem);
    const content = readContent(field, attachment, addProblem);
    return {
      filename: readFilename(`${field}.filename`, attachment.filename, addProblem),
      contentType: withCharset(type, content),
      contentId: readContentId(`${field}.content_id`, attachment.content_id, addProblem),
      content,
    };
  });
}

function readFilename(field: string, filename: string, addProblem: AddProblem): string {
  const bytes = Buffer.byteLength(filename);
  if (bytes === 0 || bytes > FILENAME_MAX_BYTES) {
    addProblem(field, `must have 1-${FILENAME_MAX_BYTES} bytes`);
  }
  if (CONTROL_CHARACTER.test(filename)) addProblem(field, 'has control characters');
  return filename;
}

function readType(
  field: string,
  { content_type: type, filename }: AttachmentInput,
  addProblem: AddProblem,
): string {
  if (type === null || type === undefined) return typeByName(filename);
  if (!isMediaType(type)) addProblem(field, 'is not a media type, like application/pdf');
  return type;
}

function readContentId(
  field: string,
  value: string | null | undefined,
  addProblem: AddProblem,
): string | null {
  if (value === null || value === undefined) return null;
  const contentId = value.replace(/^<(.*)>$/, '$1');
  if (!isContentId(contentId)) {
    addProblem(field, 'must be 1-200 printable ASCII characters without spaces and brackets');
  }
  return contentId;
}

function readContent(field: string, { content }: AttachmentInput, addProblem: AddProblem): string {
  if (typeof content !== 'string') {
    addProblem(`${field}.content`, 'is required, unless there is a path');
    return '';
  }
  const base64 = canonicalBase64(content);
  if (base64 === null) addProblem(`${field}.content`, 'is not base64');
  return base64 ?? '';
}

/** Returns canonical base64, or null for other text. Most clients send it canonical, which needs no decoding. */
function canonicalBase64(text: string): string | null {
  if (text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    const last = text.slice(-4);
    // The last digit may set bits that belong to no octet; decoders ignore them.
    if (Buffer.from(last, 'base64').toString('base64') === last) return text;
  }
  const bytes = decodeBase64(text) ?? decodeBase64(text.replace(/\s+/g, ''));
  return bytes === null ? null : bytes.toString('base64');
}

/** Decodes base64. Node skips invalid characters, so the byte count reveals them. */
function decodeBase64(text: string): Buffer | null {
  const bytes = Buffer.from(text, 'base64');
  const digits = text.length - (/={1,2}$/.exec(text)?.[0].length ?? 0);
  return bytes.length === Math.floor((digits * 3) / 4) && digits % 4 !== 1 ? bytes : null;
}
