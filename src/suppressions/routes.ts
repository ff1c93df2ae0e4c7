/** Routes of suppressions: list, add, read and remove. file-routes.ts contains the files. */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { World } from '../lib/world.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { listResponse, pageResponse } from '../http/list-pages.ts';
import { isFromLocalOperator } from '../http/socket/local-operator.ts';
import {
  doc,
  entityTag,
  expectedBy,
  failures,
  idSchema,
  limitField,
  listOf,
  preconditionHeaders,
  shown,
  tagged,
  time,
} from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { explainAddress, parseAddress } from '../mail/address.ts';
import {
  listSuppressions,
  type SuppressionPage,
  addSuppression,
  findSuppression,
  type NewSuppression,
  suppressionToWire,
  tagOfSuppression,
  removeExpectedSuppression,
  type Suppression,
  SUPPRESSION_REASONS,
} from './suppression-store.ts';
import { listHistory, historyEntryToWire } from './history-store.ts';
import { IMPORT_FORMATS, LEFT_OUT } from '../move-in/suppression-services.ts';

const TAGS = ['Suppressions'];
const HISTORY_MAX = 100;

/** The same response for an invalid address, an address that is not suppressed, and one on another project's list. */
const NOT_SUPPRESSED: Refusal = {
  refused: 'not_found',
  message: 'This address is not suppressed in this project and environment.',
};

export function registerSuppressionRoutes(app: App, services: HttpServices): void {
  registerListAndAdd(app, services);
  registerSingleSuppression(app, services);
}

