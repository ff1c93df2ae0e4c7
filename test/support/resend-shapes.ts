/**
 * Answers and events in Resend's wire format, as schemas whose results have the types of the official client for
 * Node. The compiler compares each schema with the type of the client, so a new version of the client shows what is
 * missing. Tests compare the schema with the wire.
 */
import type { Resend } from 'resend';
import { z } from 'zod';

type Method = (...args: never[]) => PromiseLike<{ data: unknown }>;
/** The type of a successful result of a method of the client. */
type Data<Call extends Method> = z.ZodType<NonNullable<Awaited<ReturnType<Call>>['data']>>;

const id = z.guid();
const time = z.iso.datetime({ precision: 3 });
const texts = z.array(z.string());
const count = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);
const text = z.string();

/** An object of Resend with only an id. */
const one = <Name extends string>(object: Name) => z.object({ object: z.literal(object), id });
const gone = <Name extends string>(object: Name) =>
  one(object).extend({ deleted: z.literal(true) });
const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({ object: z.literal('list'), has_more: z.boolean(), data: z.array(item) });

const LAST_EVENTS = [
  'bounced',
  'canceled',
  'clicked',
  'complained',
  'delivered',
  'delivery_delayed',
  'failed',
  'opened',
  'queued',
  'scheduled',
  'sent',
  'suppressed',
] as const;

const listedEmail = z.object({
  id,
  message_id: text,
  to: texts,
  from: text,
  created_at: time,
  subject: text,
  bcc: texts,
  cc: texts,
  reply_to: texts,
  last_event: z.enum(LAST_EVENTS),
  scheduled_at: time.nullable(),
});

const email = listedEmail.extend({
  object: z.literal('email'),
  html: text.nullable(),
  text: text.nullable(),
  tags: z.array(z.object({ name: text, value: text })),
});

const recordStatus = z.enum(['pending', 'verified', 'failed', 'temporary_failure', 'not_started']);
const record = z.union([
  z.object({
    record: z.literal('SPF'),
    name: text,
    value: text,
    type: z.enum(['MX', 'TXT']),
    ttl: text,
    status: recordStatus,
  }),
  z.object({
    record: z.literal('DKIM'),
    name: text,
    value: text,
    type: z.enum(['TXT', 'CNAME']),
    ttl: text,
    status: recordStatus,
  }),
]);

const listedDomain = z.object({
  id,
  name: text,
  status: z.enum(['pending', 'verified', 'failed', 'not_started', 'partially_failed']),
  created_at: time,
  region: z.literal('us-east-1'),
  capabilities: z.object({ sending: z.literal('enabled'), receiving: z.literal('disabled') }),
  open_tracking: z.boolean(),
  click_tracking: z.boolean(),
});

const domain = listedDomain.extend({ records: z.array(record) });

const suppression = z.object({
  id,
  email: text,
  origin: z.enum(['bounce', 'complaint', 'manual']),
  source_id: id.nullable(),
  created_at: time,
});

const listedTemplate = z.object({
  id,
  name: text,
  status: z.enum(['draft', 'published']),
  published_at: time.nullable(),
  created_at: time,
  updated_at: time,
  alias: text.nullable(),
});

const template = listedTemplate.extend({
  object: z.literal('template'),
  subject: text.nullable(),
  html: text,
  text: text.nullable(),
  from: z.null(),
  reply_to: z.null(),
  has_unpublished_versions: z.boolean(),
  current_version_id: id,
  variables: z.array(
    z.object({
      key: text,
      fallback_value: z.union([text, z.number()]).nullable(),
      type: z.enum(['string', 'number']),
      created_at: time,
      updated_at: time,
    }),
  ),
});

const log = z.object({
  id,
  created_at: time,
  endpoint: text,
  method: text,
  response_status: count,
  user_agent: text.nullable(),
});

const period = z.object({
  used: count,
  limit: count,
  sent: count,
  received: count,
  resets_at: time,
});
const used = z.object({ used: count, limit: count });
const unlimited = z.object({ used: count, limit: z.null() });

const TYPES = [
  'email.sent',
  'email.scheduled',
  'email.delivered',
  'email.delivery_delayed',
  'email.complained',
  'email.bounced',
  'email.opened',
  'email.clicked',
  'email.failed',
  'email.suppressed',
  'domain.created',
  'domain.updated',
  'domain.deleted',
  'suppression.added',
  'suppression.removed',
] as const;

