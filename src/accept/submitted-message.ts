/**
 * Turns a message submitted by SMTP into the draft that HTTP makes of JSON. Checks the message, parses it for display,
 * and reads options from its header. Keeps the rest of its content unchanged (RFC 6409 §8). Reports all problems at
 * once.
 *
 * Guarantee: the octets that are checked are the octets that are signed and sent. A header that this file reads only in
 * part, or that receivers may read differently, is refused. From is read again from the octets to be sent.
 */
import { isUtf8 } from 'node:buffer';
import { hash } from 'node:crypto';
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { fingerprintOf, isIdempotencyKey } from './fingerprint.ts';
import {
  type Address,
  addressKey,
  domainOf,
  explainAddress,
  type Mailbox,
  parseAddress,
} from '../mail/address.ts';
import {
  addressInAnyForm,
  unambiguousAddress,
  authorOf,
  readAddressList,
  readHeaderMailbox,
} from '../mail/address-fields.ts';
import {
  HOPS_MAX,
  splitRawMessage,
  buildRawMessage,
  type SubmissionTrace,
} from '../mail/mime/raw-message.ts';
import { feedbackIdOf, messageIdOf } from '../mail/compose.ts';
import type { DsnRequest } from '../mail/dsn-parameters.ts';
import { type Email, EMAIL_DEFAULTS, type Tag, type RawMessage } from '../mail/email.ts';
import { addressField, dateText, headerField, type HeaderField } from '../mail/mime/header.ts';
import { mayHaveHtml } from '../mail/html/tracked-message.ts';
import { NOT_TRACKED, type Tracking } from '../mail/links/tracking-link.ts';
import {
  decodedFieldValue,
  type Header,
  partsWithin,
  readHeader,
  readMessage,
  VALUE_CHARS_MAX,
  fieldValue,
  fieldValues,
} from '../mail/mime/reader.ts';
import {
  type AddProblem,
  type DraftRecipient,
  type DraftRules,
  type EmailDraft,
  readExpiry,
  readScheduledAt,
  readTags,
  refuseReserved,
  SUBJECT_MAX,
} from './draft.ts';

export type Submission = {
  draft: EmailDraft;
  idempotency: { key: string; fingerprint: string } | null;
};

export type SubmittedMessage = {
  projectId: string;
  feedbackKey: Buffer;
  /** CRLF line ends. */
  content: Buffer;
  longestLine: number;
  trackingUrl?: string | null;
  /** The envelope's recipients, independent of the header. */
  recipients: readonly Address[];
  dsn?: DsnRequest | undefined;
  trace: SubmissionTrace;
};

/**
 * Limit of one message (RFC 5321 §4.5.3.1.8). A request by HTTP has a lower one
 * (docs/decisions/0039-envelopes-and-notices.md).
 */
export const ENVELOPE_RECIPIENTS_MAX = 100;
/** Limit on a line (RFC 5322 §2.1.1): some servers cut or refuse longer lines. */
const LINE_OCTETS_MAX = 998;
/** Receivers accept headers up to 256 KB, most of them less. */
const HEADER_BYTES_MAX = 256 * 1024;
/** Lower than the number of fields that the reader reads, so fields that servers add in front are signed too. */
const FIELDS_MAX = 1_000;
/** Limit on the whole From field, with its folds. One line has at most 998 octets. */
const FROM_OCTETS_MAX = 1_000;
/** Reserved for signatures and one more trace field. */
const ADDED_BYTES = 5_000;

/** An envelope recipient has neither name nor comments (RFC 5321 §4.1.2). */
export function readSubmittedRecipient(
  text: string,
  rules: DraftRules,
): { address: Address } | Refusal {
  const problems: FieldProblem[] = [];
  const addProblem: AddProblem = (name, message) => void problems.push({ field: name, message });
  const address = parseAddress(text);
  if (address === null) addProblem('', explainAddress(text));
  else if (rules.environment === 'live' && !rules.allowPrivateNetworks) {
    refuseReserved('', { name: null, address }, addProblem);
  }
  return address === null || problems.length > 0 ? refuseFields(problems) : { address };
}

