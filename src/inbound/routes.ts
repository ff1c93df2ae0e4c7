/** Routes of messages received by SMTP, for operators: reports about our mail, and unmatched mail. */
import { z } from 'zod';
import {
  findInbound,
  INBOUND_KINDS,
  type InboundMessage,
  listInbound,
} from './inbound-message-store.ts';
import { isId } from '../database/ids.ts';
import { refuseFields } from '../core/refusals.ts';
import { notFound, refuse } from '../http/errors.ts';
import { listResponse } from '../http/list-pages.ts';
import { requireOperator } from '../http/operators.ts';
import {
  environment,
  failures,
  idParams,
  idSchema,
  limitField,
  listOf,
  time,
} from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];

export function registerInboundRoutes(app: App, { db }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: requireOperator(db) };
  app.get('/v1/operator/inbound', {
    ...route,
    schema: {
      summary: 'List received messages',
      description:
        'Lists bounces, complaints and other messages to the return paths of all projects, newest first. For ' +
        'owners.',
      operationId: 'listInbound',
      tags: TAGS,
      security: BY_SESSION,
      querystring: inboundQuery,
      response: { 200: inboundList, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const { limit, after = null, kind = null } = request.query;
      if (after !== null && !isId(after)) {
        const message = 'must be an id from this list';
        return refuse(reply, refuseFields([{ field: 'after', message }]));
      }
      const found = await listInbound(db, { limit: limit + 1, kind, before: after });
      return listResponse(found.map(inboundToWire), limit);
    },
  });

  app.get('/v1/operator/inbound/:id', {
    ...route,
    schema: {
      summary: 'Read a received message',
      description: 'Returns a message with its first 256 KB as received. For owners.',
      operationId: 'getInbound',
      tags: TAGS,
      security: BY_SESSION,
      params: idParams('message'),
      response: { 200: inboundDetail, ...failures(404) },
    },
    handler: async (request, reply) => {
      const found = await findInbound(db, request.params.id);
      if (found === null) return notFound(reply, 'message');
      return { ...inboundToWire(found), content: found.content.toString() };
    },
  });
}

function inboundToWire(message: InboundMessage) {
  return {
    object: 'inbound_message' as const,
    id: message.id,
    received_at: message.receivedAt.toISOString(),
    remote_address: message.remoteAddress,
    sender: message.sender,
    recipient: message.recipient,
    kind: message.kind,
    project_id: message.projectId,
    environment: message.environment,
    email_id: message.emailId,
    position: message.position,
    change: message.change,
    size_bytes: message.sizeBytes,
  };
}

const inboundQuery = z.strictObject({
  limit: limitField,
  after: z
    .string()
    .optional()
    .meta({
      description: 'Returns only messages that arrived before this one, for the next page.',
      format: 'uuid',
      examples: ['0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa'],
    }),
  kind: z.enum(INBOUND_KINDS).optional().describe('Returns only messages of this kind.'),
});

const inboundMessage = z
  .object({
    object: z.literal('inbound_message'),
    id: idSchema('The message.'),
    received_at: time('Time of arrival.'),
    remote_address: z
      .string()
      .meta({ description: 'IP address of the sending client.', examples: ['203.0.113.7'] }),
    sender: z.string().describe('Envelope sender. Empty for a bounce.'),
    recipient: z.string().describe('Envelope recipient.'),
    kind: z.enum(INBOUND_KINDS),
    project_id: idSchema('Project of the matching email, or null without a match.').nullable(),
    environment: environment.nullable(),
    email_id: idSchema('Email that the message reports on, or null without a match.').nullable(),
    position: z
      .int()
      .nullable()
      .describe('Index of the recipient in that email, from 0, or null without a match.'),
    change: z
      .string()
      .nullable()
      .meta({
        description: 'New status of that recipient, or null when it did not change.',
        examples: ['bounced'],
      }),
    size_bytes: z.int().describe('Size of the whole message in bytes.'),
  })
  .meta({ id: 'InboundMessage' });

const inboundList = listOf('InboundMessageList', inboundMessage);

const inboundDetail = inboundMessage
  .extend({ content: z.string().describe('Message as received, with its header, at most 256 KB.') })
  .meta({ id: 'InboundMessageDetail' });
