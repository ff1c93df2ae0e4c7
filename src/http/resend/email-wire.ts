/**
 * Emails as Resend's clients write and read them. A request becomes the body of `POST /v1/emails`, whose
 * schema and rules then apply: what no client would send is refused there by name, never dropped.
 *
 * What the clients differ in: bytes as base64, as numbers or as a Buffer that JSON.stringify wrote; the
 * names of attachment fields; `""`, null or an empty list for what is absent (Go, Rust, PHP).
 */
import { type Refusal, refuseFields } from '../../core/refusals.ts';
import { presentEmail, presentSummary } from '../../sending/present.ts';
import type { EmailDetail, EmailSummary } from '../../store/emails.ts';

type Json = Readonly<Record<string, unknown>>;

function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Fields that are absent when they are empty. */
const EMPTY_IS_ABSENT = ['reply_to', 'cc', 'bcc', 'scheduled_at', 'headers'] as const;
/** Go and Rust write these always; with a template they are absent when empty. */
const EMPTY_BESIDE_TEMPLATE = ['subject', 'html', 'text'] as const;

/**
 * The body of `POST /v1/emails` for that of `POST /emails`.
 * @param nowMs for times like "in 5 min"
 */
export function readNewEmail(body: unknown, nowMs: number): unknown {
  if (!isObject(body)) return body;
  const email: Record<string, unknown> = { ...body };
  for (const name of EMPTY_IS_ABSENT) if (isEmpty(email[name])) delete email[name];
  if (email['topic_id'] == null) delete email['topic_id'];
  if (isObject(email['template'])) {
    for (const name of EMPTY_BESIDE_TEMPLATE) if (isEmpty(email[name])) delete email[name];
    email['template'] = withoutNulls(email['template']);
  }
  if (Array.isArray(email['attachments'])) {
    email['attachments'] = email['attachments'].map(readAttachment);
  }
  if (typeof email['scheduled_at'] === 'string') {
    email['scheduled_at'] = readTime(email['scheduled_at'], nowMs);
  }
  return email;
}

const NO_TOPICS: Refusal = refuseFields([
  { field: 'topic_id', message: 'this service has no topics; leave it out' },
]);

/** What Resend has and this service does not; null: nothing of it. */
export function refuseNotOffered(body: unknown): Refusal | null {
  return isObject(body) && body['topic_id'] != null ? NO_TOPICS : null;
}

function isEmpty(value: unknown): boolean {
  return value === '' || (Array.isArray(value) && value.length === 0);
}

function withoutNulls(value: Json): Json {
  return Object.fromEntries(Object.entries(value).filter(([, inner]) => inner !== null));
}

function readAttachment(attachment: unknown): unknown {
  if (!isObject(attachment)) return attachment;
  const { content, contentType, inline_content_id, ...rest } = attachment;
  const read: Record<string, unknown> = {
    ...rest,
    content: readBytes(content),
    content_type: rest['content_type'] ?? contentType,
    content_id: rest['content_id'] ?? inline_content_id,
  };
  for (const name of ['content_type', 'content_id', 'path']) {
    if (read[name] === '') delete read[name];
  }
  if (typeof read['path'] === 'string') {
    if (isEmpty(read['content'])) delete read['content'];
    if (!read['filename']) read['filename'] = lastSegment(read['path']);
  }
  return read;
}

/** Base64 for what is a list of bytes; anything else unchanged. Long lists are strings already. */
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

const UNIT_MS: Readonly<Record<string, number>> = {
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
  w: 604_800_000,
};

const PERIOD =
  /^(\d{1,6}|an?) ?(s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?|h(?:(?:ou)?rs?)?|d(?:ays?)?|w(?:eeks?)?)$/i;

/** "5 min", "24h", "an hour"; null: another text. */
export function readPeriodMs(text: string): number | null {
  const [, count = '', unit = ''] = PERIOD.exec(text.trim()) ?? [];
  if (unit === '') return null;
  const times = /^an?$/i.test(count) ? 1 : Number(count);
  return times * UNIT_MS[unit[0]!.toLowerCase()]!;
}

/** "in 5 min" as a time; the core refuses what else is not ISO 8601. */
export function readTime(text: string, nowMs: number): string {
  const [, period = ''] = /^in (.+)$/i.exec(text.trim()) ?? [];
  const periodMs = readPeriodMs(period);
  return periodMs === null ? text : new Date(nowMs + periodMs).toISOString();
}

/** As `GET /emails` lists it. */
export function presentListed(email: EmailSummary) {
  const { status, ...summary } = presentSummary(email);
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

/** As `GET /emails/:id` shows it. */
export function presentOne(email: EmailDetail) {
  const { html, text } = presentEmail(email);
  const { tags } = email;
  return { object: 'email' as const, ...presentListed(email), html, text, tags, topic_id: null };
}
