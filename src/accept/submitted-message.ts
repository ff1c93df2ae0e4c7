/**
 * Turns a message submitted by SMTP into the draft that HTTP makes of JSON. `content/submitted-header.ts` checks its
 * header. This file parses the header for display, and reads options from it. It keeps the rest of the content
 * unchanged (RFC 6409 §8), and reports all problems at once.
 *
 * Guarantee: the octets that are checked are the octets that are signed and sent. From is read again from the octets to
 * be sent.
 */
import { type FieldProblem, type Refusal, refuseFields } from '../core/refusals.ts';
import { addressOfSender, readAuthor } from './content/submitted-header.ts';
import { fingerprintOfMessage, isIdempotencyKey } from './fingerprint.ts';
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
  readHeader,
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
  const from = readAuthor(message, header, addProblem);
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
      submitted: { ...rawMessage, ...shownSender(header) },
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

/** Rewrites a Sender that receivers may read as another address, like From. */
function rewriteSender({ fields }: Header): HeaderField[] {
  const value = fieldValue(fields, 'sender');
  const sender =
    value === undefined || unambiguousAddress(value) !== null ? null : readHeaderMailbox(value);
  return sender === null ? [] : [addressField('Sender', [sender])];
}

/** Returns the Sender, which the header's check has found to be one address. */
function shownSender({ fields }: Header): Pick<RawMessage, 'sender'> {
  const value = fieldValue(fields, 'sender');
  const sender = value === undefined ? null : addressOfSender(value);
  return sender === null ? {} : { sender };
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
