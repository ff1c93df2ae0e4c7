/**
 * Examples of events, with which an owner tests an endpoint. An example has the fields of a real event of its type, ids
 * that no object has, and addresses in example.com.
 */
import { PROJECT_EVENT_TYPES, type ProjectEventType } from '../core/events.ts';

export type SampleType = Extract<ProjectEventType, `email.${string}` | `suppression.${string}`>;

export const SAMPLE_TYPES = PROJECT_EVENT_TYPES.filter(
  (type): type is SampleType => type.startsWith('email.') || type.startsWith('suppression.'),
);

/** Belongs to no object: a UUIDv7 of the year 1970. */
const NO_ID = '00000000-0000-7000-8000-000000000000';
const RECIPIENT = 'jo@example.com';

/** Returns the `data` of an example. @param at time of the event, in ISO 8601 */
export function sampleData(type: SampleType, at: string): object {
  return type.startsWith('suppression.') ? suppressionOf(at) : emailOf(type);
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
