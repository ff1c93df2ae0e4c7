/** Emails, their recipients and their timeline as they come out. */
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import { environment, id, listOf, time } from './common.ts';
import { status } from './emails.ts';

export const acceptedEmail = z
  .object({
    object: z.literal('email'),
    id: id('The email.'),
    status,
    created_at: time('When it was accepted.'),
  })
  .meta({ id: 'AcceptedEmail' });

const summaryFields = {
  object: z.literal('email'),
  id: id('The email.'),
  message_id: z.string().describe('The Message-ID header, with its angle brackets.'),
  from: z.string(),
  to: z.array(z.string()),
  cc: z.array(z.string()),
  bcc: z.array(z.string()),
  reply_to: z.array(z.string()),
  subject: z.string(),
  status,
  last_event: z.enum(EVENT_TYPES),
  created_at: time('When it was accepted.'),
  scheduled_at: time('When it is to be sent; null: at once.').nullable(),
  sent_at: time('When the first recipient got it.').nullable(),
  completed_at: time('When the last recipient reached its final status.').nullable(),
  tags: z.array(z.object({ name: z.string(), value: z.string() })),
  metadata: z.record(z.string(), z.string()),
  environment,
};

const reason = z
  .object({
    category: z.string().meta({
      description: 'What kind of problem it is.',
      examples: ['mailbox', 'quota', 'greylist', 'policy', 'reputation', 'content', 'expired'],
    }),
    blame: z.enum(['recipient', 'receiver', 'sender', 'us']).describe('Who can do something.'),
    advice: z.string().describe('What to do, in one sentence.'),
  })
  .meta({ id: 'Reason' });

const smtp = z
  .object({
    code: z.number().int().nullable(),
    enhanced_code: z
      .string()
      .nullable()
      .meta({ examples: ['5.1.1'] }),
    message: z.string(),
    mx: z.string().nullable().describe('The server that said it.'),
    ip: z.string().nullable(),
    tls: z
      .object({
        version: z.string(),
        cipher: z.string(),
        verified: z.boolean().describe('The server proved who it is.'),
        problem: z.string().nullable().optional().describe('Why it did not.'),
      })
      .nullable()
      .describe('null: in the clear.'),
    tls_policy: z
      .string()
      .nullable()
      .optional()
      .meta({
        description: 'Whose wish for TLS the server was held to; null: no server was chosen.',
        examples: ['none', 'provider', 'enforced', 'mta-sts-testing', 'mta-sts', 'dane'],
      }),
  })
  .meta({ id: 'SmtpAnswer', description: 'The last thing that was heard about the recipient.' });

const recipient = z
  .object({
    address: z.string(),
    kind: z.enum(['to', 'cc', 'bcc']),
    status,
    attempts: z.number().int(),
    next_attempt_at: time('When it is tried again.').nullable(),
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
    html: z.string().nullable().describe('null, as is `text`, once content is past its retention.'),
    text: z.string().nullable().describe('null: derived from the html. Empty: none.'),
    recipients: z.array(recipient),
  })
  .meta({
    id: 'Email',
    description:
      'Its status is that of the most active recipient while any is open, then the worst outcome.',
  });

export const emailList = listOf(emailSummary).extend({
  scanned_until: id(
    'With a filter that has no index, at most 50,000 emails are looked through per call. When ' +
      'that ended before the list did, this is where: go on with `after` (or `before`) this id.',
  ).nullable(),
});

const timelineEvent = z
  .object({
    object: z.literal('event'),
    number: z.number().int().describe('1, 2, 3, … within the email.'),
    id: id('The event, the same as `webhook-id`.'),
    type: z.enum(EVENT_TYPES),
    created_at: time('When it happened.'),
    recipient: z.string().nullable().describe('null: about the email as a whole.'),
    data: z.looseObject({}).describe('What webhooks are told.'),
    attempt: z
      .looseObject({})
      .nullable()
      .describe('The attempt that ended so, with the conversation with the server.'),
  })
  .meta({ id: 'TimelineEvent' });

export const timeline = listOf(timelineEvent);

export const messageBytes = {
  description: 'The message.',
  content: { 'message/rfc822': { schema: z.string().meta({ format: 'binary' }) } },
};
