/** Suppressions on the wire. */
import { z } from 'zod';
import { SUPPRESSION_REASONS } from '../../store/suppressions.ts';
import { id, limitField, listOf, time } from './common.ts';

const address = z.string().meta({
  description: 'As it was written when it was added; capitals do not count.',
  examples: ['jo@example.com'],
});
const reason = z
  .enum(SUPPRESSION_REASONS)
  .describe('`hard_bounce`: the mailbox or its domain is gone, or was full for long.');
const source = id('The email whose answer, report or link it was; null: none.').nullable();

const cursor = (direction: string) =>
  z
    .string()
    .optional()
    .meta({ description: `Only what comes ${direction} this address of the list.` });

const filters = {
  reason: reason.optional(),
  address: z
    .string()
    .max(254)
    .refine((text) => !/[\u0000-\u001f\u007f]/.test(text), 'must not have control characters')
    .optional()
    .meta({ description: 'Only addresses that begin with this.', examples: ['jo@'] }),
};

export const suppressionQuery = z.strictObject({
  limit: limitField,
  after: cursor('after'),
  before: cursor('before'),
  ...filters,
});

export const suppressionExportQuery = z.strictObject(filters);

export const suppressionParams = z.object({ address });

export const suppressionCreation = z
  .strictObject({
    address,
    reason: reason.default('manual').optional(),
    expires_at: z.iso
      .datetime({ offset: true })
      .nullable()
      .optional()
      .describe('When it ends by itself; null: never.'),
  })
  .meta({ id: 'NewSuppression' });

const fields = {
  object: z.literal('suppression'),
  address,
  reason,
  source_email_id: source,
  created_at: time('Since when.'),
  expires_at: time('When it ends by itself; null: never.').nullable(),
};

export const suppression = z.object(fields).meta({ id: 'Suppression' });
export const suppressionList = listOf(suppression);

const change = z
  .object({
    action: z.enum(['added', 'removed']),
    reason,
    source_email_id: source,
    at: time('When.'),
    by: z
      .enum(['delivery', 'recipient', 'api', 'import', 'command_line'])
      .describe('`delivery`: what a mail server answered; `recipient`: the unsubscribe page.'),
  })
  .meta({ id: 'SuppressionChange' });

export const suppressionHistory = listOf(change);

export const suppressionWithHistory = z
  .object({ ...fields, history: z.array(change).describe('Newest first, 100 at most.') })
  .meta({ id: 'SuppressionWithHistory' });

export const suppressionDeleted = z.object({
  object: z.literal('suppression'),
  address,
  deleted: z.literal(true),
});

export const suppressionImport = z
  .object({
    object: z.literal('suppression_import'),
    added: z.int(),
    already_there: z.int().describe('Also those that come twice in the file.'),
    rejected: z.int(),
    errors: z
      .array(z.object({ line: z.int().describe('The first is 1.'), message: z.string() }))
      .describe('The first 100 of the rejected rows.'),
  })
  .meta({ id: 'SuppressionImport' });

export const csvFile = {
  description: 'The list, in the order of the addresses.',
  content: { 'text/csv': { schema: z.string() } },
};
