/** Routes of the log of webhook deliveries: the list with its filters, statistics, and the replay of a selection. */
import type { z } from 'zod';
import { isRefusal } from '../../core/refusals.ts';
import { DAY_MS } from '../../lib/units.ts';
import { countTowardsLimit } from '../../accounts/limits/http-limits.ts';
import { callerOf } from '../../http/access.ts';
import { badFields, refuse } from '../../http/errors.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { failures, idParams } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { deliveryParams, webhookDeliveryDetail, webhookDeliveryList } from '../schemas.ts';
import { deliveryDetailToWire, deliveryToWire, statisticsToWire } from '../wire.ts';
import {
  statisticsQuery,
  webhookDeliveryQuery,
  webhookSelection,
  webhookSelectionReplay,
  webhookStatistics,
} from './schemas.ts';

const TAGS = ['Webhooks'];
const params = idParams('webhook');

export function registerDeliveryRoutes(app: App, services: HttpServices): void {
  registerList(app, services);
  registerStatistics(app, services);
  registerSelection(app, services);
}

function registerList(app: App, { webhooks }: HttpServices): void {
  app.get('/v1/webhooks/:id/deliveries', {
    schema: {
      summary: 'List deliveries of a webhook',
      description:
        'Lists the deliveries of a webhook, newest first. `email_id` and `recipient` cannot be combined.',
      operationId: 'listWebhookDeliveries',
      tags: TAGS,
      params,
      querystring: webhookDeliveryQuery,
      response: { 200: webhookDeliveryList, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const page = readPage(request.query);
      const { id } = request.params;
      const filter = { ...filterOf(request.query), page };
      const found = await webhooks.listDeliveries(callerOf(request), id, filter);
      if (isRefusal(found)) return refuse(reply, found);
      return { ...pageResponse(found, deliveryToWire), scanned_until: found.scannedUntil };
    },
  });

  app.get('/v1/webhooks/:id/deliveries/:delivery_id', {
    schema: {
      summary: 'Get a delivery',
      description: 'Returns a delivery with its payload and attempts.',
      operationId: 'getWebhookDelivery',
      tags: TAGS,
      params: deliveryParams,
      response: { 200: webhookDeliveryDetail, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id: endpointId, delivery_id: id } = request.params;
      const found = await webhooks.findDelivery(callerOf(request), { endpointId, id });
      return isRefusal(found) ? refuse(reply, found) : deliveryDetailToWire(found);
    },
  });
}

function filterOf(query: z.output<typeof webhookDeliveryQuery>) {
  const { status = null, type = null, code = null, since, until, email_id: emailId } = query;
  const { recipient: recipientKey } = query;
  if (emailId !== undefined && recipientKey !== undefined) {
    const message = 'cannot be used together with email_id; leave one of them out';
    throw badFields([{ field: 'recipient', message }]);
  }
  const ofEmail = emailId === undefined ? null : { emailId };
  return {
    status,
    type,
    code,
    since: since === undefined ? null : new Date(since),
    until: until === undefined ? null : new Date(until),
    about: recipientKey === undefined ? ofEmail : { recipientKey },
  };
}

function registerStatistics(app: App, { webhooks, world }: HttpServices): void {
  app.get('/v1/webhooks/:id/statistics', {
    schema: {
      summary: 'Get statistics of a webhook',
      description:
        'Returns the deliveries of a period by interval, and why deliveries fail: failures grouped by response. ' +
        'Failures include the oldest pending deliveries, which a failing webhook gets first.',
      operationId: 'getWebhookStatistics',
      tags: TAGS,
      params,
      querystring: statisticsQuery,
      response: { 200: webhookStatistics, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const { intervals, ...given } = request.query;
      const until = given.until === undefined ? new Date(world.now()) : new Date(given.until);
      const since = new Date(given.since ?? until.getTime() - DAY_MS);
      if (since >= until) throw badFields([{ field: 'until', message: 'must be after since' }]);
      const range = { since, until, intervals };
      const found = await webhooks.statistics(callerOf(request), request.params.id, range);
      return isRefusal(found) ? refuse(reply, found) : statisticsToWire(found, range);
    },
  });
}

function registerSelection(app: App, services: HttpServices): void {
  const { webhooks } = services;
  app.post('/v1/webhooks/:id/deliveries/replay', {
    config: { limit: 'webhooks' },
    schema: {
      summary: 'Replay some deliveries',
      description:
        'Sends up to 500 deliveries again now, like the replay of one delivery, in a single request.',
      operationId: 'replayWebhookDeliveries',
      tags: TAGS,
      params,
      body: webhookSelection,
      response: { 202: webhookSelectionReplay, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const found = await webhooks.get(callerOf(request), id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'webhooks'))) return reply;
      const replayed = await webhooks.replaySelected(callerOf(request), id, request.body.ids);
      if (isRefusal(replayed)) return refuse(reply, replayed);
      return reply.code(202).send({ object: 'webhook_selection_replay' as const, ...replayed });
    },
  });
}
