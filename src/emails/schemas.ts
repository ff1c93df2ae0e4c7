/**
 * Schemas of emails in responses, and of the queries of their lists. accept/schemas.ts contains those of new emails.
 */
import { z } from 'zod';
import { EVENT_TYPES } from '../core/events.ts';
import { FINAL_STATUSES, OPEN_STATUSES, STATUS_MEANINGS } from '../core/statuses.ts';
import { SUBJECT_MAX } from '../accept/draft.ts';
import { SEARCH_MAX } from './search.ts';
import {
  doc,
  entityTag,
  environment,
  idSchema,
  listOf,
  listQuery,
  shown,
  time,
} from '../http/schemas.ts';

export const status = z
  .enum(['sending', ...OPEN_STATUSES, ...FINAL_STATUSES])
  .meta({ id: 'EmailStatus', description: meaningsInOneText() });

function meaningsInOneText(): string {
  return Object.entries(STATUS_MEANINGS)
    .map(([name, meaning]) => `\`${name}\`: ${meaning}`)
    .join(' ');
}

const created = (bound: string) =>
  doc(
    z.iso.datetime({ offset: true }).optional(),
    `Returns only emails created ${bound} this time.`,
    '2026-11-21T00:00:00Z',
  );

const filters = {
  q: doc(
    z
      .string()
      .max(SEARCH_MAX)
      .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out')
      .optional(),
    'Search text. All of its words and quoted texts must occur: each is a part of the subject, an address, a ' +
      'name, a tag or the Message-ID. An id alone is that of an email. The operators `to:`, `from:`, `subject:`, ' +
      '`status:`, `domain:`, `tag:`, `template:`, `key:`, `provider:`, `reason:`, `reply:`, `server:`, `id:`, `after:` and ' +
      '`before:` are filters. `to:` and ' +
      '`from:` take an address or a part of one, `reply:` and `server:` a part of the last reply of a mail server ' +
      'and of its name. `after:` and `before:` take a time of creation, or a date in UTC.',
    'receipt to:jo@example.com status:bounced after:2026-11-21',
  ),
  status: status.optional().describe('Returns only emails with this status.'),
  to: doc(
    z.string().optional(),
    'Returns only emails with this address in `to`, `cc` or `bcc`.',
    'jo@example.com',
  ),
  from: doc(
    z.string().optional(),
    'Returns only emails from this address. It has no display name.',
    'hello@acme.com',
  ),
  subject: doc(
    z
      .string()
      .min(1)
      .max(SUBJECT_MAX)
      .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out')
      .optional(),
    'Returns only emails with this text in the subject, in any case.',
    'receipt',
  ),
  tag: doc(
    z.string().optional(),
    'Returns only emails with this tag, as `name` or `name:value`.',
    'kind:receipt',
  ),
  domain: doc(z.string().optional(), 'The sending domain.', 'acme.com'),
  created_after: created('at or after'),
  created_before: created('before'),
};

export const emailQuery = listQuery(filters);
export const emailCountQuery = z.strictObject(filters);

export const contentQuery = z.strictObject({
  recipient: doc(
    z.string().optional(),
    'Recipient of the message. The default is the first recipient.',
    'jo@example.com',
  ),
});

export const timelineQuery = z.strictObject({
  limit: doc(
    z.coerce.number<string>().int().min(1).max(1_000).default(1_000),
    'Maximum number of events to return.',
  ),
  after: doc(
    z.coerce.number<string>().int().min(0).default(0),
    'Returns only events after the event with this number.',
  ),
});

export const acceptedEmail = z
  .object({
    object: z.literal('email'),
    id: idSchema('The email.'),
    status,
    created_at: time('Time of acceptance.'),
  })
  .meta({ id: 'AcceptedEmail' });