const webhook = z.object({
  id,
  endpoint: z.url(),
  created_at: time,
  status: z.enum(['enabled', 'disabled']),
  events: z.array(z.enum(TYPES)),
});

const webhookEvent = z.object({
  id: text,
  type: z.enum(TYPES),
  created_at: time,
  status: z.enum(['success', 'pending', 'failed', 'attempting']),
});

/** The data of an event about an email. */
const aboutEmail = z.object({
  created_at: time,
  email_id: id,
  message_id: text,
  from: text,
  to: texts.min(1),
  subject: text,
  tags: z.record(text, text),
});
const click = z.object({ ipAddress: text, link: z.url(), timestamp: time, userAgent: text });
const suppressed = z.object({ message: text, type: text });
const event = <Type extends string, Of extends z.ZodType>(type: Type, data: Of) =>
  z.object({ type: z.literal(type), created_at: time, data });

/** The bodies of webhooks by type. */
export const EVENTS = {
  'email.sent': event('email.sent', aboutEmail),
  'email.scheduled': event('email.scheduled', aboutEmail),
  'email.delivered': event('email.delivered', aboutEmail),
  'email.delivery_delayed': event('email.delivery_delayed', aboutEmail),
  'email.complained': event('email.complained', aboutEmail),
  'email.bounced': event(
    'email.bounced',
    aboutEmail.extend({ bounce: z.object({ message: text, subType: text, type: text }) }),
  ),
  'email.opened': event('email.opened', aboutEmail),
  'email.clicked': event('email.clicked', aboutEmail.extend({ click })),
  'email.failed': event('email.failed', aboutEmail.extend({ failed: z.object({ reason: text }) })),
  'email.suppressed': event('email.suppressed', aboutEmail.extend({ suppressed })),
  'domain.created': event('domain.created', domain),
  'domain.updated': event('domain.updated', domain),
  'domain.deleted': event('domain.deleted', domain),
  'suppression.added': event('suppression.added', suppression),
  'suppression.removed': event('suppression.removed', suppression),
} satisfies { [Type in (typeof TYPES)[number]]: z.ZodType<Extract<ResendEvent, { type: Type }>> };

type ResendEvent = ReturnType<Resend['webhooks']['verify']>;

const anyEvent = z.union(Object.values(EVENTS)) as z.ZodType<ResendEvent>;

