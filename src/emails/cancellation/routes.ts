/** Routes of canceling many scheduled emails at once. ../routes.ts cancels one. */
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import { isId } from '../../database/ids.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { doc, failures, idSchema } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { filterFrom } from '../http-filter.ts';
import { ownKeyOf } from '../routes.ts';
import { SEARCH_MAX } from '../search.ts';
import { cancelMatches, cancelSelected } from './cancel-emails.ts';

/** Milliseconds that a request may work. Then the response has the position to continue from. */
const REQUEST_BUDGET_MS = 5_000;
const SELECTED_MAX = 100;

export function registerCancellationRoute(app: App, services: HttpServices): void {
  const { db, world, isStopping } = services;
  app.post('/v1/emails/cancel', {
    config: { access: 'any_key', withinDomain: true },
    schema: {
      summary: 'Cancel scheduled emails',
      description:
        'Cancels emails whose scheduled time has not come: some by `ids`, all matches of the search `q`, or `all`. ' +
        'This cannot be undone. Each has one event `email.canceled`. One request may cancel only a part of many; ' +
        '`next` is then the position to continue from. A sending-only key cancels only emails that it sent. Emails ' +
        'without a scheduled time are canceled one by one, or dropped from the queue.',
      operationId: 'cancelEmails',
      tags: ['Emails'],
      body: cancellationRequest,
      response: { 200: cancellation, ...failures(400, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { ids, q, all, created_before, from = null } = request.body;
      if ([ids, q, all].filter((one) => one !== undefined).length !== 1) {
        return refuse(reply, ONE_SELECTION);
      }
      if (from !== null && !isId(from)) return refuse(reply, NO_POSITION);
      const caller = callerOf(request);
      const keyId = ownKeyOf(caller);
      const untilMs = world.monotonicMs() + REQUEST_BUDGET_MS;
      const mayContinue = (): boolean => world.monotonicMs() < untilMs && !isStopping();
      const context = { db, caller: { ...caller, keyId }, mayContinue };
      const object = 'email_cancellation' as const;
      if (ids !== undefined) {
        const selection = ids.length === 1 ? ids[0]! : `${ids.length} emails`;
        return { object, selection, ...(await cancelSelected(context, ids)) };
      }
      const filter = filterFrom({ q, created_before }, { keyId, domain: caller.domain });
      if (isRefusal(filter)) return refuse(reply, filter);
      if (filter.status !== null && filter.status !== 'scheduled')
        return refuse(reply, NOT_SCHEDULED);
      const selection = q?.trim() || 'all';
      return { object, selection, ...(await cancelMatches(context, { filter, from })) };
    },
  });
}

const ONE_SELECTION: Refusal = {
  refused: 'validation_error',
  message: 'Select emails with ids, q or all: exactly one of them.',
};

const NO_POSITION = refuseFields([
  { field: 'from', message: 'must be the next of the previous response' },
]);

const NOT_SCHEDULED = refuseFields([
  {
    field: 'q',
    message: 'has a status other than scheduled; only scheduled emails are canceled together',
  },
]);

const cancellationRequest = z
  .strictObject({
    ids: doc(
      z
        .array(z.string().refine(isId, 'must be the id of an email'))
        .min(1)
        .max(SELECTED_MAX)
        .optional(),
      `Ids of the emails, at most ${SELECTED_MAX}.`,
      ['0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa'],
    ),
    q: doc(
      z
        .string()
        .min(1)
        .max(SEARCH_MAX)
        .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out')
        .refine((text) => /[^\s"]/.test(text), 'is blank and would select all; for that, use all')
        .optional(),
      'Search text, as in the list of emails.',
      'tag:campaign:spring',
    ),
    all: z.literal(true).optional().describe('Selects all scheduled emails.'),
    created_before: doc(
      z.iso.datetime({ offset: true }).optional(),
      'Selects only emails created before this time, so that emails which you have not counted are not canceled.',
      '2026-11-21T09:00:00Z',
    ),
    from: idSchema('`next` of the previous response, to continue.').optional(),
  })
  .meta({ id: 'EmailCancellationRequest', minProperties: 1 });

const count = (description: string, example: number) =>
  z.int().meta({ description, examples: [example] });

const cancellation = z
  .object({
    object: z.literal('email_cancellation'),
    selection: z.string().meta({ description: 'The selection in words.', examples: ['all'] }),
    found: count('Number of scheduled emails that were selected.', 120),
    canceled: count('Number of canceled emails. A worker had begun to send the others.', 120),
    next: idSchema(
      'Position to continue from: repeat the request with it as `from`. Null when all matches were searched.',
    ).nullable(),
  })
  .meta({ id: 'EmailCancellation' });
