/** Routes of emails: reading, canceling and rescheduling. accept/routes.ts contains those that send. */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isRefusal, type Refusal } from '../core/refusals.ts';
import type { Caller } from '../core/scope.ts';
import type { MessageRecipient } from '../delivery/message/message-builder.ts';
import { addressKey, parseAddress } from '../mail/address.ts';
import { cancel, reschedule } from './schedule.ts';
import { eventToWire, summaryToWire, taggedEmailToWire } from './wire.ts';
import { countEmails } from './list/email-counts-store.ts';
import { listEmails } from './list/email-list-store.ts';
import {
  type EmailDetail,
  type EmailRef,
  emailExists,
  findEmail,
  listTimeline,
} from './email-store.ts';
import { isId } from '../database/ids.ts';
import { callerOf } from '../http/access.ts';
import {
  asJson,
  changeInTurn,
  reserveResponse,
  readInTurn,
  respondWithEmail,
} from './inspection/http-content-reads.ts';
import { notFound, refuse } from '../http/errors.ts';
import { filterFrom } from './http-filter.ts';
import { listResponse, pageResponse, readPage } from '../http/list-pages.ts';
import { expectedBy, failures, idParams, preconditionHeaders, tagged } from '../http/schemas.ts';
import { diagnosis } from './diagnosis/schemas.ts';
import {
  contentQuery,
  email,
  emailCountQuery,
  emailCounts,
  emailList,
  emailQuery,
  messageBytes,
  timeline,
  timelineQuery,
} from './schemas.ts';
import { emailChange } from '../accept/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

const TAGS = ['Emails'];
const params = idParams('email');

export function registerEmailRoutes(app: App, services: HttpServices): void {
  registerList(app, services);
  registerCounts(app, services);
  registerOne(app, services);
  registerChanges(app, services);
  registerTimeline(app, services);
  registerContent(app, services);
  registerDiagnosis(app, services);
}

function registerList(app: App, { db }: HttpServices): void {
  app.get('/v1/emails', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'List emails',
      description:
        'Lists emails, newest first. A sending-only key sees only emails that it sent. A key for one domain ' +
        'sees only emails of that domain.',
      operationId: 'listEmails',
      tags: TAGS,
      querystring: emailQuery,
      response: { 200: emailList, ...failures(422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const page = readPage(request.query);
      const filter = filterFrom(request.query, { keyId: ownKeyOf(caller), domain: caller.domain });
      if (isRefusal(filter)) return refuse(reply, filter);
      const found = await listEmails(db.readsOf(caller.projectId), caller, { page, filter });
      return { ...pageResponse(found, summaryToWire), scanned_until: found.scannedUntil };
    },
  });
}

function registerCounts(app: App, { db }: HttpServices): void {
  app.get('/v1/emails/counts', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Count emails',
      description:
        'Counts emails by status, with the filters of the list. One call searches as many emails as one page of the ' +
        'list; `scanned_until` is set when there are older ones.',
      operationId: 'countEmails',
      tags: TAGS,
      querystring: emailCountQuery,
      response: { 200: emailCounts, ...failures(422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const filter = filterFrom(request.query, { keyId: ownKeyOf(caller), domain: caller.domain });
      if (isRefusal(filter)) return refuse(reply, filter);
      const found = await countEmails(db.readsOf(caller.projectId), caller, filter);
      return {
        object: 'email_counts' as const,
        total: found.total,
        statuses: Object.fromEntries(found.statuses),
        scanned_until: found.scannedUntil,
      };
    },
  });
}

function registerOne(app: App, { db }: HttpServices): void {
  app.get('/v1/emails/:id', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Get an email',
      description: 'Returns an email with its current status and the status of each recipient.',
      operationId: 'getEmail',
      tags: TAGS,
      params,
      response: { 200: email, ...failures(404) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      const { projectId: owner } = callerOf(request);
      const show = (found: EmailDetail) => asJson(tagged(reply, taggedEmailToWire(found)));
      const isSent = ref !== null && (await respondWithEmail({ db, owner, reply }, ref, show));
      return isSent ? reply : notFound(reply, 'email');
    },
  });
}

