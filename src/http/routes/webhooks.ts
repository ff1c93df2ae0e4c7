/**
 * Routes of webhooks: management, deliveries with their attempts, and replays. A
 * secret is only in the answer to the request that created it.
 */
import { z } from 'zod';
import { EVENT_TYPES } from '../../core/events.ts';
import { isRefusal } from '../../core/refusals.ts';
import { callerOf } from '../access.ts';
import { refuse } from '../errors.ts';
import { pageAnswer, pageFrom } from '../list.ts';
import {
  deleted,
  failures,
  idSchema,
  idParams,
  listOf,
  listQuery,
  pageQuery,
  time,
} from '../schemas/common.ts';
import type { App, HttpServices } from '../services.ts';
import {
  presentDelivery,
  presentDeliveryDetail,
  presentWebhook,
  presentWithSecret,
} from '../../webhooks/present.ts';

const TAGS = ['Webhooks'];
const params = idParams('webhook');

export function registerWebhookRoutes(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerOne(app, services);
  registerSecretAndTest(app, services);
  registerWebhookDeliveryRoutes(app, services);
}

function registerCreateAndList(app: App, { webhooks }: HttpServices): void {
  app.post('/v1/webhooks', {
    schema: {
      summary: 'Register a webhook',
      description: 'The answer has the signing secret, which is shown once.',
      operationId: 'createWebhook',
      tags: TAGS,
      body: webhookCreation,
      response: { 201: webhookWithSecret, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { url, events = null } = request.body;
      const created = await webhooks.create(callerOf(request), { url, events });
      if (isRefusal(created)) return refuse(reply, created);
      return reply.code(201).send(presentWithSecret(created));
    },
  });

  app.get('/v1/webhooks', {
    schema: {
      summary: 'List webhooks',
      description: 'Those of this project and environment, newest first.',
      operationId: 'listWebhooks',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: webhookList, ...failures(422) },
    },
    handler: async (request, reply) => {
      const page = pageFrom(request.query);
      if (isRefusal(page)) return refuse(reply, page);
      return pageAnswer(await webhooks.list(callerOf(request), page), presentWebhook);
    },
  });
}