export const acceptedBatch = z
  .object({
    data: doc(
      z.array(z.object({ id: idSchema('The email.') })),
      'Accepted emails in the order of the request.',
    ),
    errors: doc(
      z.array(
        z.object({
          index: doc(z.int().min(0), 'Index of the email in the request, from 0.', 1),
          code: z
            .string()
            .meta({ description: 'Stable code of the error.', examples: ['suppressed'] }),
          message: z.string().meta({
            description: 'One sentence that says what is wrong and what to do.',
            examples: ['to: bob@example.com is suppressed: hard_bounce'],
          }),
        }),
      ),
      'Refused emails in the order of the request. Empty with `strict`.',
    ),
  })
  .meta({ id: 'AcceptedBatch' });

const addressList = (...example: string[]) => z.array(z.string()).meta({ examples: [example] });

const summaryFields = {
  object: z.literal('email'),
  id: idSchema('The email.'),
  message_id: z.string().meta({
    description: 'Message-ID header, with its angle brackets.',
    examples: ['<0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa@acme.com>'],
  }),
  from: z.string().meta({ examples: ['Acme <hello@acme.com>'] }),
  to: addressList('jo@example.com'),
  cc: addressList(),
  bcc: addressList(),
  reply_to: addressList(),
  subject: z.string().meta({ examples: ['Your receipt'] }),
  status,
  last_event: z.enum(EVENT_TYPES),
  created_at: time('Time of acceptance.'),
  scheduled_at: time('Scheduled time of sending, or null for at once.').nullable(),
  sent_at: time('Time at which the first recipient received the email, or null before.').nullable(),
  completed_at: time(
    'Time at which the last recipient reached its final status, or null before.',
  ).nullable(),
  tags: shown(z.array(z.object({ name: z.string(), value: z.string() })), [
    { name: 'kind', value: 'receipt' },
  ]),
  metadata: z.record(z.string(), z.string()).meta({ examples: [{ order: '4711' }] }),
  environment,
};

export const reason = z
  .object({
    category: z.string().meta({
      description: 'Category of the problem.',
      examples: ['mailbox', 'quota', 'greylist', 'policy', 'reputation', 'content', 'expired'],
    }),
    blame: z
      .enum(['recipient', 'receiver', 'sender', 'us'])
      .describe('Party that can solve the problem.'),
    advice: z.string().meta({
      description: 'One sentence that says what to do.',
      examples: ['The mailbox does not exist; remove the address from your list.'],
    }),
  })
  .meta({ id: 'Reason' });

export const smtp = z
  .object({
    code: shown(z.int().min(0).nullable(), 550),
    enhanced_code: shown(z.string().nullable(), '5.1.1'),
    message: shown(z.string(), 'The email account that you tried to reach does not exist'),
    mx: doc(z.string().nullable(), 'Host name of the mail server that replied.', 'mx1.example.com'),
    ip: shown(z.string().nullable(), '192.0.2.25'),
    tls: doc(
      z
        .object({
          version: z.string().meta({ examples: ['TLSv1.3'] }),
          cipher: z.string().meta({ examples: ['TLS_AES_256_GCM_SHA384'] }),
          verified: z.boolean().describe('True when the certificate of the server was valid.'),
          problem: doc(
            z.string().nullable().optional(),
            'Reason why the certificate was not valid, or null.',
            null,
          ),
        })
        .nullable(),
      'TLS of the connection, or null when it was unencrypted.',
    ),
    tls_policy: doc(
      z.string().nullable().optional(),
      'TLS rule that applied to the server, or null when no server was chosen.',
      'none',
      'provider',
      'enforced',
      'mta-sts-testing',
      'mta-sts',
      'dane',
    ),
  })
  .meta({ id: 'SmtpAnswer', description: 'Last reply or error about the recipient.' });

const recipient = z
  .object({
    address: z.string().meta({ examples: ['jo@example.com'] }),
    kind: z.enum(['to', 'cc', 'bcc']),
    status,
    attempts: shown(z.int().min(0), 1),
    next_attempt_at: time('Due time of the next attempt, or null without one.').nullable(),
    completed_at: time('Time of the final status, or null before.').nullable(),
    reason: reason.nullable(),
    smtp: smtp.nullable(),
  })
  .meta({ id: 'Recipient' });

