/** Webhooks in requests and responses: endpoints, deliveries and replays. */
import { z } from 'zod';
import { EVENT_TYPES } from '../core/events.ts';
import { deleted, doc, entityTag, idSchema, listOf, shown, time } from '../http/schemas.ts';

const url = z.string().meta({
  description: 'HTTPS URL with a public address. Redirects are not followed.',
  examples: ['https://acme.com/hooks/mail'],
});
const events = doc(
  z.array(z.enum(EVENT_TYPES)).min(1).max(100).nullable(),
  'Types of events to send. Null sends all types, including types of later versions.',
  ['email.delivered', 'email.bounced'],
);
const webhookStatus = doc(
  z.enum(['enabled', 'disabled']),
  'Status of the webhook. A disabled webhook receives no events, and its pending deliveries have ' +
    'failed.',
);

export const webhookCreation = z
  .strictObject({ url, events: events.optional() })
  .meta({ id: 'WebhookCreation' });

export const webhookChange = z
  .strictObject({
    url: url.optional(),
    events: events.optional(),
    status: webhookStatus.optional(),
  })
  .meta({ id: 'WebhookChange' });

export const responseStatus = doc(
  z.int().min(0).nullable(),
  'HTTP status of the response, or null without one.',
  500,
);
export const responseError = doc(
  z.string().nullable(),
  'Reason why there was no usable response, or null.',
  null,
);

const fields = {
  object: z.literal('webhook'),
  id: idSchema('The webhook.'),
  url,
  events,
  status: webhookStatus,
  disabled_reason: doc(
    z.string().nullable(),
    'Reason why the service disabled the webhook, or null if it did not.',
    null,
  ),
  failing_since: time(
    'Time since which all attempts have failed, or null when it is not failing.',
  ).nullable(),
  failures: doc(z.int().min(0), 'Number of failed attempts since `failing_since`.', 0),
  last_failure: doc(
    z
      .object({
        at: time('Time of the attempt.'),
        status: responseStatus,
        answer: doc(
          z.string().nullable(),
          'First 200 characters of the response, or null without a response.',
          '{"error":"database is locked"}',
        ),
        error: responseError,
      })
      .nullable(),
    'The last failed attempt, or null when the webhook is not failing.',
    null,
  ),
  suspended_until: time(
    'Time before which the service attempts no delivery, after failures in a row, or null.',
  ).nullable(),
  created_at: time('Time of registration.'),
  etag: entityTag,
};

export const webhook = z.object(fields).meta({ id: 'Webhook' });

export const webhookWithSecret = z
  .object({
    ...fields,
    signing_secret: z.string().meta({
      description: 'Secret to verify signatures (Standard Webhooks). It is returned only here.',
      examples: ['whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDm2OZ7aI+mEc='],
    }),
  })
  .meta({ id: 'WebhookWithSecret' });

export const webhookList = listOf('WebhookList', webhook);
export const webhookDeleted = deleted('DeletedWebhook', 'webhook');

export const deliveryStatus = doc(
  z.enum(['pending', 'delivered', 'failed']),
  'Status of the delivery. It is `pending` until a 2xx response or the last retry.',
);

const loggedAttempt = z.object({
  at: time('Time of the attempt.'),
  status: doc(
    z.int().min(0).nullable(),
    'HTTP status of the response, or null without a response.',
    200,
  ),
  latency_ms: shown(z.int().min(0), 84),
  answer: doc(
    z.string().nullable(),
    'First 4 KB of the response, or null without a response.',
    'OK',
  ),
  error: responseError,
});

