/** What was sent to a webhook: every delivery with its attempts, and sending it again. */
import { isRefusal } from '../../core/refusals.ts';
import { presentDelivery, presentDeliveryDetail } from '../../webhooks/present.ts';
import { callerOf } from '../authenticate.ts';
import { refuse } from '../errors.ts';
import { pageAnswer, pageFrom } from '../list.ts';
import { failures, idParams } from '../schemas/common.ts';
import {
  deliveryParams,
  webhookDeliveryDetail,
  webhookDeliveryList,
  webhookDeliveryQuery,
  webhookReplay,
  webhookReplayed,
} from '../schemas/webhooks.ts';
import type { App, HttpServices } from '../services.ts';

const TAGS = ['Webhooks'];
const params = idParams('webhook');

export function registerWebhookDeliveryRoutes(app: App, services: HttpServices): void {
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
