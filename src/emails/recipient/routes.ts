/** Routes of one recipient: the reason why an address gets no mail, and its emails. */
import { z } from 'zod';
import type { Caller } from '../../core/scope.ts';
import { refuseFields } from '../../core/refusals.ts';
import {
  type Address,
  addressKey,
  domainOf,
  explainAddress,
  parseAddress,
} from '../../mail/address.ts';
import { ACTOR_TYPES, findChanges, type TargetChange } from '../../accounts/audit/audit-store.ts';
import { findResponsibleOrganization } from '../../accounts/members/member-store.ts';
import { findRefusedRequests, type RefusedRequest } from '../../requests/request-store.ts';
import {
  type HistoryEntry,
  historyEntryToWire,
  listHistory,
} from '../../suppressions/history-store.ts';
import { entryToWire, suppression, suppressionChange } from '../../suppressions/routes.ts';
import { findSuppression } from '../../suppressions/suppression-store.ts';
import { providerOf } from '../../net/providers.ts';
import type { Queryable } from '../../database/database.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import { doc, failures, idSchema, shown, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { reason, smtp, status } from '../schemas.ts';
import { findLastReply, type LastReply } from './recipient-store.ts';
import { namesAddress } from './refused-mail.ts';

const HISTORY_MAX = 100;

export function registerRecipientRoute(app: App, { db }: HttpServices): void {
  app.get('/v1/recipients/:address', {
    schema: {
      summary: 'Show a recipient',
      description:
        'Returns what holds back mail to an address and why: its suppression with its history, the requests of the ' +
        'last week that were refused and named it, and the last reply of its mail server. ' +
        '`GET /v1/emails?to=` lists the emails to it.',
      operationId: 'getRecipient',
      tags: ['Emails'],
      params: z.object({ address }),
      response: { 200: recipient, ...failures(422) },
    },
    handler: async (request, reply) => {
      const parsed = parseAddress(request.params.address);
      if (parsed === null) {
        const message = explainAddress(request.params.address);
        return refuse(reply, refuseFields([{ field: 'address', message }]));
      }
      const caller = callerOf(request);
      const reads = db.readsOf(caller.projectId);
      const [found, history, refused, last] = await Promise.all([
        findSuppression(reads, caller, parsed),
        readHistory(reads, caller, parsed),
        findRefused(reads, caller, addressKey(parsed)),
        findLastReply(reads, caller, addressKey(parsed)),
      ]);
      return {
        object: 'recipient' as const,
        address: parsed,
        domain: domainOf(parsed),
        suppression: found && entryToWire(found),
        history,
        refused_requests: refused.map(refusedToWire),
        last_reply: last && lastReplyToWire(last),
      };
    },
  });
}

/** Changes over HTTP by a member or key are in the audit log, a moment after they are in the history. */
const RECORDED_WITHIN_MS = 60_000;
const CHANGES = {
  added: ['createSuppression', 'importSuppressions'],
  removed: ['deleteSuppression'],
};

async function readHistory(db: Queryable, caller: Caller, of: Address) {
  const history = await listHistory(db, caller, { address: of, limit: HISTORY_MAX });
  const isByHand = history.some(({ by }) => by === 'api' || by === 'import');
  const organizationId = await findResponsibleOrganization(db, caller.organizationId);
  const actions = Object.values(CHANGES).flat();
  const changes = isByHand ? await findChanges(db, organizationId, { ...caller, actions }) : [];
  const key = addressKey(of);
  return history.map((entry) => ({
    ...historyEntryToWire(entry),
    actor: actorToWire(changes.find((change) => isChangeOf(change, entry, key))),
  }));
}

function isChangeOf(change: TargetChange, { action, at, by }: HistoryEntry, key: string): boolean {
  if (by !== 'api' && by !== 'import') return false;
  const laterMs = change.createdAt.getTime() - at.getTime();
  const target = change.target === null ? null : parseAddress(change.target);
  const isOfAddress =
    by === 'import' ? change.action === 'importSuppressions' : target && addressKey(target) === key;
  return (
    isOfAddress === true &&
    CHANGES[action].includes(change.action) &&
    laterMs >= 0 &&
    laterMs < RECORDED_WITHIN_MS
  );
}

function actorToWire(change: TargetChange | undefined) {
  return change === undefined
    ? null
    : { type: change.actorType, id: change.actorId, name: change.actorName };
}

async function findRefused(db: Queryable, caller: Caller, key: string): Promise<RefusedRequest[]> {
  // Other spellings of an address outside of ASCII are no part of the text.
  const text = /[\u0080-\uffff]/.test(key) ? null : key;
  const found = await findRefusedRequests(db, caller, text);
  return found.filter(({ body, errorMessage }) =>
    namesAddress({ outline: body, message: errorMessage }, key),
  );
}

function refusedToWire({ id, createdAt, method, path, status: code, ...failure }: RefusedRequest) {
  return {
    id,
    created_at: createdAt.toISOString(),
    method,
    path,
    status: code,
    error: { code: failure.errorCode ?? '', message: failure.errorMessage ?? '' },
  };
}

function lastReplyToWire({ emailId, status: was, provider, completedAt, ...last }: LastReply) {
  const { mx } = last.smtp;
  return {
    email_id: emailId,
    status: was,
    provider: provider || (mx === null ? null : providerOf([mx])),
    completed_at: completedAt?.toISOString() ?? null,
    reason: last.reason,
    smtp: last.smtp,
  };
}

const address = z
  .string()
  .meta({ description: 'Address of the recipient.', examples: ['jo@example.org'] });

const historyEntry = suppressionChange
  .extend({
    actor: z
      .object({
        type: z.enum(ACTOR_TYPES),
        id: idSchema('Id of the member or key.').nullable(),
        name: shown(z.string().nullable(), 'jo@acme.com'),
      })
      .nullable()
      .describe('Member or key that made the change, or null when the audit log does not have it.'),
  })
  .meta({ id: 'RecipientSuppressionChange' });

const refusedRequest = z
  .object({
    id: idSchema('Id of the request.'),
    created_at: time('Time of the request.'),
    method: z.string().meta({ examples: ['POST'] }),
    path: z.string().meta({ examples: ['/v1/emails'] }),
    status: shown(z.int(), 422),
    error: z.object({
      code: z.string().meta({ examples: ['suppressed'] }),
      message: z.string().meta({ examples: ['Every recipient is on the suppression list.'] }),
    }),
  })
  .meta({ id: 'RefusedRequest' });

const lastReply = z
  .object({
    email_id: idSchema('The email.'),
    status,
    provider: doc(
      z.string().nullable(),
      'Provider of the address, as named in the queue, or null when it is unknown.',
      'google',
    ),
    completed_at: time('Time of the final status, or null before.').nullable(),
    reason: reason.nullable(),
    smtp,
  })
  .meta({ id: 'LastReply' });

const recipient = z
  .object({
    object: z.literal('recipient'),
    address,
    domain: z.string().meta({ examples: ['example.org'] }),
    suppression: suppression
      .nullable()
      .describe('Suppression of the address, or null when it is not suppressed.'),
    history: doc(
      z.array(historyEntry),
      `Additions and removals of the suppression, newest first, at most ${HISTORY_MAX}.`,
    ),
    refused_requests: doc(
      z.array(refusedRequest),
      'Requests of the last week that were refused and named the address, newest first, at most 100.',
    ),
    last_reply: lastReply
      .nullable()
      .describe('Last reply or error about the address, or null without one.'),
  })
  .meta({ id: 'RecipientOverview' });