export function readSubmission(message: SubmittedMessage): Submission | Refusal {
  const { content } = message;
  const problems: FieldProblem[] = [];
  const addProblem: AddProblem = (name, what) => void problems.push({ field: name, message: what });
  const header = readHeader(content);
  refuseUnsendable(message, header, addProblem);
  refuseAmbiguousFields(content, header, addProblem);
  refuseRepeatedFields(header, addProblem);
  const from = readFrom(header, addProblem);
  if (from !== null) refuseOtherSenders(header, domainOf(from.address), addProblem);
  const options = readOptions(header, addProblem);
  if (problems.length > 0 || from === null) return refuseFields(problems);

  const { bcc, ...displayFields } = displayFieldsOf(message, header);
  const { tags, scheduledAt, expiresInS, key } = options;
  const sender = rewriteSender(header);
  const rawMessage = buildWithAuthor(from, (replacements) =>
    buildSubmitted(message, {
      header,
      from,
      tags,
      scheduledAt,
      replacements: [...replacements, ...sender],
    }),
  );
  if (rawMessage === null) return refuseFields([{ field: 'From', message: AMBIGUOUS_AUTHOR }]);
  const draft: EmailDraft = {
    email: {
      ...EMAIL_DEFAULTS,
      text: '',
      from,
      ...displayFields,
      tags,
      tracking: trackingFor(message),
      submitted: rawMessage,
      ...(message.dsn && { dsn: message.dsn }),
    },
    bcc,
    recipients: recipientsOf(message, displayFields),
    emailId: message.trace.emailId,
    scheduledAt,
    expiresInS,
    sizeBytes: rawMessage.raw.length + ADDED_BYTES,
  };
  if (key === null) return { draft, idempotency: null };
  const fingerprint = fingerprintOfMessage(content, message.recipients);
  return { draft, idempotency: { key, fingerprint } };
}

/** A message with html is tracked as its domain's setting says. SMTP has no option for it. */
function trackingFor({ content, trackingUrl = null }: SubmittedMessage): Tracking {
  const base = trackingUrl !== null && mayHaveHtml(content) ? trackingUrl : null;
  return { ...NOT_TRACKED, base };
}

/**
 * Builds the message to send, with the checked author. Rewrites a valid From that receivers may read as another
 * address, such as one with a comment in the address. Returns null when From names another author.
 */
function buildWithAuthor(
  { name, address }: Mailbox,
  build: (replacements: readonly HeaderField[]) => RawMessage,
): RawMessage | null {
  const rawMessage = build([]);
  const { headers } = splitRawMessage(rawMessage.raw);
  if (authorOf(headers) === address) return rawMessage;
  if (authorOf(headers, addressInAnyForm) !== address) return null;
  return build([addressField('From', [{ name, address }])]);
}

const AMBIGUOUS_AUTHOR = 'can be read in more than one way; write it as Name <name@example.com>';

function refuseUnsendable(
  { content, longestLine }: SubmittedMessage,
  { fields, bodyStart, isCut }: Header,
  addProblem: AddProblem,
): void {
  if (longestLine > LINE_OCTETS_MAX) {
    addProblem(
      '',
      `A line of the message has ${longestLine} octets, and mail carries ${LINE_OCTETS_MAX}; ` +
        'let your mail library encode the text as quoted-printable or base64.',
    );
  }
  if (content.includes(0)) {
    addProblem(
      '',
      'The message has a NUL octet in it, which mail cannot carry; encode it as base64.',
    );
  }
  if (isCut || fields.length > FIELDS_MAX || bodyStart > HEADER_BYTES_MAX) {
    addProblem('', 'The header has more than 256 KB or 1,000 fields; make it shorter.');
  }
  if (fieldValues(fields, 'received').length > HOPS_MAX) {
    addProblem('', `The message passed more than ${HOPS_MAX} servers; it is in a mail loop.`);
  }
  if (fields.some(({ name }) => name === '')) {
    addProblem('', 'The header has a line that is no field; an empty line ends the header.');
  }
  if (!isUtf8(content.subarray(0, bodyStart))) {
    addProblem('', 'The header has text that is not UTF-8; encode it (RFC 2047).');
  }
}

const COLON = 0x3a;

/** Refuses obsolete syntax (RFC 5322 §4), which receivers read differently or not at all. */
function refuseAmbiguousFields(
  content: Buffer,
  { fields, bodyStart }: Header,
  addProblem: AddProblem,
): void {
  for (const { name, start, end } of fields) {
    if (name === '') continue;
    // The reader reads only the beginning of a longer field.
    if (end - start > VALUE_CHARS_MAX) addProblem(name, 'is longer than 64 KB');
    if (content[start + name.length] !== COLON)
      addProblem(name, 'has white space before its colon');
  }
  if (/\n[ \t]+\r\n/.test(content.toString('latin1', 0, bodyStart))) {
    addProblem(
      '',
      'The header has a line of white space only, which some servers read as its end.',
    );
  }
}

/** Fields that may occur once (RFC 5322 §3.6). Receivers refuse a second one, or show one that is not signed. */
const SINGLE_FIELDS = new Set(
  'from sender reply-to to cc message-id in-reply-to references subject date mime-version content-type content-transfer-encoding x-letterhaus-scheduled-at'.split(
    ' ',
  ),
);