function registerChanges(app: App, { db }: HttpServices): void {
  // Not for sending-only keys, which can only POST and read their own emails.
  app.patch('/v1/emails/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Reschedule an email',
      description:
        'Changes the scheduled time of an email before its first attempt. Returns 409 after that. ' +
        '`expires_in` counts from the new time. With `If-Match`, only if nobody has changed the time since.',
      operationId: 'rescheduleEmail',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      body: emailChange,
      response: { 200: email, ...failures(400, 404, 409, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (ref === null) return notFound(reply, 'email');
      const change = { at: request.body.scheduled_at, isExpected: expectedBy(request) };
      const { projectId: owner } = callerOf(request);
      const turn = { db, owner, reply };
      const found = await changeInTurn(turn, ref, () => reschedule(db, ref, change));
      return isRefusal(found) ? refuse(reply, found) : tagged(reply, taggedEmailToWire(found));
    },
  });

  app.post('/v1/emails/:id/cancel', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Cancel an email',
      description:
        'Cancels the scheduled, queued and deferred recipients of an email, with one event `email.canceled`. ' +
        'Recipients that have ended, or that a worker is sending to now, do not change. Returns 409 when no ' +
        'recipient can be canceled. A sending-only key can cancel only emails that it sent.',
      operationId: 'cancelEmail',
      tags: TAGS,
      params,
      response: { 200: email, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (ref === null) return notFound(reply, 'email');
      const { projectId: owner } = callerOf(request);
      const turn = { db, owner, reply };
      const found = await changeInTurn(turn, ref, () => cancel(db, ref));
      return isRefusal(found) ? refuse(reply, found) : tagged(reply, taggedEmailToWire(found));
    },
  });
}

function registerTimeline(app: App, { db }: HttpServices): void {
  app.get('/v1/emails/:id/events', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Get the timeline of an email',
      description:
        'Lists the events of an email, oldest first, with the SMTP dialogue of every attempt.',
      operationId: 'listEmailEvents',
      tags: TAGS,
      params,
      querystring: timelineQuery,
      response: { 200: timeline, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (!ref || !(await emailExists(db, ref))) return notFound(reply, 'email');
      const { limit, after } = request.query;
      const events = await listTimeline(db, ref, { after, limit: limit + 1 });
      return listResponse(events.map(eventToWire), limit);
    },
  });
}

function registerContent(app: App, { db, contentOf }: HttpServices): void {
  app.get('/v1/emails/:id/content', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Get the exact bytes of an email',
      description:
        'Returns the message as sent, with headers and signatures, until the retention of content ends. All ' +
        'recipients get the same bytes, unless each has its own unsubscribe link.',
      operationId: 'getEmailContent',
      tags: TAGS,
      params,
      querystring: contentQuery,
      response: { 200: messageBytes, ...failures(404, 422) },
    },
    handler: (request, reply) =>
      readInTurn(callerOf(request).projectId, reply, async () => {
        const ref = refOf(request);
        const found = ref && (await findEmail(db, ref, 0));
        if (!ref || !found) return notFound(reply, 'email');
        const recipient = chosenRecipient(found, request.query.recipient);
        if (recipient === null) return refuse(reply, NO_SUCH_RECIPIENT);
        const bytes = await contentOf({ ...ref, recipient });
        if (bytes === null) return refuse(reply, CONTENT_GONE);
        reserveResponse(callerOf(request).projectId, reply, bytes.length);
        // A browser must not render a customer's HTML.
        return (reply as FastifyReply)
          .headers({
            'content-type': 'message/rfc822',
            'content-disposition': `attachment; filename="${ref.id}.eml"`,
            'x-content-type-options': 'nosniff',
          })
          .send(bytes);
      }),
  });
}

function registerDiagnosis(app: App, { diagnose }: HttpServices): void {
  app.get('/v1/emails/:id/diagnosis', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Diagnose why an email is slow or missing',
      description:
        'Returns the last attempt of each recipient in words, the limit that it waits for, the DNS findings ' +
        'about its domain, and the next step. A finding is `unknown` when DNS does not answer within seconds.',
      operationId: 'diagnoseEmail',
      tags: TAGS,
      params,
      response: { 200: diagnosis, ...failures(404) },
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      const found = ref && (await diagnose(ref));
      return found ?? notFound(reply, 'email');
    },
  });
}

export const NO_SUCH_RECIPIENT: Refusal = {
  refused: 'not_found',
  message: 'The email has no recipient with this address; GET the email for its recipients.',
};

/** Returns the requested recipient, by default the first, or null when it is not a recipient. */
export function chosenRecipient(
  found: EmailDetail,
  wanted: string | undefined,
): MessageRecipient | null {
  const recipients = found.recipients.flatMap(({ address }, position) => {
    const parsed = parseAddress(address);
    return parsed === null ? [] : [{ address: parsed, position }];
  });
  if (wanted === undefined) return recipients[0] ?? null;
  const asked = parseAddress(wanted);
  const key = asked && addressKey(asked);
  return recipients.find(({ address }) => addressKey(address) === key) ?? null;
}

export const CONTENT_GONE: Refusal = {
  refused: 'not_found',
  message: 'The content of this email was removed after its retention; its record is kept.',
};

/** Returns the email in the path with the caller's restrictions; null when it is not an id. */
export function refOf(request: FastifyRequest<{ Params: { id: string } }>): EmailRef | null {
  const { id } = request.params;
  const caller = callerOf(request);
  return isId(id) ? { ...caller, id, keyId: ownKeyOf(caller) } : null;
}

/** Returns the key that restricts the caller's emails, or null when they are unrestricted. */
export function ownKeyOf({ permission, keyId }: Caller): string | null {
  return permission === 'sending_access' ? keyId : null;
}
