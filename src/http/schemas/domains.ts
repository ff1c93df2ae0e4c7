/** Domains on the wire. */
import { z } from 'zod';
import { DOMAIN_STATUSES, DOMAIN_TLS } from '../../store/domains.ts';
import { deleted, environment, id, listOf, time } from './common.ts';

const tls = z
  .enum(DOMAIN_TLS)
  .describe(
    'For emails that do not say it themselves. `enforced`: only to mail servers that prove who ' +
      'they are over TLS, else they wait, and fail when their time is up.',
  );

const record = z
  .object({
    record: z.enum(['DKIM', 'SPF', 'MX']).describe('What it is for.'),
    type: z.enum(['TXT', 'MX']),
    name: z.string().describe('The full name; some DNS panels want it without the domain.'),
    value: z.string(),
    ttl: z.number().int().describe('Seconds; a proposal.'),
    priority: z.number().int().optional().describe('Of an MX record.'),
    required: z.boolean().describe('Without it the domain is not verified.'),
    status: z.enum(['not_started', 'verified', 'missing', 'mismatch', 'dns_error']),
    found: z.array(z.string()).describe('What DNS holds at the name.'),
    problem: z.string().nullable().describe('What is wrong and what to do.'),
  })
  .meta({ id: 'DomainRecord', description: 'A DNS record to publish, and what was found.' });

export const domain = z
  .object({
    object: z.literal('domain'),
    id: id('The domain.'),
    name: z.string().meta({ examples: ['acme.com'] }),
    status: z
      .enum(DOMAIN_STATUSES)
      .describe('`failed`: was verified, then its records stayed away for 72 hours.'),
    environment,
    tls,
    created_at: time('When it was added.'),
    verified_at: time('When it last became verified.').nullable(),
    checked_at: time('When its records were last looked at.').nullable(),
    records: z.array(record),
    advice: z.array(
      z.object({
        about: z.enum(['dmarc', 'ptr', 'replies', 'mta_sts', 'inbound', 'reputation']),
        message: z.string(),
      }),
    ),
  })
  .meta({ id: 'Domain', description: 'A sending domain.' });

export const domainList = listOf(domain);
export const domainDeleted = deleted('domain');

export const domainCreation = z.strictObject({
  name: z
    .string()
    .min(1)
    .max(253)
    .meta({ description: 'A subdomain is a domain of its own.', examples: ['acme.com'] }),
  tls: tls.optional(),
});

export const domainChange = z.strictObject({ tls });
