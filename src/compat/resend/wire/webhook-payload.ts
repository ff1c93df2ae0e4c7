/**
 * Events in Resend's format, for endpoints that were registered at the root of the API, and the event names of both
 * sides. Pure: each retry has the same payload.
 *
 * Resend's `email.sent` means that an email was accepted, which is `email.queued` here. Our `email.sent` (a relay
 * accepted the email) and `email.canceled` have no counterpart.
 */
import { getDomain } from 'tldts';
import type { EventType, ProjectEventType } from '../../../core/events.ts';
import type { StoredEvent } from '../../../webhooks/delivery-store.ts';
import type { OtherFormats } from '../../../webhooks/sending/signed-request.ts';
import { suppressionId } from '../../../suppressions/suppression-store.ts';

/** Resend's name of each type of a project, in the order of Resend's list. Null: Resend has none. */
const NAMES: Readonly<Record<ProjectEventType, string | null>> = {
  'email.queued': 'email.sent',
  'email.scheduled': 'email.scheduled',
  'email.delivered': 'email.delivered',
  'email.delivery_delayed': 'email.delivery_delayed',
  'email.bounced': 'email.bounced',
  'email.complained': 'email.complained',
  'email.failed': 'email.failed',
  'email.suppressed': 'email.suppressed',
  'email.opened': 'email.opened',
  'email.clicked': 'email.clicked',
  'domain.created': 'domain.created',
  'domain.verified': 'domain.updated',
  'domain.degraded': 'domain.updated',
  'domain.recovered': 'domain.updated',
  'domain.failed': 'domain.updated',
  'domain.deleted': 'domain.deleted',
  'suppression.added': 'suppression.added',
  'suppression.removed': 'suppression.removed',
  'email.sent': null,
  'email.canceled': null,
  'project.reputation_alert': null,
  'webhook.disabled': null,
};

/** Our types by Resend's name. */
const TYPES: ReadonlyMap<string, readonly ProjectEventType[]> = Map.groupBy(
  (Object.keys(NAMES) as ProjectEventType[]).filter((type) => NAMES[type] !== null),
  (type) => NAMES[type]!,
);

const NEVER = /^(contact|topic|inbox|broadcast)\.[a-z._]+$|^email\.received$/;

/** Returns the subscription for a list of Resend's types, or the first type that does not exist. */
export function parseSubscription(types: readonly string[]): EventType[] | string {
  const unknown = types.find((type) => !TYPES.has(type) && !NEVER.test(type));
  return unknown ?? [...new Set(types.flatMap((type) => TYPES.get(type) ?? []))];
}

/** Returns Resend's types for a subscription. Null subscribes to everything. */
export function resendTypesOf(subscribed: readonly EventType[] | null): string[] {
  if (subscribed === null) return [...TYPES.keys()];
  const matching = [...TYPES].filter(([, types]) =>
    types.some((type) => subscribed.includes(type)),
  );
  return matching.map(([name]) => name);
}

const TYPE_NAMES: ReadonlyMap<string, string | null> = new Map(Object.entries(NAMES));

/** Returns Resend's name of a type. Types that Resend does not have, such as `webhook.test`, keep their name. */
export function resendTypeOf(type: string): string {
  return TYPE_NAMES.get(type) ?? type;
}

function resendPayload({ type, createdAt, data: json }: StoredEvent): string {
  const data = JSON.parse(json) as Data;
  const name = resendTypeOf(type);
  return JSON.stringify({
    type: name,
    created_at: createdAt,
    data: payloadDataOf(name, data, createdAt),
  });
}

/** The format of endpoints that were registered at the root of the API. */
export const RESEND_FORMATS: OtherFormats = { resend: resendPayload };

type Data = Readonly<Record<string, unknown>>;

function payloadDataOf(name: string, data: Data, at: string): object {
  if (!TYPES.has(name)) return data;
  if (name.startsWith('email.')) {
    return { ...emailFields(name, data as EmailData), ...clickFields(data['click'], at) };
  }
  // An operator's event about a domain has the data of a condition.
  if (name.startsWith('domain.'))
    return 'records' in data ? domainFields(data as DomainData) : data;
  return suppressionFields(data as SuppressionData);
}

type EmailData = {
  email_id: string;
  message_id: string;
  recipient?: string;
  from: string;
  to: string[];
  subject: string;
  tags: { name: string; value: string }[];
  reason?: { category: string; advice: string } | null;
  smtp?: { code?: number | null; enhanced_code?: string | null; message?: string | null } | null;
};

function emailFields(name: string, data: EmailData): object {
  const { email_id, message_id, recipient, from, to, subject, tags } = data;
  return {
    email_id,
    message_id,
    created_at: creationTimeOf(email_id),
    from,
    // An event about one recipient names only that one.
    to: recipient === undefined ? to : [recipient],
    subject,
    tags: Object.fromEntries(tags.map((tag) => [tag.name, tag.value])),
    ...outcomeFields(name, data),
  };
}