function registerOne(app: App, { webhooks }: HttpServices): void {
  app.get('/v1/webhooks/:id', {
    schema: {
      summary: 'Get a webhook',
      operationId: 'getWebhook',
      tags: TAGS,
      params,
      response: { 200: webhook, ...failures(404) },
    },
    handler: async (request, reply) => {
      const found = await webhooks.get(callerOf(request), request.params.id);
      return isRefusal(found) ? refuse(reply, found) : presentWebhook(found);
    },
  });

  app.patch('/v1/webhooks/:id', {
    schema: {
      summary: 'Change a webhook',
      description: 'Only what is given changes. Another URL, or enabling it, is a fresh start.',
      operationId: 'updateWebhook',
      tags: TAGS,
      params,
      body: webhookChange,
      response: { 200: webhook, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const changed = await webhooks.update(callerOf(request), id, request.body);
      return isRefusal(changed) ? refuse(reply, changed) : presentWebhook(changed);
    },
  });

  app.delete('/v1/webhooks/:id', {
    schema: {
      summary: 'Delete a webhook',
      description: 'With its deliveries; what still waits for it is not sent.',
      operationId: 'deleteWebhook',
      tags: TAGS,
      params,
      response: { 200: webhookDeleted, ...failures(404) },
    },
    handler: async (request, reply) => {
      const gone = await webhooks.delete(callerOf(request), request.params.id);
      if (isRefusal(gone)) return refuse(reply, gone);
      return { object: 'webhook' as const, id: gone.id, deleted: true as const };
    },
  });
}

function registerSecretAndTest(app: App, { webhooks }: HttpServices): void {
  app.post('/v1/webhooks/:id/rotate-secret', {
    schema: {
      summary: 'Make a new signing secret',
      description: 'For 24 hours everything is signed with the old one as well.',
      operationId: 'rotateWebhookSecret',
      tags: TAGS,
      params,
      response: { 200: webhookWithSecret, ...failures(404) },
    },
    handler: async (request, reply) => {
      const rotated = await webhooks.rotateSecret(callerOf(request), request.params.id);
      return isRefusal(rotated) ? refuse(reply, rotated) : presentWithSecret(rotated);
    },
  });

  app.post('/v1/webhooks/:id/test', {
    schema: {
      summary: 'Try a webhook out',
      description: 'Sends a `webhook.test` event at once, one attempt, and says what came of it.',
      operationId: 'testWebhook',
      tags: TAGS,
      params,
      response: { 200: webhookDeliveryDetail, ...failures(404) },
    },
    handler: async (request, reply) => {
      const tested = await webhooks.test(callerOf(request), request.params.id);
      return isRefusal(tested) ? refuse(reply, tested) : presentDeliveryDetail(tested);
    },
  });
}

const url = z.string().meta({
  description: 'HTTPS, on a public address. Redirects are not followed.',
  examples: ['https://acme.com/hooks/mail'],
});
const events = z
  .array(z.enum(EVENT_TYPES))
  .min(1)
  .max(100)
  .nullable()
  .meta({
    description: 'The kinds of events to send; null: all, also those added later.',
    examples: [['email.delivered', 'email.bounced']],
  });
const webhookStatus = z
  .enum(['enabled', 'disabled'])
  .describe('A disabled webhook receives nothing; its pending deliveries have failed.');

const webhookCreation = z
  .strictObject({ url, events: events.optional() })
  .meta({ id: 'NewWebhook' });

/** Only what is given changes. */
const webhookChange = z
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
  disabled_reason: z
    .string()
    .nullable()
    .describe('Why the service disabled it; null when it did not.'),
  failing_since: time('Since when every attempt has failed; null: it works.').nullable(),
  created_at: time('When it was registered.'),
};

const webhook = z.object(fields).meta({ id: 'Webhook' });

const webhookWithSecret = z
  .object({
    ...fields,
    signing_secret: z.string().meta({
      description: 'Verifies signatures (Standard Webhooks). It is shown here and never again.',
      examples: ['whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oDm2OZ7aI+mEc='],
    }),
  })
  .meta({ id: 'WebhookWithSecret' });

const webhookList = listOf(webhook);
const webhookDeleted = deleted('webhook');

const deliveryStatus = z
  .enum(['pending', 'delivered', 'failed'])
  .describe('`pending` until it was answered with 2xx, or given up.');

const deliveryFields = {
  object: z.literal('webhook_delivery'),
  id: idSchema('The delivery and its event: the `webhook-id` header of every attempt.'),
  type: z.string().meta({ description: 'The kind of event.', examples: ['email.delivered'] }),
  status: deliveryStatus,
  attempts: z.int().describe('How often it was sent.'),
  created_at: time('When the event happened.'),
  completed_at: time('When it was answered with 2xx, or given up.').nullable(),
  next_attempt_at: time('When it is sent next.').nullable(),
};

const webhookDelivery = z.object(deliveryFields).meta({ id: 'WebhookDelivery' });

const loggedAttempt = z.object({
  at: time('When it was sent.'),
  status: z.int().nullable().describe('The HTTP status of the answer; null: there was none.'),
  latency_ms: z.int(),
  answer: z.string().nullable().describe('The first 4 KB of the answer.'),
  error: z.string().nullable().describe('Why there was no answer, or what is wrong with it.'),
});

const webhookDeliveryDetail = z
  .object({
    ...deliveryFields,
    log: z.array(loggedAttempt).describe('The attempts, oldest first; the newest 20.'),
    payload: z
      .object({
        type: z.string(),
        created_at: time('When the event happened.'),
        data: z.unknown(),
      })
      .nullable()
      .describe('What is sent; null: the event is older than what is kept.'),
  })
  .meta({ id: 'WebhookDeliveryDetail' });

