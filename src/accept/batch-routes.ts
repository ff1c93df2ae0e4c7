/**
 * `POST /v1/emails/batch`. Checks the emails one by one, so that a permissive batch can send the valid ones.
 * email-batch.ts accepts them in one commit.
 */
import type { FastifyRequest, FastifySchemaCompiler } from 'fastify';
import { z, type ZodType } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { EmailDraft } from './draft.ts';
import { BATCH_MAX, BATCH_VALIDATIONS, type BatchValidation } from './email-batch.ts';
import { callerOf } from '../http/access.ts';
import { draftsFor, type MakeDraft, replayOf } from './http-draft.ts';
import { BadRequest, malformed } from '../http/errors.ts';
import { failures } from '../http/schemas.ts';
import { noQuery } from './dry-run-schemas.ts';
import { acceptedBatch } from '../emails/schemas.ts';
import { batchHeaders, emailBatchCreation, emailCreation } from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { checkItem, validatorCompiler } from '../http/validation.ts';
import { answerSending, idempotencyOf } from '../emails/routes.ts';

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
      tags: ['Emails'],
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
      const makeDraft = draftsFor(services, request);
      // Sequential, so that other requests get a turn between two renderings.
      for (const item of request.body) items.push(await draftOf(item, makeDraft));
      if (items.some(isRefusal)) {
        const emails = request.body;
        const replay = await replayOf(services, request, { emails, idempotency });
        if (replay !== null) return answerSending(reply, replay);
      }
      return answerSending(reply, await acceptBatch(caller, items, { validation, idempotency }));
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

export async function draftOf(item: unknown, makeDraft: MakeDraft): Promise<EmailDraft | Refusal> {
  const checked = checkItem(emailCreation, item);
  return 'problems' in checked ? refuseFields(checked.problems) : makeDraft(checked.value);
}