type Click = { link: string; ip: string; user_agent: string | null };

function clickFields(data: unknown, timestamp: string): object {
  if (data === undefined) return {};
  const { link, ip: ipAddress, user_agent: userAgent } = data as Click;
  return { click: { ipAddress, link, timestamp, userAgent: userAgent ?? '' } };
}

/** Reads the time of a UUIDv7, which begins with it in milliseconds. */
function creationTimeOf(id: string): string {
  return new Date(Number.parseInt(id.slice(0, 13).replace('-', ''), 16)).toISOString();
}

function outcomeFields(name: string, { reason, smtp }: EmailData): object {
  const reply = [smtp?.code, smtp?.enhanced_code, smtp?.message].filter((part) => part != null);
  const message = reply.join(' ') || (reason?.advice ?? '');
  switch (name) {
    case 'email.bounced':
      return { bounce: { type: 'Permanent', subType: subTypeOf(reason?.category), message } };
    case 'email.failed':
      return { failed: { reason: reason?.category ?? 'unknown' } };
    case 'email.suppressed':
      return {
        suppressed: {
          type: 'OnAccountSuppressionList',
          message: 'The address is on the suppression list of this project.',
        },
      };
    default:
      return {};
  }
}

/** Names of Amazon SES, which Resend passes on. */
function subTypeOf(category: string | undefined): string {
  if (category === 'mailbox') return 'NoEmail';
  if (category === 'quota') return 'MailboxFull';
  return category === 'content' ? 'ContentRejected' : 'General';
}

export type ResendRecord = {
  record: string;
  name: string;
  type: string;
  ttl: string;
  status: string;
  value: string;
  priority?: number;
};

type NativeRecord = Pick<ResendRecord, 'record' | 'name' | 'type' | 'value' | 'priority'> & {
  status: 'not_started' | 'verified' | 'missing' | 'mismatch' | 'dns_error';
};

type DomainData = {
  id: string;
  name: string;
  status: string;
  created_at: string;
  tracking: { opens: boolean; clicks: boolean };
  records: readonly NativeRecord[];
};

/** Clients decode only Resend's regions, and none of them matches this service. */
const REGION = 'us-east-1';

function domainFields(data: DomainData): object {
  return { ...resendDomain(data), records: resendRecords(data.name, data.records) };
}

/** Returns a domain as Resend lists it, without `records`. */
export function resendDomain({
  id,
  name,
  status,
  created_at,
  tracking,
}: Omit<DomainData, 'records'>) {
  return {
    id,
    name,
    status: resendStatus(status),
    created_at,
    region: REGION,
    // Present in every domain and event, because the client for Rust requires it.
    capabilities: { sending: 'enabled' as const, receiving: 'disabled' as const },
    open_tracking: tracking.opens,
    click_tracking: tracking.clicks,
  };
}

/** Resend's name for a domain that sends while its records are missing. Clients decode only Resend's names. */
function resendStatus(status: string): string {
  return status === 'degraded' ? 'partially_failed' : status;
}

const RECORD_STATUS = {
  not_started: 'not_started',
  verified: 'verified',
  missing: 'pending',
  mismatch: 'failed',
  dns_error: 'temporary_failure',
} as const;

/** Returns records with names relative to the registrable domain, as DNS panels ask for them. */
export function resendRecords(domain: string, records: readonly NativeRecord[]): ResendRecord[] {
  const zone = getDomain(domain) ?? domain;
  return records.map(({ record, name, type, value, priority, status }) => ({
    // Resend counts the MX of the return path as SPF. Clients know no other kind for it.
    record: record === 'MX' ? 'SPF' : record,
    name: name.endsWith(`.${zone}`) ? name.slice(0, -zone.length - 1) : name,
    type,
    ttl: 'Auto',
    status: RECORD_STATUS[status],
    value,
    ...(priority !== undefined && { priority }),
  }));
}

type SuppressionData = {
  address: string;
  reason: 'hard_bounce' | 'complaint' | 'unsubscribe' | 'manual';
  source_email_id: string | null;
  created_at: string;
};

export function suppressionFields(entry: SuppressionData) {
  return {
    id: suppressionId(entry.address),
    email: entry.address,
    origin: ORIGINS[entry.reason],
    source_id: entry.source_email_id,
    created_at: entry.created_at,
  };
}

/** Resend has no list of addresses that unsubscribed from transactional mail. */
const ORIGINS = {
  hard_bounce: 'bounce',
  complaint: 'complaint',
  unsubscribe: 'manual',
  manual: 'manual',
} as const;