const webhookDeliveryList = listOf(webhookDelivery).extend({
  scanned_until: idSchema(
    'With `status` `pending` or `delivered`, at most 50,000 deliveries are looked through per ' +
      'call. When that ended before the list did, this is where: go on with `after` this id.',
  ).nullable(),
});
const webhookDeliveryQuery = listQuery({ status: deliveryStatus.optional() });

const deliveryParams = z.object({
  id: idSchema('The id of the webhook.'),
  delivery_id: idSchema('The id of the delivery.'),
});

const instant = (description: string) => z.iso.datetime({ offset: true }).describe(description);

const webhookReplay = z
  .strictObject({
    since: instant('Events from this time on …'),
    until: instant('… and before this time.'),
    status: deliveryStatus.optional().describe('Only deliveries with this status.'),
  })
  .meta({ id: 'WebhookReplay' });

const webhookReplayed = z.object({
  object: z.literal('webhook_replay'),
  count: z.int().describe('How many deliveries are sent again.'),
});

function registerWebhookDeliveryRoutes(app: App, services: HttpServices): void {
  registerReading(app, services);
  registerReplay(app, services);
}

function registerReading(app: App, { webhooks }: HttpServices): void {
  app.get('/v1/webhooks/:id/deliveries', {
    schema: {
      summary: 'List deliveries of a webhook',
      description: 'Newest first.',
      operationId: 'listWebhookDeliveries',
      tags: TAGS,
      params,
      querystring: webhookDeliveryQuery,
      response: { 200: webhookDeliveryList, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const page = pageFrom(request.query);
      if (isRefusal(page)) return refuse(reply, page);
      const { status = null } = request.query;
      const { id } = request.params;
      const found = await webhooks.deliveries(callerOf(request), id, { status, page });
      if (isRefusal(found)) return refuse(reply, found);
      return { ...pageAnswer(found, presentDelivery), scanned_until: found.scannedUntil };
    },
  });

  app.get('/v1/webhooks/:id/deliveries/:delivery_id', {
    schema: {
      summary: 'Get a delivery',
      description: 'With its payload and its attempts.',
      operationId: 'getWebhookDelivery',
      tags: TAGS,
      params: deliveryParams,
      response: { 200: webhookDeliveryDetail, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id, delivery_id } = request.params;
      const found = await webhooks.delivery(callerOf(request), id, delivery_id);
      return isRefusal(found) ? refuse(reply, found) : presentDeliveryDetail(found);
    },
  });
}

function registerReplay(app: App, { webhooks }: HttpServices): void {
  app.post('/v1/webhooks/:id/deliveries/:delivery_id/replay', {
    schema: {
      summary: 'Send a delivery again',
      description: 'Now, under its old id, whatever became of it; its retries start anew.',
      operationId: 'replayWebhookDelivery',
      tags: TAGS,
      params: deliveryParams,
      response: { 202: webhookDeliveryDetail, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const { id, delivery_id } = request.params;
      const replayed = await webhooks.replay(callerOf(request), id, delivery_id);
      if (isRefusal(replayed)) return refuse(reply, replayed);
      return reply.code(202).send(presentDeliveryDetail(replayed));
    },
  });

  app.post('/v1/webhooks/:id/replay', {
    schema: {
      summary: 'Send the deliveries of a time again',
      description:
        'At most 50 000 in one call. Only what was once sent to this webhook: events that ' +
        'happened while it was disabled are not among them.',
      operationId: 'replayWebhook',
      tags: TAGS,
      params,
      body: webhookReplay,
      response: { 202: webhookReplayed, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { since, until, status = null } = request.body;
      const range = { since: new Date(since), until: new Date(until), status };
      const replayed = await webhooks.replayRange(callerOf(request), request.params.id, range);
      if (isRefusal(replayed)) return refuse(reply, replayed);
      return reply.code(202).send({ object: 'webhook_replay' as const, count: replayed.count });
    },
  });
}
