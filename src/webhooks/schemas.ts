/** Webhooks in requests and responses: endpoints, deliveries and replays. */
import { z } from 'zod';
import { EVENT_TYPES } from '../core/events.ts';
import { deleted, doc, idSchema, listOf, listQuery, shown, time } from '../http/schemas.ts';

const url = z.string().meta({
  description: 'HTTPS, on a public address. Redirects are not followed.',
  examples: ['https://acme.com/hooks/mail'],
});
const events = doc(
  z.array(z.enum(EVENT_TYPES)).min(1).max(100).nullable(),
  'The types of events to send. Null sends all, including those added later.',
  ['email.delivered', 'email.bounced'],
);
const webhookStatus = doc(
  z.enum(['enabled', 'disabled']),
  'A disabled webhook receives no events. Its pending deliveries have failed.',
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

const fields = {
  object: z.literal('webhook'),
  id: idSchema('The webhook.'),
  url,
  events,
  status: webhookStatus,
  disabled_reason: doc(
    z.string().nullable(),
    'Why the service disabled it; null if it did not.',
    null,
  ),
  failing_since: time(
    'When attempts began to fail without a success since; null when it is not failing.',
  ).nullable(),
  created_at: time('When it was registered.'),
};

export const webhook = z.object(fields).meta({ id: 'Webhook' });

export const webhookWithSecret = z
  .object({
    ...fields,
    signing_secret: z.string().meta({
      description: 'Verifies signatures (Standard Webhooks). Shown only here.',
      examples: ['whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDm2OZ7aI+mEc='],
    }),
  })
  .meta({ id: 'WebhookWithSecret' });

export const webhookList = listOf('WebhookList', webhook);
export const webhookDeleted = deleted('DeletedWebhook', 'webhook');

const deliveryStatus = doc(
  z.enum(['pending', 'delivered', 'failed']),
  '`pending` until a 2xx response or the last retry.',
);

const deliveryFields = {
  object: z.literal('webhook_delivery'),
  id: idSchema('The delivery and its event: the `webhook-id` header of every attempt.'),
  type: z.string().meta({ description: 'The type of event.', examples: ['email.delivered'] }),
  status: deliveryStatus,
  attempts: doc(z.int().min(0), 'Attempts so far.', 1),
  created_at: time('When the event occurred.'),
  completed_at: time('When it got a 2xx response, or its last attempt failed.').nullable(),
  next_attempt_at: time('When the next attempt is due.').nullable(),
};

export const webhookDelivery = z.object(deliveryFields).meta({ id: 'WebhookDelivery' });

const loggedAttempt = z.object({
  at: time('When it was sent.'),
  status: doc(
    z.int().min(0).nullable(),
    'The HTTP status of the response; null without a response.',
    200,
  ),
  latency_ms: shown(z.int().min(0), 84),
  answer: doc(z.string().nullable(), 'The first 4 KB of the response.', 'OK'),
  error: doc(z.string().nullable(), 'Why there was no response, or the problem with it.', null),
});

export const webhookDeliveryDetail = z
  .object({
    ...deliveryFields,
    log: z.array(loggedAttempt).describe('The newest 20 attempts, oldest first.'),
    payload: doc(
      z
        .object({
          type: z.string().meta({ examples: ['email.delivered'] }),
          created_at: time('When the event occurred.'),
          data: shown(z.unknown(), { email_id: '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa' }),
        })
        .nullable(),
      'The request body; null when the event is past its retention.',
    ),
  })
  .meta({ id: 'WebhookDeliveryDetail' });

export const webhookDeliveryList = listOf('WebhookDeliveryList', webhookDelivery, {
  scanned_until: idSchema(
    'With `type`, or `status` `pending` or `delivered`, at most 50,000 deliveries are searched ' +
      'per call. If the list continues, this is the position: continue with `after` ' +
      'this id.',
  ).nullable(),
});
export const webhookDeliveryQuery = listQuery({
  status: deliveryStatus.optional(),
  type: doc(z.enum([...EVENT_TYPES, 'webhook.test']).optional(), 'Only events of this type.'),
});

export const deliveryParams = z.object({
  id: idSchema('The id of the webhook.'),
  delivery_id: idSchema('The id of the delivery.'),
});

const instant = (description: string) =>
  z.iso.datetime({ offset: true }).meta({ description, examples: ['2026-11-21T08:00:00Z'] });

export const webhookReplayRequest = z
  .strictObject({
    since: instant('Events from this time on …'),
    until: instant('… and before this time; never later than now.'),
    status: deliveryStatus.optional().describe('Only deliveries with this status.'),
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
    webhook_id: idSchema('Its webhook.'),
    status: doc(
      z.enum(['running', 'completed', 'canceled']),
      '`completed`: all are queued. `canceled`: the webhook was disabled or deleted.',
    ),
    since: time('Events from this time on …'),
    until: time('… and before this time.'),
    delivery_status: deliveryStatus.nullable().describe('Only deliveries with this status.'),
    total: doc(z.int().min(0), 'The number of deliveries in its range at its start.', 1200),
    queued: doc(z.int().min(0), 'The number of deliveries queued so far.', 400),
    created_at: time('When it began.'),
    completed_at: time('When it ended.').nullable(),
  })
  .meta({ id: 'WebhookReplay', description: 'A replay of the deliveries of a period.' });
