/**
 * `/emails` of the root mount: sending, batches, reading, rescheduling and canceling, by the same functions as
 * `/v1/emails`.
 *
 * One rule differs: an email whose recipients are all suppressed is accepted and ends as `suppressed`, because
 * clients of Resend expect the event.
 */
import type { FastifyReply } from 'fastify';
import { z } from 'zod';
import { isRefusal, type Refusal } from '../../core/refusals.ts';
import type { AcceptResult } from '../../accept/accept-results.ts';
import type { EmailDraft } from '../../accept/draft.ts';
import { cancel, reschedule } from '../../emails/schedule.ts';
import type { EmailDetail } from '../../emails/email-store.ts';
import { listEmails } from '../../emails/list/email-list-store.ts';
import { callerOf } from '../../http/access.ts';
import { asJson, respondWithEmail } from '../../emails/inspection/http-content-reads.ts';
import {
  createDraftMaker,
  type DraftMaker,
  findRepetitionOfRequest,
} from '../../accept/http-draft.ts';
import { notFound, refuse, setLimitHeaders } from '../../http/errors.ts';
import { filterFrom } from '../../emails/http-filter.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { arrayOfItems, draftItem, idempotencyOf, validationOf } from '../../accept/routes.ts';
import { ownKeyOf, refOf } from '../../emails/routes.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { listedEmailToResend, emailToResend, readNewEmail, readTime } from './wire/email-wire.ts';
import { HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

/** The command line of Resend writes the values of all variables as strings. */
const NUMBERS_AS_TEXT = { numbersAsText: true } as const;

export function registerResendEmails(app: App, services: HttpServices): void {
  registerSend(app, services);
  registerBatch(app, services);
  registerReads(app, services);
  registerChanges(app, services);
}

function registerSend(app: App, services: HttpServices): void {
  // The first clients of Ruby and PHP use the singular path.
  for (const path of ['/emails', '/email']) registerSendAt(app, services, path);
}

function registerSendAt(app: App, services: HttpServices, path: string): void {
  app.post(path, {
    config: { access: 'any_key', limit: 'sending', withinDomain: true },
    schema: { ...HIDDEN, body: z.unknown() },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const idempotency = idempotencyOf(request, 'POST /emails');
      const makeDraft = createDraftMaker(services, request, NUMBERS_AS_TEXT);
      const draft = await readDraft(request.body, { makeDraft, nowMs: services.world.now() });
      if (isRefusal(draft)) {
        const emails = [request.body];
        const repetition = await findRepetitionOfRequest(services, request, {
          emails,
          idempotency,
        });
        return repetition === null ? refuse(reply, draft) : sendResult(reply, repetition);
      }
      return sendResult(reply, await services.accept(caller, draft, idempotency));
    },
  });
}

async function readDraft(
  body: unknown,
  { makeDraft, nowMs }: { makeDraft: DraftMaker; nowMs: number },
): Promise<EmailDraft | Refusal> {
  const translated = readNewEmail(body, nowMs);
  if (isRefusal(translated)) return translated;
  const draft = await draftItem(translated.body, makeDraft);
  return isRefusal(draft) ? draft : { ...draft, acceptsSuppressed: true };
}

function sendResult(reply: FastifyReply, result: AcceptResult): FastifyReply {
  if (result.kind === 'refused') return refuse(reply, result);
  const { id } = readAcceptedBody(reply, result) as { id: string };
  return reply.code(200).send({ id });
}

/** Sets the headers of an accepted request, and returns its body in the format of `/v1`. */
function readAcceptedBody(
  reply: FastifyReply,
  result: Exclude<AcceptResult, { kind: 'refused' }>,
): unknown {
  if (result.limit !== null) setLimitHeaders(reply, result.limit);
  if (result.kind === 'repeated') reply.header('idempotent-replayed', 'true');
  return JSON.parse(result.body);
}

function registerBatch(app: App, services: HttpServices): void {
  app.post('/emails/batch', {
    config: { access: 'any_key', limit: 'sending', withinDomain: true },
    schema: { ...HIDDEN, body: arrayOfItems },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const validation = validationOf(request);
      const idempotency = idempotencyOf(request, 'POST /emails/batch');
      const items: (EmailDraft | Refusal)[] = [];
      // One after the other, as in /v1, because each may render a template.
      const drafting = {
        makeDraft: createDraftMaker(services, request, NUMBERS_AS_TEXT),
        nowMs: services.world.now(),
      };
      for (const item of request.body) items.push(await readDraft(item, drafting));
      const emails = items.some(isRefusal) ? request.body : [];
      const result =
        (await findRepetitionOfRequest(services, request, { emails, idempotency })) ??
        (await services.acceptBatch(caller, items, { validation, idempotency }));
      if (result.kind === 'refused') return refuse(reply, result);
      const { data, errors } = readAcceptedBody(reply, result) as BatchBody;
      if (validation === 'strict') return { data };
      return { data, errors: errors.map(({ index, message }) => ({ index, message })) };
    },
  });
}

type BatchBody = { data: { id: string }[]; errors: { index: number; message: string }[] };

function registerReads(app: App, { db }: HttpServices): void {
  app.get('/emails', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, querystring: pageQuery },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const page = readPage(request.query);
      const reach = { keyId: ownKeyOf(caller), domain: caller.domain };
      const filter = filterFrom({}, reach);
      if (isRefusal(filter)) return refuse(reply, filter);
      return pageResponse(
        await listEmails(db.readsOf(caller.projectId), caller, { page, filter }),
        listedEmailToResend,
      );
    },
  });

  app.get('/emails/:id', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const ref = refOf(request);
      const { projectId: owner } = callerOf(request);
      const render = (email: EmailDetail) => asJson(emailToResend(email));
      const isSent = ref !== null && (await respondWithEmail({ db, owner, reply }, ref, render));
      return isSent ? reply : notFound(reply, 'email');
    },
  });
}

function registerChanges(app: App, { db, world }: HttpServices): void {
  app.patch('/emails/:id', {
    config: { withinDomain: true },
    schema: {
      ...HIDDEN,
      params: idInPath,
      body: z.object({ scheduled_at: z.string() }),
    },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (ref === null) return notFound(reply, 'email');
      const time = readTime(request.body.scheduled_at, world.now());
      if (typeof time !== 'string') return refuse(reply, time);
      const email = await reschedule(db, ref, { at: time, contentBytesMax: 0 });
      return isRefusal(email) ? refuse(reply, email) : { object: 'email', id: email.id };
    },
  });

  app.post('/emails/:id/cancel', {
    config: { access: 'any_key', withinDomain: true },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const ref = refOf(request);
      if (ref === null) return notFound(reply, 'email');
      const email = await cancel(db, ref, 0);
      return isRefusal(email) ? refuse(reply, email) : { object: 'email', id: email.id };
    },
  });
}