function registerListAndAdd(app: App, { db, world, suppressionsMaximum }: HttpServices): void {
  app.get('/v1/suppressions', {
    schema: {
      summary: 'List suppressed addresses',
      description: 'Lists the suppressions of this project and environment, sorted by address.',
      operationId: 'listSuppressions',
      tags: TAGS,
      querystring: suppressionQuery,
      response: { 200: suppressionList, ...failures(422) },
    },
    handler: async (request, reply) => {
      const page = pageOfAddresses(request.query);
      if (isRefusal(page)) return refuse(reply, page);
      const { reason = null, address: prefix = null } = request.query;
      const filter = { reason, prefix };
      const caller = callerOf(request);
      const reads = db.readsOf(caller.projectId);
      const found = await listSuppressions(reads, caller, { page, filter });
      return pageResponse(found, entryToWire);
    },
  });

  app.post('/v1/suppressions', {
    schema: {
      summary: 'Suppress an address',
      description:
        'Suppresses an address. Returns 201 for a new entry and 200 when the address was already suppressed. ' +
        'An existing entry does not change, unless it expires and the new one does not.',
      operationId: 'createSuppression',
      tags: TAGS,
      body: suppressionCreation,
      response: { 200: suppression, 201: suppression, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const entry = entryFrom(request.body, { world, by: actorOf(request) });
      if (isRefusal(entry)) return refuse(reply, entry);
      const maximum = isFromLocalOperator(request) ? undefined : suppressionsMaximum;
      const added = await addSuppression(db, callerOf(request), entry, maximum);
      return reply.code(added.isNew ? 201 : 200).send(entryToWire(added.suppression));
    },
  });
}

function registerSingleSuppression(app: App, { db }: HttpServices): void {
  app.get('/v1/suppressions/:address', {
    schema: {
      summary: 'Get a suppression',
      description: 'Returns the suppression of an address, with its history.',
      operationId: 'getSuppression',
      tags: TAGS,
      params: suppressionParams,
      response: { 200: suppressionWithHistory, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const address = parseAddress(request.params.address);
      const found = address && (await findSuppression(db, caller, address));
      if (!address || !found) return refuse(reply, NOT_SUPPRESSED);
      const history = await listHistory(db, caller, { address, limit: HISTORY_MAX });
      return tagged(reply, { ...entryToWire(found), history: history.map(historyEntryToWire) });
    },
  });

  app.get('/v1/suppressions/:address/history', {
    schema: {
      summary: 'List the history of an address',
      description:
        'Returns at most 100 entries of the last 400 days, newest first, even if the address is not suppressed now.',
      operationId: 'listSuppressionHistory',
      tags: TAGS,
      params: suppressionParams,
      response: { 200: suppressionHistory, ...failures() },
    },
    handler: async (request) => {
      const address = parseAddress(request.params.address);
      const query = address && { address, limit: HISTORY_MAX + 1 };
      const found = query ? await listHistory(db, callerOf(request), query) : [];
      return listResponse(found.map(historyEntryToWire), HISTORY_MAX);
    },
  });

  app.delete('/v1/suppressions/:address', {
    schema: {
      summary: 'Remove a suppression',
      description:
        'Ends the suppression of an address at once. The history of the address is kept. With `If-Match`, only if ' +
        'no other entry has replaced the one that you have read.',
      operationId: 'deleteSuppression',
      tags: TAGS,
      params: suppressionParams,
      headers: preconditionHeaders,
      response: { 200: suppressionDeleted, ...failures(404, 412) },
    },
    handler: async (request, reply) => {
      const address = parseAddress(request.params.address);
      const removed =
        address &&
        (await removeExpectedSuppression(db, callerOf(request), {
          address,
          by: actorOf(request),
          isExpected: expectedBy(request),
        }));
      if (!removed) return refuse(reply, NOT_SUPPRESSED);
      if (isRefusal(removed)) return refuse(reply, removed);
      return {
        object: 'suppression' as const,
        address: removed.address,
        deleted: true as const,
      };
    },
  });
}

function actorOf(request: FastifyRequest): NewSuppression['by'] {
  return isFromLocalOperator(request) ? 'command_line' : 'api';
}

function entryFrom(
  body: z.output<typeof suppressionCreation>,
  { world, by }: { world: Pick<World, 'now'> } & Pick<NewSuppression, 'by'>,
): NewSuppression | Refusal {
  const address = parseAddress(body.address);
  if (address === null) {
    return refuseFields([{ field: 'address', message: explainAddress(body.address) }]);
  }
  const expiresAt = body.expires_at ? new Date(body.expires_at) : null;
  if (expiresAt !== null && expiresAt.getTime() <= world.now()) {
    return refuseFields([{ field: 'expires_at', message: 'is in the past; give a later time' }]);
  }
  return { address, reason: body.reason ?? 'manual', sourceEmailId: null, expiresAt, by };
}

function pageOfAddresses(query: z.output<typeof suppressionQuery>): SuppressionPage | Refusal {
  const { limit, after = null, before = null } = query;
  const invalid = Object.entries({ after, before }).find(
    ([, text]) => text !== null && parseAddress(text) === null,
  );
  if (invalid) {
    return refuseFields([{ field: invalid[0], message: 'must be an address from this list' }]);
  }
  if (after !== null && before !== null) {
    const message = 'cannot be used together with after; leave one of them out';
    return refuseFields([{ field: 'before', message }]);
  }
  return { limit, after, before };
}

export function entryToWire(entry: Suppression) {
  return {
    object: 'suppression' as const,
    ...suppressionToWire(entry),
    etag: tagOfSuppression(entry),
  };
}

const address = z.string().meta({
  description: 'Address as it was added. It is case-insensitive.',
  examples: ['jo@example.com'],
});
const reason = doc(
  z.enum(SUPPRESSION_REASONS),
  'Reason of the suppression. `hard_bounce`: the mailbox or its domain does not exist, or the mailbox ' +
    'was full for a long time.',
);
const source = idSchema(
  'Email whose reply, report or link caused the suppression, or null without one.',
).nullable();

const cursor = (direction: string) =>
  doc(
    z.string().optional(),
    `Returns only addresses ${direction} this address of the list.`,
    'jo@example.com',
  );

const filters = {
  reason: reason.optional(),
  address: doc(
    z
      .string()
      .max(254)
      .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'must not have control characters')
      .optional(),
    'Returns only addresses that begin with this text.',
    'jo@',
  ),
};

const suppressionQuery = z.strictObject({
  limit: limitField,
  after: cursor('after'),
  before: cursor('before'),
  ...filters,
});

export const suppressionExportQuery = z.strictObject(filters);

export const suppressionImportQuery = z.strictObject({
  reason: doc(
    reason.optional(),
    'Reason for entries without one. Lists of SendGrid and Mailgun need it when their columns do not ' +
      'distinguish complaints from unsubscribes. `hard_bounce` also adds bounces with unknown replies. ' +
      '`unsubscribe` also adds recipients who unsubscribed only from a group or tag.',
  ),
});

const suppressionParams = z.object({ address });

const suppressionCreation = z
  .strictObject({
    address,
    reason: reason.default('manual').optional(),
    expires_at: doc(
      shown(z.iso.datetime({ offset: true }), '2027-01-31T00:00:00Z')
        .nullable()
        .optional(),
      'Time of expiry, or null when the suppression does not expire.',
    ),
  })
  .meta({ id: 'SuppressionCreation' });

const fields = {
  object: z.literal('suppression'),
  address,
  reason,
  source_email_id: source,
  created_at: time('Time of creation.'),
  expires_at: time('Time of expiry, or null when the suppression does not expire.').nullable(),
  simulated: z.boolean().meta({
    description:
      'True for an address of the simulator for test mail. It is listed and still receives mail.',
    examples: [false],
  }),
  etag: entityTag,
};

export const suppression = z.object(fields).meta({ id: 'Suppression' });
const suppressionList = listOf('SuppressionList', suppression);

export const suppressionChange = z
  .object({
    action: z.enum(['added', 'removed']),
    reason,
    source_email_id: source,
    at: time('Time of the change.'),
    by: doc(
      z.enum(['delivery', 'recipient', 'api', 'import', 'command_line']),
      'Actor of the change. `delivery` is the reply of a mail server, and `recipient` is the unsubscribe ' +
        'page.',
    ),
  })
  .meta({ id: 'SuppressionChange' });

const suppressionHistory = listOf('SuppressionHistory', suppressionChange);

const suppressionWithHistory = z
  .object({
    ...fields,
    history: z
      .array(suppressionChange)
      .describe('History of the address, newest first, at most 100 entries.'),
  })
  .meta({ id: 'SuppressionWithHistory' });

const suppressionDeleted = z
  .object({ object: z.literal('suppression'), address, deleted: z.literal(true) })
  .meta({ id: 'DeletedSuppression' });

export const suppressionImport = z
  .object({
    object: z.literal('suppression_import'),
    format: doc(
      z.enum(IMPORT_FORMATS).nullable(),
      'Recognized format of the file, or null when the file has no entries.',
      'sendgrid',
    ),
    added: shown(z.int().min(0), 120),
    already_there: doc(
      z.int().min(0),
      'Number of addresses that were suppressed already, including repeated rows of the file.',
      4,
    ),
    rejected: shown(z.int().min(0), 1),
    left_out: doc(
      z.array(
        z.object({
          because: z.enum(['not_permanent', 'expired', 'not_all_mail']),
          rows: shown(z.int().min(1), 12),
          first_line: shown(z.int().min(1), 3),
          message: z.string().meta({ examples: [LEFT_OUT.not_permanent] }),
        }),
      ),
      "Numbers of entries in another service's list that this service would not suppress, by reason.",
    ),
    errors: doc(
      z.array(
        z.object({
          line: doc(z.int().min(1), 'Line of the row in the file, from 1.', 7),
          item: doc(
            z.int().min(1).nullable(),
            'Position of the entry in a JSON file, from 1, or null for CSV.',
            null,
          ),
          message: z.string().meta({ examples: ['"bob@" is not an email address'] }),
        }),
      ),
      'First 100 rejected rows.',
    ),
  })
  .meta({ id: 'SuppressionImport' });

export const csvFile = {
  description: 'Suppressions as CSV, sorted by address.',
  content: {
    'text/csv': {
      schema: z.string().meta({
        examples: [
          'address,reason,created_at,expires_at,source_email_id\njo@example.com,manual,…\n',
        ],
      }),
    },
  },
};

export const suppressionImportFile = z.string().meta({
  description: 'List as CSV or JSON.',
  examples: [
    'email,created,reason,status\njo@example.com,1785225600,550 5.1.1 User unknown,5.1.1\n',
  ],
});
