/**
 * Routes that send: `POST /v1/emails` and `POST /v1/emails/batch`. They check the shape of a request and make
 * drafts, with rendered templates and downloaded files (http-draft.ts, draft.ts). accept.ts stores one email, and
 * dry-run/dry-run.ts only predicts what would happen to it.
 *
 * Emails of a batch are checked one by one, so that a permissive batch can send the valid ones. email-batch.ts accepts
 * them in one commit.
 */
import type { FastifyReply, FastifyRequest, FastifySchemaCompiler } from 'fastify';
import { z, type ZodType } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { AcceptResult } from './accept-results.ts';
import type { EmailDraft } from './draft.ts';
import { type DryRunResult, dryRunToWire } from './dry-run/dry-run.ts';
import { acceptedEmailOrDryRun, noQuery, sendQuery } from './dry-run/dry-run-schemas.ts';
import { BATCH_MAX, BATCH_VALIDATIONS, type BatchValidation } from './email-batch.ts';
import { fingerprintOf, isIdempotencyKey } from './fingerprint.ts';
import { createDraftMaker, type DraftMaker, findRepetitionOfRequest } from './http-draft.ts';
import { countTowardsLimit } from '../accounts/limits/http-limits.ts';
import { acceptedBatch, acceptedEmail } from '../emails/schemas.ts';
import { callerOf } from '../http/access.ts';
import { BadRequest, JSON_TYPE, malformed, refuse, setLimitHeaders } from '../http/errors.ts';
import { failures } from '../http/schemas.ts';
import { batchHeaders, emailBatchCreation, emailCreation, idempotencyHeaders } from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { validateItem, validatorCompiler } from '../http/validation.ts';

const TAGS = ['Emails'];