const emailSummary = z
  .object(summaryFields)
  .meta({ id: 'EmailSummary', description: 'An email without its content and recipients.' });

export const email = z
  .object({
    ...summaryFields,
    html: doc(
      z.string().nullable(),
      'HTML of the email. Null without html, and after the retention of content.',
      '<p>Thank you.</p>',
    ),
    text: doc(
      z.string().nullable(),
      'Text of the email. Null when it is derived from the html, and after the retention of content. Empty ' +
        'when the email has no text.',
      null,
    ),
    tracking: doc(
      z.object({ opens: z.boolean(), clicks: z.boolean() }),
      'Tracking of the email or its domain. Both fields are false after the retention of content.',
    ),
    recipients: z.array(recipient),
    etag: entityTag,
  })
  .meta({
    id: 'Email',
    description:
      'An email. Its status is the most active recipient status while any recipient is open, and then the ' +
      'worst outcome.',
  });

export const emailList = listOf('EmailList', emailSummary, {
  scanned_until: idSchema(
    'Position of the search, to pass as `after` (or `before`) when the list continues. One call searches ' +
      'at most 50,000 emails with a filter that has no index.',
  ).nullable(),
});

export const emailCounts = z
  .object({
    object: z.literal('email_counts'),
    total: doc(z.int().min(0), 'Number of matching emails.', 4_930),
    statuses: z.partialRecord(status, z.int().min(1)).meta({
      description: 'Number of matching emails by status.',
      examples: [{ delivered: 4_528 }],
    }),
    scanned_until: idSchema(
      'The last searched email, or null when all emails were searched. Older emails are not counted.',
    ).nullable(),
  })
  .meta({ id: 'EmailCounts' });

export const SHARED_FOR_S = { min: 60, max: 48 * 3_600 } as const;

export const sharing = z
  .strictObject({
    expires_in: z.int().nullish().meta({
      description: 'Lifetime of the link in seconds. The default is 48 hours.',
      minimum: SHARED_FOR_S.min,
      maximum: SHARED_FOR_S.max,
      'x-null-is-absent': true,
    }),
  })
  .meta({ id: 'EmailSharing', examples: [{ expires_in: 86_400 }] });

export const sharedEmail = z
  .object({
    object: z.literal('email'),
    id: idSchema('The email.'),
    url: z.string().meta({
      description: 'URL of the page with the email.',
      format: 'uri',
      examples: ['https://mail.acme.com/s/AQEBogjKQAV0zpO0'],
    }),
    expires_at: time('Expiry of the link.'),
  })
  .meta({ id: 'SharedEmail' });

export const emailPreview = sharedEmail
  .extend({ object: z.literal('email_preview') })
  .meta({ id: 'EmailPreview' });

export const timelineEvent = z
  .object({
    object: z.literal('event'),
    number: doc(z.int().min(1), 'Number of the event within the email, from 1.', 2),
    id: idSchema('Id of the event, as in `webhook-id`.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('Time of the event.'),
    recipient: doc(
      z.string().nullable(),
      'Address of the recipient, or null when the event concerns the whole email.',
      'jo@example.com',
    ),
    data: z.looseObject({}).describe('Data of the event, as in its webhook.'),
    attempt: doc(
      z.looseObject({}).nullable(),
      'Attempt that caused the event, with the SMTP dialogue, or null without one.',
    ),
  })
  .meta({ id: 'TimelineEvent' });

export const timeline = listOf('TimelineEventList', timelineEvent);

export const messageBytes = {
  description: 'Bytes of the message.',
  content: {
    'message/rfc822': {
      schema: z.string().meta({
        format: 'binary',
        examples: ['From: Acme <hello@acme.com>\r\nTo: jo@example.com\r\n…'],
      }),
    },
  },
};
