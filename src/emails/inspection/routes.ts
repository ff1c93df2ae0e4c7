/**
 * Routes of the inspection of one email: the contents of its message, its attachments, and the webhook deliveries of
 * its events. The message is composed again from stored data, like `GET /v1/emails/:id/content`.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import type { FastifyReply } from 'fastify';
import type { Refusal } from '../../core/refusals.ts';
import { checkHtmlSupport } from '../../mail/html/html-support.ts';
import { type AttachedFile, inspectMessage } from './inspect.ts';
import { lintEmail } from '../../mail/html/lint-email.ts';
import { EMAIL_DEFAULTS } from '../../mail/email.ts';
import { parseAddress } from '../../mail/address.ts';
import { emailToWire } from '../wire.ts';
import { emailExists, type EmailDetail, type EmailRef, findEmail } from '../email-store.ts';
import { listDeliveriesOfEmail } from '../../webhooks/delivery-store.ts';
import { deliveryToWire } from '../../webhooks/wire.ts';
import { callerOf } from '../../http/access.ts';
import { reserveResponse, readInTurn } from './http-content-reads.ts';
import { notFound, refuse } from '../../http/errors.ts';
import { listResponse } from '../../http/list-pages.ts';
import { failures, idParams } from '../../http/schemas.ts';
import {
  attachmentBytes,
  attachmentParams,
  emailInspection,
  emailWebhookDeliveries,
} from './schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { CONTENT_GONE, refOf } from '../routes.ts';

const TAGS = ['Emails'];

export function registerEmailInspectionRoutes(app: App, services: HttpServices): void {
  registerInspection(app, services);
  registerAttachment(app, services);
  registerDeliveries(app, services);
}

function registerInspection(app: App, services: HttpServices): void {
  app.get('/v1/emails/:id/inspection', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Inspect the contents of an email',
      description:
        'Returns the headers, attachments and links of an email, with advice about html that mail programs ' +
        'do not show and content that receivers dislike.',
      operationId: 'inspectEmail',
      tags: TAGS,
      params: idParams('email'),
      response: { 200: emailInspection, ...failures(404) },
    },
    handler: (request, reply) =>
      readInTurn(callerOf(request).projectId, reply, async () => {
        const found = await messageOf(services, refOf(request));
        if (found === null) return notFound(reply, 'email');
        if (found.bytes === null) return refuse(reply, CONTENT_GONE);
        const inspection = await inspectionToWire(found.email, found.bytes);
        reserveResponse(callerOf(request).projectId, reply, inspection.text?.length ?? 0);
        return inspection;
      }),
  });
}

function registerAttachment(app: App, services: HttpServices): void {
  app.get('/v1/emails/:id/attachments/:number', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Download an attachment',
      description: 'Returns an attached file. `GET /v1/emails/:id/inspection` lists the numbers.',
      operationId: 'downloadEmailAttachment',
      tags: TAGS,
      params: attachmentParams,
      response: { 200: attachmentBytes, ...failures(404) },
    },
    handler: (request, reply) =>
      readInTurn(callerOf(request).projectId, reply, async () => {
        const found = await messageOf(services, refOf(request));
        if (found === null) return notFound(reply, 'email');
        if (found.bytes === null) return refuse(reply, CONTENT_GONE);
        await nextTurn();
        const { attachments } = inspectMessage(found.bytes);
        const file = attachments.find(({ number }) => String(number) === request.params.number);
        if (file === undefined) return refuse(reply, NO_SUCH_ATTACHMENT);
        return sendFile(reply, callerOf(request).projectId, file);
      }),
  });
}

/** Sends a stranger's file so that a browser stores it and does not show it. */
export function sendFile(reply: FastifyReply, owner: string, file: AttachedFile): FastifyReply {
  reserveResponse(owner, reply, file.content.length);
  return reply
    .headers({
      'content-type': 'application/octet-stream',
      'content-disposition': `attachment; filename*=UTF-8''${quoted(file.filename)}`,
      'x-content-type-options': 'nosniff',
    })
    .send(file.content);
}

const NO_SUCH_ATTACHMENT: Refusal = {
  refused: 'not_found',
  message: 'The email has no attachment with this number; its inspection lists them.',
};

/** Encodes a file name (RFC 8187 §3.2). */
function quoted(filename: string): string {
  return encodeURIComponent(filename).replaceAll(
    /['()*]/g,
    (one) => `%${one.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

const DELIVERIES_MAX = 100;

function registerDeliveries(app: App, { db }: HttpServices): void {
  app.get('/v1/emails/:id/webhook-deliveries', {
    schema: {
      summary: 'List the webhook deliveries of an email',
      description:
        'Lists the deliveries of the newest 200 events of an email to all webhooks, newest first, at most ' +
        '100.',
      operationId: 'listEmailWebhookDeliveries',
      tags: TAGS,
      params: idParams('email'),
      response: { 200: emailWebhookDeliveries, ...failures(404) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (!ref || !(await emailExists(db, ref))) return notFound(reply, 'email');
      const found = await listDeliveriesOfEmail(db, ref, DELIVERIES_MAX + 1);
      const data = found.map(({ endpointId, url, ...delivery }) => ({
        ...deliveryToWire(delivery),
        webhook_id: endpointId,
        webhook_url: url,
      }));
      return listResponse(data, DELIVERIES_MAX);
    },
  });
}

/** Returns an email and the message to its first recipient. The bytes are null after its retention. */
export async function messageOf(
  { db, contentOf }: HttpServices,
  ref: EmailRef | null,
): Promise<{ email: EmailDetail; bytes: Buffer | null } | null> {
  const email = ref && (await findEmail(db, ref));
  if (!ref || !email) return null;
  const address = parseAddress(email.recipients[0]?.address ?? '');
  if (address === null) return { email, bytes: null };
  return { email, bytes: await contentOf({ ...ref, recipient: { address, position: 0 } }) };
}

async function inspectionToWire(email: EmailDetail, bytes: Buffer) {
  await nextTurn();
  const { headers, attachments, html: sent, text } = inspectMessage(bytes);
  // Lists the sender's own links, not the tracked ones.
  const html = emailToWire(email).html ?? sent;
  await nextTurn();
  const report = checkHtmlSupport(html ?? '');
  await nextTurn();
  const lint = lintEmail({
    ...EMAIL_DEFAULTS,
    from: { name: null, address: email.fromAddress },
    to: [],
    subject: email.subject,
    html,
    text: text ?? '',
    headers: headers.map(({ name, value }) => [name, value] as const),
  });
  return {
    object: 'email_inspection' as const,
    id: email.id,
    size: bytes.length,
    html_size: Buffer.byteLength(sent ?? ''),
    headers,
    attachments: attachments.map(({ number, filename, contentType, contentId, content }) => ({
      number,
      filename,
      content_type: contentType,
      content_id: contentId,
      size: content.length,
    })),
    checks: [...lint, ...report.findings],
    unsupported: report.unsupported.map(({ feature, clients }) => ({
      feature,
      clients: [...clients],
    })),
    text,
    links: report.links,
  };
}