const deliveryFields = {
  object: z.literal('webhook_delivery'),
  id: idSchema('Id of the delivery and its event, as in the `webhook-id` header of every attempt.'),
  type: z.string().meta({ description: 'Type of the event.', examples: ['email.delivered'] }),
  email_id: idSchema('Email of the event, or null when it concerns no email.').nullable(),
  recipient: doc(
    z.string().nullable(),
    'Recipient of the event, or the only recipient of its email, or null.',
    'jo@example.com',
  ),
  status: deliveryStatus,
  attempts: doc(z.int().min(0), 'Number of attempts so far.', 1),
  created_at: time('Time of the event.'),
  completed_at: time(
    'Time of the 2xx response or of the last failed attempt, or null while pending.',
  ).nullable(),
  next_attempt_at: time('Due time of the next attempt, or null without one.').nullable(),
  last_attempt: loggedAttempt
    .extend({
      answer: doc(
        z.string().nullable(),
        'First 200 characters of the response, or null without a response.',
        'OK',
      ),
    })
    .nullable()
    .describe('The last attempt, or null before the first.'),
};

export const webhookDelivery = z.object(deliveryFields).meta({ id: 'WebhookDelivery' });

export const webhookDeliveryDetail = z
  .object({
    ...deliveryFields,
    log: z.array(loggedAttempt).describe('Last 20 attempts, oldest first.'),
    payload: doc(
      z
        .object({
          type: z.string().meta({ examples: ['email.delivered'] }),
          created_at: time('Time of the event.'),
          data: shown(z.unknown(), { email_id: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa' }),
        })
        .nullable(),
      'Body of the request, or null when the retention has removed the event.',
    ),
  })
  .meta({ id: 'WebhookDeliveryDetail' });

export const webhookDeliveryList = listOf('WebhookDeliveryList', webhookDelivery, {
  scanned_until: idSchema(
    'Position of the search, to pass as `after` when the list continues. One call searches at most ' +
      '50,000 deliveries with a filter other than `status=failed`, `email_id` and `recipient`.',
  ).nullable(),
});
export const deliveryParams = z.object({
  id: idSchema('The id of the webhook.'),
  delivery_id: idSchema('The id of the delivery.'),
});

const instant = (description: string) =>
  z.iso.datetime({ offset: true }).meta({ description, examples: ['2026-11-21T08:00:00Z'] });

const replayedType = z.enum([...EVENT_TYPES, 'webhook.test']);
const replayedCode = z
  .string()
  .regex(/^(none|[1-5](\d\d|xx))$/, 'must be a status such as 500, a class such as 5xx, or none')
  .meta({ examples: ['5xx'] });
const REPLAYED_CODE =
  'Includes only deliveries whose last attempt got this HTTP status (`500`), a status of this class (`5xx`), or no ' +
  'response (`none`).';

export const webhookReplayRequest = z
  .strictObject({
    since: instant('Start of the period. It includes events of this time.'),
    until: instant('End of the period, at most the current time. It excludes events of this time.'),
    status: deliveryStatus.optional().describe('Includes only deliveries with this status.'),
    type: replayedType.optional().describe('Includes only deliveries of this type of event.'),
    code: replayedCode.optional().describe(REPLAYED_CODE),
  })
  .meta({ id: 'WebhookReplayCreation' });

export const replayParams = z.object({
  id: idSchema('The id of the webhook.'),
  replay_id: idSchema('The id of the replay.'),
});

export const webhookReplay = z
  .object({
    object: z.literal('webhook_replay'),
    id: idSchema('The replay.'),
    webhook_id: idSchema('Webhook of the replay.'),
    status: doc(
      z.enum(['running', 'completed', 'canceled']),
      'Status of the replay. `completed`: all deliveries are queued. `canceled`: the webhook was disabled ' +
        'or deleted.',
    ),
    since: time('Start of the period. It includes events of this time.'),
    until: time('End of the period. It excludes events of this time.'),
    delivery_status: deliveryStatus
      .nullable()
      .describe('Includes only deliveries with this status.'),
    type: replayedType.nullable().describe('Includes only deliveries of this type of event.'),
    code: replayedCode.nullable().describe(REPLAYED_CODE),
    total: doc(z.int().min(0), 'Number of matching deliveries when the replay began.', 1200),
    queued: doc(z.int().min(0), 'Number of deliveries queued so far.', 400),
    created_at: time('Start of the replay.'),
    completed_at: time('End of the replay, or null while it runs.').nullable(),
  })
  .meta({ id: 'WebhookReplay', description: 'A replay of the deliveries of a period.' });
