/**
 * `/suppressions` of the root mount. An entry has an id there, derived from its address, so it stays the same when
 * the entry is removed and added again.
 */
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import type { Scope } from '../../core/scope.ts';
import { type Address, addressKey, explainAddress, parseAddress } from '../../mail/address.ts';
import { isId } from '../../database/ids.ts';
import type { SuppressionsMaximum } from '../../accounts/limits/maximum-store.ts';
import type { Database, Queryable } from '../../database/database.ts';
import {
  addSuppression,
  addSuppressionIn,
  findSuppression,
  findSuppressionById,
  listSuppressions,
  type NewSuppression,
  suppressionToWire,
  removeSuppression,
  type Suppression,
  suppressionId,
  type SuppressionPage,
  type SuppressionReason,
} from '../../suppressions/suppression-store.ts';
import { suppressionFields } from './wire/webhook-payload.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { pageResponse } from '../../http/list-pages.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN, idInPath, pageQuery } from './wire/shared-schemas.ts';

const BATCH_MAX = 100;

const NOT_SUPPRESSED: Refusal = {
  refused: 'not_found',
  message: 'There is no suppression with this id or address in this project and environment.',
};

export function registerResendSuppressions(
  app: App,
  { db, suppressionsMaximum: maximum }: HttpServices,
): void {
  registerListAndAdd(app, db, maximum);
  registerReadAndRemove(app, db);
  registerBatches(app, db, maximum);
}

function registerListAndAdd(app: App, db: Database, maximum: SuppressionsMaximum): void {
  app.get('/suppressions', {
    schema: { ...HIDDEN, querystring: listQuery },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { limit, after = null, before = null, origin } = request.query;
      const page = await resolveCursor(db, caller, { limit, after, before });
      if (isRefusal(page)) return refuse(reply, page);
      const filter = { reason: origin === undefined ? null : REASONS[origin], prefix: null };
      const reads = db.readsOf(caller.projectId);
      return pageResponse(
        await listSuppressions(reads, caller, { page, filter }),
        suppressionToResend,
      );
    },
  });

  app.post('/suppressions', {
    schema: { ...HIDDEN, body: z.object({ email: z.string() }) },
    handler: async (request, reply) => {
      const entry = readEntry('email', request.body.email);
      if (isRefusal(entry)) return refuse(reply, entry);
      const { suppression } = await addSuppression(db, callerOf(request), entry, maximum);
      return reply.code(201).send(suppressionRef(suppression.address));
    },
  });
}

function registerReadAndRemove(app: App, db: Database): void {
  app.get('/suppressions/:id', {
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const found = await findByIdOrAddress(db, callerOf(request), request.params.id);
      if (found === null) return refuse(reply, NOT_SUPPRESSED);
      return { object: 'suppression', ...suppressionToResend(found) };
    },
  });

  app.delete('/suppressions/:id', {
    config: { auditedAs: 'deleteSuppression' },
    schema: { ...HIDDEN, params: idInPath },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await findByIdOrAddress(db, caller, request.params.id);
      const removed =
        found && (await removeSuppression(db, caller, { address: found.address, by: 'api' }));
      if (!removed) return refuse(reply, NOT_SUPPRESSED);
      return { ...suppressionRef(removed.address), deleted: true };
    },
  });
}

function registerBatches(app: App, db: Database, maximum: SuppressionsMaximum): void {
  app.post('/suppressions/batch/add', {
    schema: { ...HIDDEN, body: z.object({ emails: z.array(z.string()).min(1).max(BATCH_MAX) }) },
    handler: async (request, reply) => {
      const entries = request.body.emails.map((email, index) =>
        readEntry(`emails[${index}]`, email),
      );
      const refused = entries.filter(isRefusal);
      if (refused.length > 0) {
        return refuse(reply, refuseFields(refused.flatMap(({ details = [] }) => details)));
      }
      const caller = callerOf(request);
      // Sorted, so that two batches cannot deadlock.
      const ordered = entries.flatMap((entry) => (isRefusal(entry) ? [] : [entry]));
      ordered.sort(byAddress);
      await db.transaction(async (tx) => {
        let count = 0;
        for (const entry of ordered) {
          if ((await addSuppressionIn(tx, caller, entry)).isNew) count += 1;
        }
        if (count > 0) await maximum.check(tx, caller, count);
      });
      const added = entries.flatMap((entry) =>
        isRefusal(entry) ? [] : [suppressionRef(entry.address)],
      );
      return reply.code(201).send({ data: added });
    },
  });

  app.post('/suppressions/batch/remove', {
    config: { auditedAs: 'deleteSuppression' },
    schema: { ...HIDDEN, body: removal },
    handler: async (request) => {
      const caller = callerOf(request);
      const { emails, ids } = request.body;
      const data: object[] = [];
      for (const name of emails ?? ids ?? []) {
        const found = await findByIdOrAddress(db, caller, name);
        if (found === null) continue;
        await removeSuppression(db, caller, { address: found.address, by: 'api' });
        data.push({ ...suppressionRef(found.address), deleted: true });
      }
      return { data };
    },
  });
}

/** Resend's reasons. Unsubscribed addresses are shown as `manual`, and listed only without a filter. */
const REASONS = {
  bounce: 'hard_bounce',
  complaint: 'complaint',
  manual: 'manual',
} as const satisfies Record<string, SuppressionReason>;

const listQuery = pageQuery.extend({
  origin: anyCase(['bounce', 'complaint', 'manual']).optional(),
});

const names = z.array(z.string()).min(1).max(BATCH_MAX).nullish();

const removal = z
  .object({ emails: names, ids: names })
  .refine(({ emails, ids }) => (emails == null) !== (ids == null), {
    path: ['emails'],
    error: 'is required, or ids instead of it',
  });

function byAddress(a: NewSuppression, b: NewSuppression): number {
  return addressKey(a.address) < addressKey(b.address) ? -1 : 1;
}

function readEntry(field: string, text: string): (NewSuppression & { address: Address }) | Refusal {
  const address = parseAddress(text);
  if (address === null) return refuseFields([{ field, message: explainAddress(text) }]);
  return { address, reason: 'manual', sourceEmailId: null, expiresAt: null, by: 'api' };
}

async function findByIdOrAddress(
  db: Queryable,
  scope: Scope,
  idOrAddress: string,
): Promise<Suppression | null> {
  if (isId(idOrAddress)) return findSuppressionById(db, scope, idOrAddress);
  const address = parseAddress(idOrAddress);
  return address && findSuppression(db, scope, address);
}

/** Returns the page with an address as its cursor, because the list is sorted by address. */
async function resolveCursor(db: Queryable, scope: Scope, page: SuppressionPage) {
  const { limit, after, before } = page;
  if (after !== null && before !== null) {
    const message = 'cannot be used together with after; leave one of them out';
    return refuseFields([{ field: 'before', message }]);
  }
  const cursor = after ?? before;
  if (cursor === null) return page;
  const found = await findByIdOrAddress(db, scope, cursor);
  const field = after === null ? 'before' : 'after';
  if (found === null) return refuseFields([{ field, message: 'must be an id from this list' }]);
  return { limit, after: null, before: null, [field]: found.address };
}

function suppressionRef(address: string) {
  return { object: 'suppression' as const, id: suppressionId(address) };
}

function suppressionToResend(entry: Suppression) {
  return suppressionFields(suppressionToWire(entry));
}
