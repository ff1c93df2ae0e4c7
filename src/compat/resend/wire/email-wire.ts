/**
 * Emails as Resend's clients write and read them. A request becomes the body of `POST /v1/emails`, whose schema and
 * rules then apply. They refuse unknown fields by name and drop none.
 *
 * The clients differ in the form of bytes (base64, numbers, or a Buffer from JSON.stringify), in the names of
 * attachment fields, and in how they write absent fields: `""`, null or an empty list (Go, Rust, PHP).
 */
import { type Refusal, refuseFields } from '../../../core/refusals.ts';
import { emailToWire, summaryToWire } from '../../../emails/wire.ts';
import { readScheduledAt } from '../../../accept/draft.ts';
import type { EmailDetail, EmailSummary } from '../../../emails/email-store.ts';
import { isObject } from '../../../lib/json.ts';
import { readPhraseMs } from './times.ts';

type Json = Readonly<Record<string, unknown>>;

/** Fields that clients also send empty. Empty ones count as absent. */
const EMPTY_IS_ABSENT = ['reply_to', 'cc', 'bcc', 'scheduled_at', 'headers'] as const;
/** Go and Rust always send these. With a template, empty ones count as absent. */
const EMPTY_BESIDE_TEMPLATE = ['subject', 'html', 'text'] as const;

const NO_TOPICS: Refusal = refuseFields([
  { field: 'topic_id', message: 'this service has no topics; leave it out' },
]);

const UNKNOWN_TIME: Refusal = refuseFields([
  {
    field: 'scheduled_at',
    message:
      'must be a time in ISO 8601 with its offset, like 2027-01-31T09:00:00+01:00, or words like ' +
      '"in 1 hour", "tomorrow at 9am" or "Friday at 3pm ET"',
  },
]);

/**
 * Translates the body of `POST /emails` into the body of `POST /v1/emails`. Refuses features that this service does not
 * have, and times that are ambiguous.
 * @param nowMs reference for times like "in 5 min"
 */
export function readNewEmail(body: unknown, nowMs: number): { body: unknown } | Refusal {
  if (!isObject(body)) return { body };
  if (body['topic_id'] != null) return NO_TOPICS;
  const email: Record<string, unknown> = { ...body };
  for (const name of EMPTY_IS_ABSENT) if (isEmpty(email[name])) delete email[name];
  delete email['topic_id'];
  if (isObject(email['template'])) {
    for (const name of EMPTY_BESIDE_TEMPLATE) if (isEmpty(email[name])) delete email[name];
    email['template'] = withoutNulls(email['template']);
  }
  if (Array.isArray(email['attachments'])) {
    email['attachments'] = email['attachments'].map(readAttachment);
  }
  if (typeof email['scheduled_at'] === 'string') {
    const time = readTime(email['scheduled_at'], nowMs);
    if (typeof time !== 'string') return time;
    email['scheduled_at'] = time;
  }
  return { body: email };
}

function isEmpty(value: unknown): boolean {
  return value === '' || (Array.isArray(value) && value.length === 0);
}

function withoutNulls(value: Json): Json {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}

function readAttachment(attachment: unknown): unknown {
  if (!isObject(attachment)) return attachment;
  const { content, contentType, inline_content_id, ...fields } = attachment;
  const translated: Record<string, unknown> = {
    ...fields,
    content: readBytes(content),
    content_type: fields['content_type'] ?? contentType,
    content_id: fields['content_id'] ?? inline_content_id,
  };
  for (const name of ['content_type', 'content_id', 'path']) {
    if (translated[name] === '') delete translated[name];
  }
  if (typeof translated['path'] === 'string') {
    if (isEmpty(translated['content'])) delete translated['content'];
    if (!translated['filename']) translated['filename'] = lastSegment(translated['path']);
  }
  return translated;
}

/** Converts a list of bytes to base64, and returns anything else unchanged. Long lists are strings already. */
function readBytes(content: unknown): unknown {
  if (isObject(content) && content['type'] === 'Buffer') return readBytes(content['data']);
  if (!Array.isArray(content) || !content.every(isByte)) return content;
  return Buffer.from(content).toString('base64');
}

function isByte(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 0 && Number(value) <= 255;
}

function lastSegment(path: string): string {
  const segment = URL.parse(path)?.pathname.split('/').at(-1) ?? '';
  return segment === '' ? 'attachment' : segment;
}

/** Returns a time of a client as ISO 8601. Words that readPhraseMs understands become their time. */
export function readTime(text: string, nowMs: number): string | Refusal {
  const phraseMs = readPhraseMs(text, nowMs);
  if (phraseMs !== null) return new Date(phraseMs).toISOString();
  const isTime = readScheduledAt('scheduled_at', text, () => {}) !== null;
  return isTime ? text : UNKNOWN_TIME;
}

export function listedEmailToResend(email: EmailSummary) {
  const { status, ...summary } = summaryToWire(email);
  return {
    id: summary.id,
    message_id: summary.message_id,
    to: summary.to,
    from: summary.from,
    created_at: summary.created_at,
    subject: summary.subject,
    bcc: summary.bcc,
    cc: summary.cc,
    reply_to: summary.reply_to,
    last_event: summary.last_event.replace(/^email\./, ''),
    scheduled_at: summary.scheduled_at,
    status,
  };
}

export function emailToResend(email: EmailDetail) {
  const { html, text } = emailToWire(email);
  const { tags } = email;
  return {
    object: 'email' as const,
    ...listedEmailToResend(email),
    html,
    text,
    tags,
    topic_id: null,
  };
}