function refuseRepeatedFields({ fields }: Header, addProblem: AddProblem): void {
  const seen = new Set<string>();
  for (const { name } of fields) {
    const key = name.toLowerCase();
    if (seen.has(key)) addProblem(name, 'appears twice in the header; it may appear once');
    if (SINGLE_FIELDS.has(key)) seen.add(key);
  }
}

function readFrom({ fields }: Header, addProblem: AddProblem): Mailbox | null {
  const found = fields.find(({ name }) => name.toLowerCase() === 'from');
  if (found === undefined) {
    addProblem('From', 'is missing; add the sender of the message');
    return null;
  }
  const { value, start, end } = found;
  if (end - start > FROM_OCTETS_MAX) {
    addProblem('From', `has more than ${FROM_OCTETS_MAX} octets; make the name shorter`);
    return null;
  }
  const from = readHeaderMailbox(value);
  if (from !== null) return from;
  const isList = readAddressList(value).length > 1;
  addProblem('From', isList ? 'has several addresses; it may have one' : explainAddress(value));
  return null;
}

/**
 * Refuses fields that name another author. Some mail programs show the Sender beside From, and some show the Resent
 * fields as the author. The key is checked against From only.
 */
function refuseOtherSenders({ fields }: Header, domain: string, addProblem: AddProblem): void {
  for (const { name, value } of fields) {
    if (/^resent-/i.test(name)) {
      addProblem(name, 'marks a message that a person resends; send a new message instead');
    }
    if (name.toLowerCase() !== 'sender') continue;
    const sender =
      unambiguousAddress(value) ?? (readHeaderMailbox(value) && addressInAnyForm(value));
    if (sender === null || domainOf(sender) !== domain) {
      addProblem(name, `may have one address, of the domain of From (${domain}); leave it out`);
    }
  }
}

/** Rewrites a Sender that receivers may read as another address, like From. */
function rewriteSender({ fields }: Header): HeaderField[] {
  const value = fieldValue(fields, 'sender');
  const sender =
    value === undefined || unambiguousAddress(value) !== null ? null : readHeaderMailbox(value);
  return sender === null ? [] : [addressField('Sender', [sender])];
}

type SubmissionOptions = {
  tags: readonly Tag[];
  scheduledAt: Date | null;
  expiresInS: number | null;
  key: string | null;
};

const OPTION_NAMES = new Set(['idempotency-key', 'tags', 'scheduled-at', 'expires-in']);
const OPTION_PREFIX = 'x-letterhaus-';

function readOptions({ fields }: Header, addProblem: AddProblem): SubmissionOptions {
  for (const { name } of fields) {
    const key = name.toLowerCase();
    if (!key.startsWith(OPTION_PREFIX) || OPTION_NAMES.has(key.slice(OPTION_PREFIX.length)))
      continue;
    addProblem(
      name,
      `is unknown; the known ones are ${[...OPTION_NAMES].map((one) => OPTION_PREFIX + one).join(', ')}`,
    );
  }
  const key =
    fieldValue(fields, 'x-letterhaus-idempotency-key') ??
    fieldValue(fields, 'resend-idempotency-key');
  if (key !== undefined && !isIdempotencyKey(key)) {
    addProblem('X-Letterhaus-Idempotency-Key', 'must be 1-256 printable ASCII characters');
  }
  return {
    tags: readTagList(fieldValues(fields, 'x-letterhaus-tags').join(','), addProblem),
    scheduledAt: readScheduledAt(
      'X-Letterhaus-Scheduled-At',
      fieldValue(fields, 'x-letterhaus-scheduled-at'),
      addProblem,
    ),
    expiresInS: readSeconds(fieldValue(fields, 'x-letterhaus-expires-in'), addProblem),
    key: key ?? null,
  };
}

/** `name=value, name=value` */
function readTagList(text: string, addProblem: AddProblem): readonly Tag[] {
  const items = text.split(',').map((item) => item.trim());
  const tags = items
    .filter((item) => item !== '')
    .map((item): Tag => {
      const [name = '', ...value] = item.split('=');
      return { name: name.trim(), value: value.join('=').trim() };
    });
  return readTags(tags, (_field, message) => addProblem('X-Letterhaus-Tags', message));
}

function readSeconds(text: string | undefined, addProblem: AddProblem): number | null {
  if (text === undefined) return null;
  const seconds = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  return readExpiry(seconds, (_field, message) => addProblem('X-Letterhaus-Expires-In', message));
}

type DisplayFields = Pick<Email, 'to' | 'cc' | 'replyTo' | 'subject'>;

