/** Webhooks: register, list, change, delete, rotate the secret, try out (webhooks/service.ts). */
import { isRefusal } from '../../core/refusals.ts';
import {
  presentDeliveryDetail,
  presentWebhook,
  presentWithSecret,
} from '../../webhooks/present.ts';
import { callerOf } from '../authenticate.ts';
import { refuse } from '../errors.ts';
import { pageAnswer, pageFrom } from '../list.ts';
import { failures, idParams, pageQuery } from '../schemas/common.ts';
import {
  webhook,
  webhookChange,
  webhookCreation,
  webhookDeleted,
  webhookDeliveryDetail,
  webhookList,
  webhookWithSecret,
} from '../schemas/webhooks.ts';
import type { App, HttpServices } from '../services.ts';
import { registerWebhookDeliveryRoutes } from './webhook-deliveries.ts';

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