/** The responses by method of the client. */
export const ANSWERS = {
  'emails.send': z.object({ id }) satisfies Data<Resend['emails']['send']>,
  'emails.get': email satisfies Data<Resend['emails']['get']>,
  'emails.list': listOf(listedEmail) satisfies Data<Resend['emails']['list']>,
  'emails.update': one('email') satisfies Data<Resend['emails']['update']>,
  'emails.cancel': one('email') satisfies Data<Resend['emails']['cancel']>,
  'emails.share': one('email').extend({ url: z.url() }) satisfies Data<Resend['emails']['share']>,
  'emails.attachments.list': listOf(attachment()) satisfies Data<
    Resend['emails']['attachments']['list']
  >,
  'emails.attachments.get': attachment().extend({ object: z.literal('attachment') }) satisfies Data<
    Resend['emails']['attachments']['get']
  >,
  'emails.metrics': z.object({
    object: z.literal('metrics'),
    start_date: time,
    end_date: time,
    metrics: z.array(metric()),
    dimensions: z.array(z.enum(['period', 'domain', 'email'])),
    granularity: z.enum(['hourly', 'daily', 'weekly', 'monthly']),
    totals: z.partialRecord(metric(), count),
  }) satisfies Data<Resend['emails']['metrics']>,
  'batch.send': z.strictObject({ data: z.array(z.object({ id })) }),
  'domains.create': domain satisfies Data<Resend['domains']['create']>,
  'domains.get': domain.extend({ object: z.literal('domain') }) satisfies Data<
    Resend['domains']['get']
  >,
  'domains.list': listOf(listedDomain) satisfies Data<Resend['domains']['list']>,
  'domains.update': one('domain') satisfies Data<Resend['domains']['update']>,
  'domains.verify': one('domain') satisfies Data<Resend['domains']['verify']>,
  'domains.remove': gone('domain') satisfies Data<Resend['domains']['remove']>,
  'apiKeys.create': z.object({ id, token: text }) satisfies Data<Resend['apiKeys']['create']>,
  'apiKeys.list': listOf(
    z.object({ id, name: text, created_at: time, last_used_at: time.nullable() }),
  ) satisfies Data<Resend['apiKeys']['list']>,
  'apiKeys.update': one('api_key') satisfies Data<Resend['apiKeys']['update']>,
  'apiKeys.remove': gone('api_key') satisfies Data<Resend['apiKeys']['remove']>,
  'webhooks.create': one('webhook').extend({ signing_secret: text }) satisfies Data<
    Resend['webhooks']['create']
  >,
  'webhooks.get': webhook.extend({
    object: z.literal('webhook'),
    signing_secret: text,
  }) satisfies Data<Resend['webhooks']['get']>,
  'webhooks.list': listOf(webhook) satisfies Data<Resend['webhooks']['list']>,
  'webhooks.update': one('webhook') satisfies Data<Resend['webhooks']['update']>,
  'webhooks.remove': gone('webhook') satisfies Data<Resend['webhooks']['remove']>,
  'webhooks.rotateSigningSecret': one('webhook').extend({ signing_secret: text }) satisfies Data<
    Resend['webhooks']['rotateSigningSecret']
  >,
  'webhooks.verify': anyEvent,
  'webhooks.events.list': listOf(webhookEvent) satisfies Data<Resend['webhooks']['events']['list']>,
  'webhooks.events.get': webhookEvent.extend({
    object: z.literal('webhook_event'),
    next_attempt_at: time.nullable(),
    payload: anyEvent,
  }) satisfies Data<Resend['webhooks']['events']['get']>,
  'webhooks.events.attempts.list': listOf(
    z.object({ id: text, http_status_code: count, response: text, sent_at: time }),
  ) satisfies Data<Resend['webhooks']['events']['attempts']['list']>,
  'webhooks.events.replay': one('webhook_event') satisfies Data<
    Resend['webhooks']['events']['replay']
  >,
  'suppressions.add': one('suppression') satisfies Data<Resend['suppressions']['add']>,
  'suppressions.get': suppression.extend({ object: z.literal('suppression') }) satisfies Data<
    Resend['suppressions']['get']
  >,
  'suppressions.list': listOf(suppression) satisfies Data<Resend['suppressions']['list']>,
  'suppressions.remove': gone('suppression') satisfies Data<Resend['suppressions']['remove']>,
  'suppressions.batch.add': z.object({ data: z.array(one('suppression')) }) satisfies Data<
    Resend['suppressions']['batch']['add']
  >,
  'suppressions.batch.remove': z.object({ data: z.array(gone('suppression')) }) satisfies Data<
    Resend['suppressions']['batch']['remove']
  >,
  'templates.create': one('template') satisfies Data<Resend['templates']['create']>,
  'templates.get': template satisfies Data<Resend['templates']['get']>,
  'templates.list': listOf(listedTemplate) satisfies Data<Resend['templates']['list']>,
  'templates.update': one('template') satisfies Data<Resend['templates']['update']>,
  'templates.publish': one('template') satisfies Data<Resend['templates']['publish']>,
  'templates.duplicate': one('template') satisfies Data<Resend['templates']['duplicate']>,
  'templates.remove': gone('template') satisfies Data<Resend['templates']['remove']>,
  'logs.list': listOf(log) satisfies Data<Resend['logs']['list']>,
  'logs.get': log.extend({
    object: z.literal('log'),
    request_body: z.null(),
    response_body: z.null(),
  }) satisfies Data<Resend['logs']['get']>,
  'usage.get': z.object({
    object: z.literal('usage'),
    emails: z.object({ daily: period, monthly: period }),
    contacts: used,
    segments: used,
    broadcasts: unlimited,
    ai_credits: used.extend({ next_increase_at: z.null() }),
    automation_runs: used.extend({ resets_at: time }),
    domains: unlimited,
    rate_limit: z.object({ limit: count, duration: text }),
  }) satisfies Data<Resend['usage']['get']>,
} as const;

function attachment() {
  return z.object({
    id,
    filename: text,
    size: count,
    content_type: text,
    content_disposition: z.enum(['inline', 'attachment']),
    download_url: z.url(),
    expires_at: time,
  });
}

function metric() {
  return z.enum([
    'delivered',
    'complained',
    'suppressed',
    'bounced',
    'bounced_transient',
    'bounced_permanent',
    'bounced_undetermined',
    'opened',
    'clicked',
    'delivery_delayed',
    'failed',
    'sent',
    'unique_opened',
    'unique_clicked',
  ]);
}