/** Reads the fields for display. RCPT determines the recipients, not To and Cc. */
function displayFieldsOf(
  { recipients }: SubmittedMessage,
  { fields }: Header,
): DisplayFields & { bcc: Mailbox[] } {
  const listOf = (name: string) => readAddressList(fieldValues(fields, name).join(','));
  const [to, cc] = [listOf('to'), listOf('cc')];
  const named = new Set([...to, ...cc].map(({ address }) => addressKey(address)));
  const subject = decodedFieldValue(fields, 'subject') ?? '';
  const mailed = new Set(recipients.map(addressKey));
  return {
    to: cutList(to, mailed),
    cc: cutList(cc, mailed),
    bcc: recipients
      .filter((address) => !named.has(addressKey(address)))
      .map((address) => ({ name: null, address })),
    replyTo: listOf('reply-to').slice(0, ENVELOPE_RECIPIENTS_MAX),
    subject: subject
      .replace(/[\0-\x1f\x7f-\x9f]+/g, ' ')
      .slice(0, SUBJECT_MAX)
      .toWellFormed(),
  };
}

/** Cuts a long list, because each event repeats it. Recipients of the message come first, then other addresses. */
function cutList(list: readonly Mailbox[], mailed: ReadonlySet<string>): readonly Mailbox[] {
  if (list.length <= ENVELOPE_RECIPIENTS_MAX) return list;
  const isMailed = ({ address }: Mailbox) => mailed.has(addressKey(address));
  const others = list.filter((mailbox) => !isMailed(mailbox));
  return [...list.filter(isMailed), ...others].slice(0, ENVELOPE_RECIPIENTS_MAX);
}

function buildSubmitted(
  { projectId, feedbackKey, content, trace }: SubmittedMessage,
  {
    header,
    from,
    tags,
    scheduledAt,
    replacements,
  }: Pick<SubmissionOptions, 'tags' | 'scheduledAt'> & {
    header: Header;
    from: Mailbox;
    replacements: readonly HeaderField[];
  },
): RawMessage {
  const fromDomain = domainOf(from.address);
  const own = MESSAGE_ID.exec(fieldValue(header.fields, 'message-id') ?? '')?.[0];
  const messageId = own ?? messageIdOf(trace.emailId, fromDomain);
  const has = (name: string) => fieldValue(header.fields, name) !== undefined;
  const at = scheduledAt !== null && scheduledAt > trace.at ? scheduledAt : trace.at;
  const missingFields = [
    ...(has('date') ? [] : [headerField('Date', [dateText(at)])]),
    ...(has('message-id') ? [] : [headerField('Message-ID', [messageId])]),
    ...(has('feedback-id')
      ? []
      : [headerField('Feedback-ID', [feedbackIdOf({ tags, projectId, fromDomain }, feedbackKey)])]),
  ];
  return {
    raw: buildRawMessage(content, { header, trace, missingFields, replacements }),
    messageId,
  };
}

const MESSAGE_ID = /<[^<>\s]{1,900}>/;

function recipientsOf(
  { recipients }: SubmittedMessage,
  { to, cc }: Pick<DisplayFields, 'to' | 'cc'>,
): DraftRecipient[] {
  const inTo = new Set(to.map(({ address }) => addressKey(address)));
  const inCc = new Set(cc.map(({ address }) => addressKey(address)));
  return recipients.map((address) => {
    const key = addressKey(address);
    return { kind: inTo.has(key) ? 'to' : inCc.has(key) ? 'cc' : 'bcc', address };
  });
}

/** Fields that differ in each repetition, or that are not content. */
const NOT_FINGERPRINTED =
  /^(?:date|message-id|received|received-spf|return-path|authentication-results|arc-.*|dkim-signature|mime-version|content-.*|x-mailer|user-agent|x-letterhaus-idempotency-key|resend-idempotency-key)$/i;

/**
 * Returns the same hex fingerprint for repetitions of a message. A program that repeats a message has its mail
 * library build it again, with another Date, Message-ID and boundaries. The other fields and the decoded parts stay
 * the same.
 */
function fingerprintOfMessage(content: Buffer, recipients: readonly string[]): string {
  const message = readMessage(content);
  const fields = message.fields
    .filter(({ name }) => !NOT_FINGERPRINTED.test(name))
    .map(({ name, value }) => [name.toLowerCase(), value]);
  const parts = [...partsWithin(message)]
    .filter(({ contentType }) => !contentType.type.startsWith('multipart/'))
    .map(({ contentType, body }) => [contentType.type, hash('sha256', body, 'hex')]);
  return fingerprintOf('SMTP', { recipients: recipients.toSorted(), fields, parts });
}