export function registerSendRoute(app: App, services: HttpServices): void {
  const { accept, dryRun } = services;
  app.post('/v1/emails', {
    config: { access: 'any_key', limit: 'sending', withinDomain: true },
    schema: {
      summary: 'Send an email',
      description:
        'Accepts an email. Returns 202 when the email is stored on disk and will be attempted. Returns 200 ' +
        'with the first response when the Idempotency-Key was used within 24 hours. Nothing is sent a second ' +
        'time. With `dry_run=true` it returns 200 with a prediction. Nothing is stored or sent, and an email ' +
        'that would be refused is refused. Dry runs have their own limit, as large as the sending limit.',
      operationId: 'sendEmail',
      tags: TAGS,
      querystring: sendQuery,
      headers: idempotencyHeaders,
      body: emailCreation,
      response: {
        202: acceptedEmail,
        200: acceptedEmailOrDryRun,
        ...failures(400, 409, 413, 415, 422),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const idempotency = idempotencyOf(request, 'POST /v1/emails');
      const { body } = request;
      const isDry = request.query.dry_run === 'true';
      if (isDry && !(await countTowardsLimit(services, request, reply, 'dry_runs'))) return reply;
      const draft = await createDraftMaker(services, request)(body);
      if (isRefusal(draft)) {
        if (isDry) return refuse(reply, draft);
        const repetition = await findRepetitionOfRequest(services, request, {
          emails: [body],
          idempotency,
        });
        return repetition === null ? refuse(reply, draft) : sendResult(reply, repetition);
      }
      if (isDry) {
        return sendDryRun(reply, await dryRun(caller, draft, idempotency));
      }
      return sendResult(reply, await accept(caller, draft, idempotency));
    },
  });
}

/** @throws BadRequest for a malformed header */
export function idempotencyOf(
  request: FastifyRequest,
  endpoint: string,
): { key: string; fingerprint: string } | null {
  const key = request.headers['idempotency-key'];
  if (key === undefined) return null;
  const isOne = request.raw.headersDistinct['idempotency-key']?.length === 1;
  if (typeof key !== 'string' || !isOne || !isIdempotencyKey(key)) {
    const field = 'Idempotency-Key';
    const message = 'must be one string of 1-256 printable ASCII characters';
    const problem = malformed(`The ${field} header ${message}.`);
    throw new BadRequest({ ...problem, details: [{ field, message }] });
  }
  return { key, fingerprint: fingerprintOf(endpoint, request.body) };
}

/** Responds with the headers of the dry-run limit, or of the sending limit if that one refuses the email. */
function sendDryRun(reply: FastifyReply, result: DryRunResult): FastifyReply {
  if (result.kind === 'refused') {
    const { limit, ...refusal } = result;
    return refuse(reply, refusal.refused === 'rate_limit_error' ? { ...refusal, limit } : refusal);
  }
  return reply
    .code(200)
    .header('content-type', JSON_TYPE)
    .send(JSON.stringify(dryRunToWire(result.report)));
}

export function sendResult(reply: FastifyReply, result: AcceptResult): FastifyReply {
  if (result.kind === 'refused') return refuse(reply, result);
  if (result.limit !== null) setLimitHeaders(reply, result.limit);
  if (result.kind === 'repeated') reply.header('idempotent-replayed', 'true');
  return reply
    .code(result.kind === 'accepted' ? 202 : 200)
    .header('content-type', JSON_TYPE)
    .send(result.body);
}

export function registerEmailBatchRoute(app: App, services: HttpServices): void {
  const { acceptBatch } = services;
  app.post('/v1/emails/batch', {
    config: { access: 'any_key', limit: 'sending', withinDomain: true },
    validatorCompiler: checkArray,
    schema: {
      summary: 'Send up to 100 emails',
      description:
        'Accepts a batch of emails. Returns 202 when the emails in `data` are stored on disk and will be ' +
        'attempted. With `X-Batch-Validation: strict`, the default, one invalid email refuses the whole ' +
        'request, and the message names the email by its index, as in `[3].to`. With `permissive` the valid ' +
        'emails are accepted, and `errors` lists the others. `data` can be empty only then. Every accepted ' +
        'email counts towards the limits. Returns 200 with the first response when the Idempotency-Key of ' +
        'the batch was used within 24 hours. Nothing is sent a second time.',
      operationId: 'sendEmailBatch',
      tags: TAGS,
      headers: batchHeaders,
      querystring: noQuery,
      body: emailBatchCreation,
      response: {
        202: acceptedBatch,
        200: acceptedBatch,
        ...failures(400, 409, 413, 415, 422),
      },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const validation = validationOf(request);
      const idempotency = idempotencyOf(request, 'POST /v1/emails/batch');
      const items: (EmailDraft | Refusal)[] = [];
      const makeDraft = createDraftMaker(services, request);
      // Sequential, so that other requests get a turn between two renderings.
      for (const item of request.body) items.push(await draftItem(item, makeDraft));
      if (items.some(isRefusal)) {
        const emails = request.body;
        const repetition = await findRepetitionOfRequest(services, request, {
          emails,
          idempotency,
        });
        if (repetition !== null) return sendResult(reply, repetition);
      }
      return sendResult(reply, await acceptBatch(caller, items, { validation, idempotency }));
    },
  });
}

export const arrayOfItems = z.array(z.unknown()).min(1).max(BATCH_MAX);

/** Checks the array only. The handler checks each email. */
const checkArray: FastifySchemaCompiler<unknown> = (part) =>
  validatorCompiler({
    ...part,
    schema: part.httpPart === 'body' ? arrayOfItems : (part.schema as ZodType),
  });

/** @throws BadRequest for an unknown value */
export function validationOf({ headers }: FastifyRequest): BatchValidation {
  const value = headers['x-batch-validation'] ?? 'strict';
  const validation = BATCH_VALIDATIONS.find((one) => one === value);
  if (validation !== undefined) return validation;
  throw new BadRequest(
    malformed('The X-Batch-Validation header must be strict (the default) or permissive.'),
  );
}

export async function draftItem(
  item: unknown,
  makeDraft: DraftMaker,
): Promise<EmailDraft | Refusal> {
  const checked = validateItem(emailCreation, item);
  return 'problems' in checked ? refuseFields(checked.problems) : makeDraft(checked.value);
}
