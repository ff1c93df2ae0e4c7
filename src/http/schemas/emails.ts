/**
 * Schemas of emails in requests and responses. They define the structure; the rules about contents
 * are in sending/draft.ts and appear here only in descriptions.
 */
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import { SCHEDULE_DAYS_MAX } from '../../core/retry.ts';
import { FINAL_STATUSES, OPEN_STATUSES } from '../../core/statuses.ts';
import {
  EXPIRES_IN_S,
  METADATA_NAME_MAX,
  METADATA_VALUE_MAX,
  SUBJECT_MAX,
  TAG_PATTERN,
  TAGS_MAX,
} from '../../sending/draft.ts';
import { BATCH_MAX, BATCH_VALIDATIONS } from '../../sending/email-batch.ts';
import { environment, idSchema, listOf, listQuery, time } from './common.ts';

/** Refused by the draft with a specific message; not in the OpenAPI document. */
const notYet = z.unknown().optional().meta({ 'x-not-yet': true });

/** null is treated as absent, since some clients cannot omit a field. */
const optional = <Schema extends z.ZodType>(schema: Schema) =>
  schema.nullish().meta({ ...schema.meta(), 'x-null-is-absent': true });

const oneOrMore = z.union([z.string(), z.array(z.string())]);

const tagPart = z.string().meta({ pattern: TAG_PATTERN.source });

const attachment = z
  .strictObject({
    filename: z.string().meta({ minLength: 1, examples: ['invoice.pdf'] }),
    content: optional(
      z.string().meta({
        description: 'The bytes, in base64.',
        format: 'byte',
        examples: ['JVBERi0xLjcK'],
      }),
    ),
    content_type: optional(
      z.string().meta({
        description: 'Guessed from the filename when absent.',
        examples: ['application/pdf'],
      }),
    ),
    content_id: optional(
      z.string().meta({
        description: 'Makes it inline: the html refers to it as `cid:<content_id>`.',
        examples: ['logo'],
      }),
    ),
    path: notYet,
  })
  .meta({ id: 'Attachment' });

const addresses = {
  from: z.string().meta({
    description: 'One address, with or without a name. Its domain must be verified.',
    examples: ['Acme <hello@acme.com>'],
  }),
  to: oneOrMore.meta({
    description: '1-50 addresses in `to`, `cc` and `bcc` together.',
    examples: [['jo@example.com', 'Ann <ann@example.com>']],
  }),
  cc: optional(oneOrMore),
  bcc: optional(oneOrMore),
  reply_to: optional(oneOrMore.describe('Where replies go.')),
};

const content = {
  subject: z.string().meta({ minLength: 1, maxLength: SUBJECT_MAX, examples: ['Your receipt'] }),
  html: optional(
    z.string().meta({
      description: '`html` or `text` is needed.',
      examples: ['<p>Thank you.</p>'],
    }),
  ),
  text: optional(
    z.string().describe('Derived from the html when absent; an empty string switches that off.'),
  ),
  headers: optional(
    z.record(z.string(), z.string()).meta({
      description: 'Further headers; not those that the service writes itself.',
      examples: [{ 'X-Entity-Ref-ID': '4711' }],
    }),
  ),
  attachments: optional(z.array(attachment).describe('The whole message: at most 30 MB.')),
};

const labels = {
  tags: optional(
    z.array(z.strictObject({ name: tagPart, value: tagPart })).meta({
      description: 'For finding emails; repeated in events.',
      maxItems: TAGS_MAX,
      examples: [[{ name: 'kind', value: 'receipt' }]],
    }),
  ),
  metadata: optional(
    z
      .record(z.string(), z.string())
      .describe(
        `Your own strings, repeated in events: at most ${TAGS_MAX} names of ` +
          `${METADATA_NAME_MAX} characters with values of ${METADATA_VALUE_MAX}.`,
      ),
  ),
};

const scheduledAt = z.string().meta({
  description:
    `When to send it: ISO 8601 with an offset, up to ${SCHEDULE_DAYS_MAX} days ahead. A time in the ` +
    'past sends it at once.',
  format: 'date-time',
  examples: ['2027-01-31T09:00:00+01:00'],
});

const handling = {
  expires_in: optional(
    z.int().meta({
      description:
        'Seconds, counted from `scheduled_at` if given. After that, recipients that have not received it end `failed` with the ' +
        'reason `expired`.',
      minimum: EXPIRES_IN_S.min,
      maximum: EXPIRES_IN_S.max,
    }),
  ),
  unsubscribe: optional(
    z
      .union([z.string(), z.boolean()])
      .describe(
        'One-click unsubscribe (RFC 8058): an https URL of yours, or `true` for a page of this ' +
          'service, which suppresses the recipient and needs POSTHORN_PUBLIC_URL.',
      ),
  ),
  tls: optional(
    z
      .enum(['opportunistic', 'enforced'])
      .describe(
        "Overrides the domain's setting. `enforced`: fails rather than sending unencrypted.",
      ),
  ),
  tracking: optional(
    z
      .strictObject({ opens: z.boolean().optional(), clicks: z.boolean().optional() })
      .describe('Not available yet: both must be false.'),
  ),
  scheduled_at: optional(scheduledAt),
};

