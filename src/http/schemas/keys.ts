/** API keys on the wire. The text of a key is in the answer that made it and nowhere else. */
import { z } from 'zod';
import { PERMISSIONS } from '../../core/scope.ts';
import { deleted, environment, id, label, listOf, time } from './common.ts';

const name = label(100).describe('For people; need not be unique.');
const permission = z
  .enum(PERMISSIONS)
  .describe('`sending_access`: may send, and read the emails that it sent.');
const domain = z
  .string()
  .max(253)
  .nullable()
  .meta({
    description: 'The only domain it may send from and manage; null: any.',
    examples: ['acme.com'],
  });
const expiresAt = z.iso
  .datetime({ offset: true })
  .nullable()
  .describe('When it stops working by itself; null: never.');

export const keyCreation = z
  .strictObject({
    name,
    permission: permission.default('full_access'),
    domain: domain.optional(),
    expires_at: expiresAt.optional(),
  })
  .meta({ id: 'NewApiKey' });

/** Only what is given changes. */
export const keyChange = z
  .strictObject({
    name: name.optional(),
    permission: permission.optional(),
    domain: domain.optional(),
    expires_at: expiresAt.optional(),
  })
  .meta({ id: 'ApiKeyChange' });

const fields = {
  object: z.literal('api_key'),
  id: id('The key; not its text.'),
  name,
  hint: z.string().describe('The beginning of the key, to recognise it by.'),
  environment,
  permission,
  domain,
  created_at: time('When it was made.'),
  expires_at: time('When it stops working by itself; null: never.').nullable(),
  last_used_at: time('When it was last used, to the minute; null: never.').nullable(),
};

export const apiKey = z.object(fields).meta({ id: 'ApiKey' });

export const newApiKey = z
  .object({
    ...fields,
    key: z.string().describe('The key itself. It is shown here and never again.'),
  })
  .meta({ id: 'ApiKeyWithSecret' });

export const currentApiKey = z
  .object({
    ...fields,
    project: z.object({ id: id('The project of the key.'), name: z.string() }),
    organization_id: id('The organization of the project.'),
  })
  .meta({ id: 'CurrentApiKey' });

export const apiKeyList = listOf(apiKey);

export const apiKeyDeleted = deleted('api_key');
