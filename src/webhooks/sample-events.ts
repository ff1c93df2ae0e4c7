/**
 * Examples of events, with which an owner tests an endpoint. An example has the fields of a real event of its type, ids
 * that no object has, and addresses in example.com.
 */
import { PROJECT_EVENT_TYPES, type ProjectEventType } from '../core/events.ts';

export type SampleType = Extract<
  ProjectEventType,
  `email.${string}` | `suppression.${string}` | `domain.${string}`
>;

export const SAMPLE_TYPES = PROJECT_EVENT_TYPES.filter((type): type is SampleType =>
  /^(email|suppression|domain)\./.test(type),
);

/** Belongs to no object: a UUIDv7 of the year 1970. */
const NO_ID = '00000000-0000-7000-8000-000000000000';
const RECIPIENT = 'jo@example.com';

/** Returns the `data` of an example. @param at time of the event, in ISO 8601 */
export function sampleData(type: SampleType, at: string): object {
  if (type.startsWith('suppression.')) return suppressionOf(at);
  return type.startsWith('domain.') ? domainOf(type, at) : emailOf(type);
}

function emailOf(type: SampleType): object {
  return {
    email_id: NO_ID,
    to: [RECIPIENT],
    subject: 'Example of an event',
    tags: [{ name: 'kind', value: 'example' }],
    metadata: {},
    message_id: `<${NO_ID}@example.com>`,
    from: 'Example <hello@example.com>',
    status: STATUSES[type] ?? 'delivered',
    ...(!OF_WHOLE_EMAIL.has(type) && { recipient: RECIPIENT }),
    ...DETAILS[type],
  };
}

const OF_WHOLE_EMAIL: ReadonlySet<SampleType> = new Set<SampleType>([
  'email.queued',
  'email.scheduled',
  'email.canceled',
]);

const STATUSES: Partial<Record<SampleType, string>> = {
  'email.queued': 'queued',
  'email.scheduled': 'scheduled',
  'email.sent': 'sent',
  'email.delivery_delayed': 'deferred',
  'email.bounced': 'bounced',
  'email.complained': 'complained',
  'email.suppressed': 'suppressed',
  'email.failed': 'failed',
  'email.canceled': 'canceled',
};

const smtp = (code: number, enhanced: string, message: string): object => ({
  code,
  enhanced_code: enhanced,
  message,
  mx: 'mx.example.com',
  ip: '192.0.2.25',
  tls: {
    version: 'TLSv1.3',
    cipher: 'TLS_AES_256_GCM_SHA384',
    verified: true,
    problem: null,
  },
  tls_policy: 'opportunistic',
});

const VISIT = { ip: '192.0.2.7', user_agent: 'Example/1.0', is_bot: false, bot_reason: null };

const DETAILS: Partial<Record<SampleType, object>> = {
  'email.scheduled': { scheduled_at: '2030-01-01T09:00:00.000Z' },
  'email.sent': { smtp: smtp(250, '2.0.0', 'accepted by the relay') },
  'email.delivered': { smtp: smtp(250, '2.0.0', 'accepted') },
  'email.delivery_delayed': {
    reason: {
      category: 'greylist',
      blame: 'receiver',
      advice: 'Nothing to do: the service tries again.',
    },
    smtp: smtp(451, '4.7.1', 'greylisted, please try again later'),
  },
  'email.bounced': {
    reason: {
      category: 'mailbox',
      blame: 'recipient',
      advice: 'The address does not exist. Correct it, or remove it from your list.',
    },
    smtp: smtp(550, '5.1.1', 'no such user'),
  },
  'email.complained': {
    reason: {
      category: 'complaint',
      blame: 'recipient',
      advice: 'The recipient reported the email as spam. Do not send to this address again.',
    },
  },
  'email.suppressed': {
    reason: {
      category: 'suppressed',
      blame: 'recipient',
      advice: 'The address is on the suppression list.',
    },
  },
  'email.failed': {
    reason: {
      category: 'expired',
      blame: 'receiver',
      advice: 'No mail server accepted the email in time.',
    },
  },
  'email.canceled': { recipients: [RECIPIENT] },
  'email.opened': { open: VISIT },
  'email.clicked': { click: { ...VISIT, link: 'https://example.com/' } },
};

function suppressionOf(at: string): object {
  return {
    address: RECIPIENT,
    reason: 'hard_bounce',
    source_email_id: NO_ID,
    created_at: at,
    expires_at: null,
    simulated: false,
  };
}

const DOMAIN_STATUSES: Partial<Record<SampleType, string>> = {
  'domain.verified': 'verified',
  'domain.degraded': 'degraded',
  'domain.recovered': 'verified',
  'domain.failed': 'failed',
  'domain.deleted': 'verified',
};

function domainOf(type: SampleType, at: string): object {
  const status = DOMAIN_STATUSES[type] ?? 'not_started';
  const isFailing = status === 'degraded' || status === 'failed';
  const name = `${SELECTOR}._domainkey.example.com`;
  const value = 'v=DKIM1; k=rsa; p=EXAMPLE';
  const isChecked = type !== 'domain.created';
  return {
    object: 'domain',
    id: NO_ID,
    name: 'example.com',
    status,
    can_sign: true,
    environment: 'live',
    tls: 'opportunistic',
    tracking: { opens: false, clicks: false },
    created_at: at,
    verified_at: status === 'not_started' ? null : at,
    checked_at: isChecked ? at : null,
    failing_since: isFailing ? at : null,
    dkim: { selector: SELECTOR, since: at, next: null, previous: null },
    records: [
      {
        record: 'DKIM',
        type: 'TXT',
        name,
        value,
        ttl: 3600,
        required: true,
        status: isFailing ? 'missing' : isChecked ? 'verified' : 'not_started',
        found: isFailing || !isChecked ? [] : [value],
        problem: isFailing ? `There is no TXT record at ${name}; publish it as shown.` : null,
      },
    ],
    advice: [],
    etag: '"of-an-example-of-a-domain"',
  };
}

const SELECTOR = 'lh1';