/** Replaces subject and content, so it is reported before their absence. */
const instead = {
  template: notYet.refine(
    (template) => template == null,
    'is not available yet; send subject, html and text',
  ),
};

export const emailCreation = z
  .strictObject({ ...instead, ...addresses, ...content, ...labels, ...handling })
  .meta({
    id: 'NewEmail',
    examples: [
      {
        from: 'Acme <hello@acme.com>',
        to: 'jo@example.com',
        subject: 'Your receipt',
        html: '<p>Thank you.</p>',
      },
    ],
  });

export const emailChange = z.strictObject({ scheduled_at: scheduledAt }).meta({
  id: 'EmailChange',
  examples: [{ scheduled_at: '2027-01-31T09:00:00+01:00' }],
});

export const idempotencyHeaders = z.object({
  'idempotency-key': z
    .string()
    .optional()
    .meta({
      description:
        'Your own string, 1-256 printable ASCII characters. Repeating the request with it ' +
        'within 24 hours returns the first response and sends nothing.',
      maxLength: 256,
      examples: ['receipt-4711'],
    }),
});

/** The route checks each item separately (routes/email-batches.ts). */
export const emailBatchCreation = z.array(emailCreation).min(1).max(BATCH_MAX);

export const batchHeaders = idempotencyHeaders.extend({
  'x-batch-validation': z
    .enum(BATCH_VALIDATIONS)
    .default('strict')
    .describe(
      '`strict`: all emails are accepted or none. `permissive`: the valid ones are accepted, and ' +
        'the others are in `errors`.',
    ),
});

export const status = z
  .enum(['sending', ...OPEN_STATUSES, ...FINAL_STATUSES])
  .meta({ id: 'EmailStatus' });

const created = (bound: string) =>
  z.iso
    .datetime({ offset: true })
    .optional()
    .meta({
      description: `Only emails created ${bound} this time.`,
      examples: ['2026-11-21T00:00:00Z'],
    });

export const emailQuery = listQuery({
  status: status.optional().describe('Only with this status.'),
  to: z
    .string()
    .optional()
    .meta({ description: 'An address in `to`, `cc` or `bcc`.', examples: ['jo@example.com'] }),
  from: z
    .string()
    .optional()
    .meta({
      description: 'The address of the sender, without the name.',
      examples: ['hello@acme.com'],
    }),
  subject: z
    .string()
    .min(1)
    .max(SUBJECT_MAX)
    .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out')
    .optional()
    .meta({ description: 'A part of it, in any case.', examples: ['receipt'] }),
  tag: z
    .string()
    .optional()
    .meta({ description: '`name` or `name:value`.', examples: ['kind:receipt'] }),
  domain: z
    .string()
    .optional()
    .meta({ description: 'The sending domain.', examples: ['acme.com'] }),
  created_after: created('at or after'),
  created_before: created('before'),
});

export const contentQuery = z.strictObject({
  recipient: z
    .string()
    .optional()
    .meta({
      description: 'The recipient of the message; default: the first one.',
      examples: ['jo@example.com'],
    }),
});

export const timelineQuery = z.strictObject({
  limit: z.coerce
    .number<string>()
    .int()
    .min(1)
    .max(1_000)
    .default(1_000)
    .describe('How many to return at most.'),
  after: z.coerce
    .number<string>()
    .int()
    .min(0)
    .default(0)
    .describe('The number of the last event that was read.'),
});

export const acceptedEmail = z
  .object({
    object: z.literal('email'),
    id: idSchema('The email.'),
    status,
    created_at: time('When it was accepted.'),
  })
  .meta({ id: 'AcceptedEmail' });

export const acceptedBatch = z
  .object({
    data: z
      .array(z.object({ id: idSchema('The email.') }))
      .describe('The accepted emails, in the order of the request.'),
    errors: z
      .array(
        z.object({
          index: z
            .int()
            .min(0)
            .meta({ description: 'The place in the request, from 0.', examples: [1] }),
          code: z.string().meta({ description: 'For programs.', examples: ['suppressed'] }),
          message: z.string().meta({
            description: 'One sentence: what is wrong and what to do.',
            examples: ['to: bob@example.com is suppressed: hard_bounce'],
          }),
        }),
      )
      .describe(
        'The emails that were not accepted, in the order of the request; empty when strict.',
      ),
  })
  .meta({ id: 'AcceptedBatch' });

const addressList = (...example: string[]) => z.array(z.string()).meta({ examples: [example] });

