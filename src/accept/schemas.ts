/**
 * Schemas of emails in requests: a new email, a batch, and a change. They define the structure. draft.ts checks the
 * contents, and descriptions mention its rules. emails/schemas.ts contains responses and lists.
 */
import { z } from 'zod';
import { SCHEDULE_DAYS_MAX } from '../core/retry.ts';
import {
  EXPIRES_IN_S,
  METADATA_NAME_MAX,
  METADATA_VALUE_MAX,
  SUBJECT_MAX,
  TAG_PATTERN,
  TAGS_MAX,
} from './draft.ts';
import { BATCH_MAX, BATCH_VALIDATIONS } from './email-batch.ts';
import { doc, optional } from '../http/schemas.ts';
import { emailTemplate } from '../templates/schemas.ts';

const oneOrMore = z.union([z.string(), z.array(z.string())]);

const tagPart = z.string().meta({ pattern: TAG_PATTERN.source });

const attachment = z
  .strictObject({
    filename: z.string().meta({ minLength: 1, examples: ['invoice.pdf'] }),
    content: optional(
      z.string().meta({
        description: 'Bytes of the file in base64. Required unless there is a `path`.',
        format: 'byte',
        examples: ['JVBERi0xLjcK'],
      }),
    ),
    content_type: optional(
      z.string().meta({
        description:
          'Media type of the file. When absent, it is guessed from the filename. `text/*` in UTF-8 gets ' +
          '`charset=utf-8`.',
        examples: ['application/pdf'],
      }),
    ),
    content_id: optional(
      doc(
        z.string(),
        'Content-ID of an inline attachment. The html refers to it as `cid:<content_id>`.',
        'logo',
      ),
    ),
    path: optional(
      z.string().meta({
        description:
          'HTTPS URL of the file at a public address, instead of `content`. The service downloads the file ' +
          'before it accepts the email. Redirects are not followed.',
        examples: ['https://acme.com/files/terms.pdf'],
      }),
    ),
  })
  .meta({ id: 'Attachment' });

const addresses = {
  from: z.string().meta({
    description: 'Address of the sender, with or without a name. Its domain must be verified.',
    examples: ['Acme <hello@acme.com>'],
  }),
  to: oneOrMore.meta({
    description: 'Recipients: 1 to 50 addresses in `to`, `cc` and `bcc` together.',
    examples: [['jo@example.com', 'Ann <ann@example.com>']],
  }),
  cc: optional(oneOrMore.describe('Recipients of a copy, shown in the header.')),
  bcc: optional(oneOrMore.describe('Recipients of a copy that other recipients do not see.')),
  reply_to: optional(oneOrMore.describe('Addresses that receive replies.')),
};

const content = {
  subject: optional(
    z.string().meta({
      description:
        'Subject of the email. Required unless the `template` has a subject. It overrides the subject of the ' +
        'template.',
      minLength: 1,
      maxLength: SUBJECT_MAX,
      examples: ['Your receipt'],
    }),
  ),
  html: optional(
    doc(
      z.string(),
      'HTML of the email. `html`, `text` or `template` is required.',
      '<p>Thank you.</p>',
    ),
  ),
  text: optional(
    z
      .string()
      .describe(
        'Text of the email. When absent, it is derived from the html. An empty string prevents that.',
      ),
  ),
  headers: optional(
    z.record(z.string(), z.string()).meta({
      description: 'Additional headers. Headers that the service writes itself are refused.',
      examples: [{ 'X-Entity-Ref-ID': '4711' }],
    }),
  ),
  attachments: optional(
    z.array(attachment).describe('Attached files. The whole message may have at most 30 MB.'),
  ),
};

const labels = {
  tags: optional(
    z.array(z.strictObject({ name: tagPart, value: tagPart })).meta({
      description: 'Labels for search, repeated in events.',
      maxItems: TAGS_MAX,
      examples: [[{ name: 'kind', value: 'receipt' }]],
    }),
  ),
  metadata: optional(
    doc(
      z.record(z.string(), z.string()),
      `Your own strings, repeated in events. At most ${TAGS_MAX} names of up to ${METADATA_NAME_MAX} ` +
        `characters, with values of up to ${METADATA_VALUE_MAX} characters.`,
    ),
  ),
};

const scheduledAt = z.string().meta({
  description:
    `Time of sending: ISO 8601 with an offset, up to ${SCHEDULE_DAYS_MAX} days ahead. A time in the past ` +
    'sends the email at once.',
  format: 'date-time',
  examples: ['2027-01-31T09:00:00+01:00'],
});

const handling = {
  expires_in: optional(
    z.int().meta({
      description:
        'Lifetime of the email in seconds, counted from `scheduled_at` if given. Recipients that have not ' +
        'received the email by then end as `failed` with the reason `expired`.',
      minimum: EXPIRES_IN_S.min,
      maximum: EXPIRES_IN_S.max,
    }),
  ),
  unsubscribe: optional(
    doc(
      z.union([z.string(), z.boolean()]),
      'One-click unsubscribe (RFC 8058): your https URL, or `true` for a page of this service. The page ' +
        'suppresses the recipient. It requires LETTERHAUS_PUBLIC_URL.',
    ),
  ),
  tls: optional(
    doc(
      z.enum(['opportunistic', 'enforced']),
      'TLS mode, which overrides the setting of the domain. With `enforced` the email fails if it cannot ' +
        'be sent encrypted.',
    ),
  ),
  tracking: optional(
    z.strictObject({ opens: optional(z.boolean()), clicks: optional(z.boolean()) }).meta({
      description:
        'Tracking, which overrides the setting of the domain. `opens` adds a pixel to the html. `clicks` redirects ' +
        'its links through LETTERHAUS_TRACKING_URL. Both require html.',
      examples: [{ opens: true, clicks: true }],
    }),
  ),
  scheduled_at: optional(scheduledAt),
};

/** Runs a check even if fields have the wrong shape, so that all problems are reported at once. */
const withOthers = {
  when: ({ value }: { value: unknown }) => typeof value === 'object' && value !== null,
};

const FROM_TEMPLATE = 'cannot be combined with a template, which sets the content; use one of them';

const FIELDS = {
  ...addresses,
  ...content,
  template: optional(emailTemplate),
  ...labels,
  ...handling,
};

export const emailCreation = z
  .strictObject(FIELDS)
  .refine(({ subject, template }) => subject != null || template != null, {
    path: ['subject'],
    error: 'is required',
    ...withOthers,
  })
  .refine(({ html, template }) => template == null || !html, {
    path: ['html'],
    error: FROM_TEMPLATE,
    ...withOthers,
  })
  .refine(({ text, template }) => template == null || !text, {
    path: ['text'],
    error: FROM_TEMPLATE,
    ...withOthers,
  })
  .meta({
    id: 'EmailCreation',
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
        'Unique string of 1 to 256 printable ASCII characters. A repeated request with the same key within ' +
        '24 hours returns the first response and sends nothing.',
      maxLength: 256,
      examples: ['receipt-4711'],
    }),
});

/** For the document only: the route checks each email separately (routes.ts). */
export const emailBatchCreation = z
  .array(emailCreation)
  .min(1)
  .max(BATCH_MAX)
  .meta({ id: 'EmailBatchCreation' });

export const batchHeaders = idempotencyHeaders.extend({
  'x-batch-validation': doc(
    z.enum(BATCH_VALIDATIONS).default('strict'),
    'Validation of the batch. `strict` accepts all emails or none. `permissive` accepts the valid emails ' +
      'and lists the others in `errors`.',
  ),
});
