/** Routes of recipients: the list. routes.ts returns one recipient. */
import { z } from 'zod';
import { callerOf } from '../../http/access.ts';
import { pageResponse, readPage } from '../../http/list-pages.ts';
import { doc, failures, idSchema, limitField, listOf, shown, time } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { SUPPRESSION_REASONS } from '../../suppressions/suppression-store.ts';
import { status } from '../schemas.ts';
import { listRecipients, type RecipientSummary } from './recipient-list-store.ts';

export function registerRecipientListRoute(app: App, { db }: HttpServices): void {
  app.get('/v1/recipients', {
    schema: {
      summary: 'List recipients',
      description:
        'Lists the recipients of stored emails, each once, those with the newest email first. `GET /v1/suppressions` ' +
        'also lists suppressed addresses that nobody has written to.',
      operationId: 'listRecipients',
      tags: ['Emails'],
      querystring: recipientQuery,
      response: { 200: recipientList, ...failures(422) },
    },
    handler: async (request) => {
      const { limit, after } = readPage(request.query);
      const caller = callerOf(request);
      const part = request.query.q?.trim() || null;
      const query = { part, after, limit };
      const found = await listRecipients(db.readsOf(caller.projectId), caller, query);
      return { ...pageResponse(found, toWire), scanned_until: found.scannedUntil };
    },
  });
}

function toWire(recipient: RecipientSummary) {
  const { address, lastEmailId, lastEmailAt, lastStatus, suppression } = recipient;
  return {
    object: 'recipient_summary' as const,
    address,
    last_email_id: lastEmailId,
    last_email_at: lastEmailAt.toISOString(),
    last_status: lastStatus,
    suppression,
  };
}

const PART_MAX = 254;

const recipientQuery = z.strictObject({
  limit: doc(
    limitField,
    'Number of recipients after which a page ends. Recipients of one email are on the same page, so it may have up ' +
      'to 99 more.',
  ),
  after: doc(
    z.string().optional(),
    'Returns only recipients whose newest email is older than this one: `scanned_until` of the page before.',
    '0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa',
  ),
  q: doc(
    z
      .string()
      .max(PART_MAX)
      .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'must not have control characters')
      .optional(),
    'Returns only addresses that contain this text, in any case.',
    '@example.org',
  ),
});

const recipientSummary = z
  .object({
    object: z.literal('recipient_summary'),
    address: z
      .string()
      .meta({ description: 'Address of the recipient.', examples: ['jo@example.org'] }),
    last_email_id: idSchema('Newest email to the address.'),
    last_email_at: time('Time of the newest email.'),
    last_status: status.describe('Status of this recipient in the newest email.'),
    suppression: z
      .enum(SUPPRESSION_REASONS)
      .nullable()
      .meta({
        description: 'Reason of the suppression of the address, or null when it is not suppressed.',
        examples: ['hard_bounce'],
      }),
  })
  .meta({ id: 'RecipientSummary' });

const recipientList = listOf('RecipientList', recipientSummary, {
  scanned_until: shown(
    idSchema(
      'The last email that was read, to pass as `after` when the list continues, even if `data` is empty. ' +
        'One call reads at most 2,000 emails.',
    ).nullable(),
    null,
  ),
});