const summaryFields = {
  object: z.literal('email'),
  id: idSchema('The email.'),
  message_id: z.string().meta({
    description: 'The Message-ID header, with its angle brackets.',
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
  created_at: time('When it was accepted.'),
  scheduled_at: time('When it is, or was, to be sent; null: at once.').nullable(),
  sent_at: time('When the first recipient received it.').nullable(),
  completed_at: time('When the last recipient reached its final status.').nullable(),
  tags: z
    .array(z.object({ name: z.string(), value: z.string() }))
    .meta({ examples: [[{ name: 'kind', value: 'receipt' }]] }),
  metadata: z.record(z.string(), z.string()).meta({ examples: [{ order: '4711' }] }),
  environment,
};

const reason = z
  .object({
    category: z.string().meta({
      description: 'The kind of problem.',
      examples: ['mailbox', 'quota', 'greylist', 'policy', 'reputation', 'content', 'expired'],
    }),
    blame: z.enum(['recipient', 'receiver', 'sender', 'us']).describe('Who can solve it.'),
    advice: z.string().meta({
      description: 'What to do, in one sentence.',
      examples: ['The mailbox does not exist; remove the address from your list.'],
    }),
  })
  .meta({ id: 'Reason' });

const smtp = z
  .object({
    code: z
      .int()
      .min(0)
      .nullable()
      .meta({ examples: [550] }),
    enhanced_code: z
      .string()
      .nullable()
      .meta({ examples: ['5.1.1'] }),
    message: z
      .string()
      .meta({ examples: ['The email account that you tried to reach does not exist'] }),
    mx: z
      .string()
      .nullable()
      .meta({ description: 'The server that replied.', examples: ['mx1.example.com'] }),
    ip: z
      .string()
      .nullable()
      .meta({ examples: ['192.0.2.25'] }),
    tls: z
      .object({
        version: z.string().meta({ examples: ['TLSv1.3'] }),
        cipher: z.string().meta({ examples: ['TLS_AES_256_GCM_SHA384'] }),
        verified: z.boolean().describe('The certificate of the server was valid.'),
        problem: z
          .string()
          .nullable()
          .optional()
          .meta({ description: 'Why it was not.', examples: [null] }),
      })
      .nullable()
      .describe('null: unencrypted.'),
    tls_policy: z
      .string()
      .nullable()
      .optional()
      .meta({
        description: 'The TLS rule that applied to the server; null: no server was chosen.',
        examples: ['none', 'provider', 'enforced', 'mta-sts-testing', 'mta-sts', 'dane'],
      }),
  })
  .meta({ id: 'SmtpAnswer', description: 'The last reply or error about the recipient.' });

const recipient = z
  .object({
    address: z.string().meta({ examples: ['jo@example.com'] }),
    kind: z.enum(['to', 'cc', 'bcc']),
    status,
    attempts: z
      .int()
      .min(0)
      .meta({ examples: [1] }),
    next_attempt_at: time('When it is retried.').nullable(),
    completed_at: time('When it reached its final status.').nullable(),
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
    html: z
      .string()
      .nullable()
      .meta({
        description: 'null, like `text`, after the retention of content.',
        examples: ['<p>Thank you.</p>'],
      }),
    text: z
      .string()
      .nullable()
      .meta({ description: 'null: derived from the html. Empty: none.', examples: [null] }),
    recipients: z.array(recipient),
  })
  .meta({
    id: 'Email',
    description:
      'Its status is that of the most active recipient while any is open, then the worst outcome.',
  });

export const emailList = listOf(emailSummary).extend({
  scanned_until: idSchema(
    'With a filter that has no index, at most 50,000 emails are searched per call. If the list ' +
      'continues, this is the position: continue with `after` (or `before`) this id.',
  ).nullable(),
});

const timelineEvent = z
  .object({
    object: z.literal('event'),
    number: z
      .int()
      .min(1)
      .meta({ description: '1, 2, 3, … within the email.', examples: [2] }),
    id: idSchema('The event, the same as `webhook-id`.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('When it occurred.'),
    recipient: z
      .string()
      .nullable()
      .meta({
        description: 'null: the event concerns the whole email.',
        examples: ['jo@example.com'],
      }),
    data: z.looseObject({}).describe('As in the webhook of this event.'),
    attempt: z
      .looseObject({})
      .nullable()
      .describe('The attempt that caused it, with the SMTP dialogue.'),
  })
  .meta({ id: 'TimelineEvent' });

export const timeline = listOf(timelineEvent);

export const messageBytes = {
  description: 'The message.',
  content: {
    'message/rfc822': {
      schema: z.string().meta({
        format: 'binary',
        examples: ['From: Acme <hello@acme.com>\r\nTo: jo@example.com\r\n…'],
      }),
    },
  },
};
