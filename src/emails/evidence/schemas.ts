/** Schemas of case files and of the key that signs them. */
import { z } from 'zod';
import { RECORD_STATUSES } from '../../domains/dns/records.ts';
import { doc, time } from '../../http/schemas.ts';
import { diagnosis } from '../diagnosis/schemas.ts';
import { email, timelineEvent } from '../schemas.ts';

const publicKey = z.string().meta({
  description: 'Public key of Ed25519: 32 octets in base64.',
  examples: ['11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo='],
});
const fingerprint = z.string().meta({
  description: 'SHA-256 of the public key, in base64 without padding, after `SHA256:`.',
  examples: ['SHA256:If5qexRkFaL8QbH9cHrfWd6wwvo8xbVszJpVWcKZBBo'],
});
const sha256 = (what: string) =>
  z
    .string()
    .nullable()
    .meta({
      description: `SHA-256 of ${what} in hex, or null without one.`,
      examples: ['2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824'],
    });

export const caseFileQuery = z.strictObject({
  recipient: doc(
    z.string().optional(),
    'Only this recipient. The file then names no other one. The default is all.',
    'jo@example.com',
  ),
});

const domainCheck = z
  .object({
    first_checked_at: time('First check with this result.'),
    last_checked_at: time('Last check in a row with this result.'),
    records: z.array(
      z.object({
        record: z.enum(['DKIM', 'SPF', 'MX']),
        name: z.string(),
        required: z.boolean(),
        status: z.enum(RECORD_STATUSES),
        found: z.array(z.string()).describe('Records that DNS returned for the name.'),
      }),
    ),
    dmarc: z.object({
      status: z.enum(['found', 'missing', 'dns_error']),
      domain: z
        .string()
        .nullable()
        .describe('Domain that published the records, or null without any.'),
      found: z.array(z.string()).describe('DMARC records that DNS returned.'),
    }),
  })
  .meta({
    id: 'CaseFileDomainCheck',
    description:
      'What checks of the sending domain found, from the first to the last with this result.',
  });

export const caseFile = z
  .object({
    object: z.literal('case_file'),
    version: doc(z.int().min(1), 'Version of the format.', 1),
    signer: z.object({
      algorithm: z.literal('Ed25519'),
      public_key: publicKey,
      fingerprint,
    }),
    made_at: time('Time of the file.'),
    installation: z.object({
      hostname: z.string().describe('Name of the machine in HELO.'),
      url: z.string().nullable().describe('Public URL, or null without one.'),
    }),
    recipient: z.string().nullable().describe('The only recipient, or null for all.'),
    email: email
      .omit({ html: true, text: true, etag: true })
      .extend({
        html_sha256: sha256('the html of the email'),
        text_sha256: sha256('the text of the email'),
      })
      .meta({ id: 'CaseFileEmail', description: 'The email, with hashes instead of its content.' }),
    events: doc(
      z.array(timelineEvent),
      'Events, oldest first. The `attempt` of an event has what was true at that time: server, address, TLS, ' +
        'dialogue and the SHA-256 of the message.',
    ),
    events_complete: z.boolean().describe('False when the email has more than 1,000 events.'),
    domain_checks: doc(
      z.array(domainCheck),
      'Results of DNS checks of the sending domain: the last one before the email, and each different one ' +
        'until its last event. Empty for mail from before the service kept them.',
    ),
    diagnosis: doc(diagnosis, 'DNS and authentication at the time of the file.'),
    message: z
      .object({
        recipient: z.string(),
        size: z.int().min(0),
        sha256: z.string(),
        header: z.string().describe('Header with its signatures, as sent.'),
      })
      .nullable()
      .describe(
        'Message of the first recipient in the file, or null after the retention of content.',
      ),
    signature: z
      .string()
      .describe('Signature over the canonical JSON (RFC 8785) of all other members, in base64.'),
  })
  .meta({
    id: 'CaseFile',
    description: 'Everything known about the delivery of an email, signed by the installation.',
  });

const keyFields = {
  public_key: publicKey,
  fingerprint,
  created_at: time('Time at which the key was made.'),
};

export const receiptKey = z
  .object({
    object: z.literal('receipt_key'),
    algorithm: z.literal('Ed25519'),
    ...keyFields,
    public_key_pem: z.string().describe('The public key as PEM.'),
    retired: doc(
      z.array(z.object({ ...keyFields, retired_at: time('Time since which it signs nothing.') })),
      'Earlier keys, for the files that they signed.',
    ),
  })
  .meta({ id: 'ReceiptKey', description: 'Key of the installation that signs case files.' });
