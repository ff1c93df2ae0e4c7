/** Routes of going live: how programs reach the service, and the records of a domain at its DNS provider. */
import { z } from 'zod';
import { isRefusal, type Refusal } from '../core/refusals.ts';
import { domainToWire } from '../domains/wire.ts';
import { DnsProviderProblem, type DnsProvider } from '../net/dns-provider/dns-provider.ts';
import { DNS_PROVIDERS } from '../net/dns-provider/providers.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { isOperator, NOT_OPERATOR } from '../http/operators.ts';
import { doc, failures, idParams, idSchema } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import {
  addPlanned,
  firstDmarcRecord,
  noZoneSentence,
  planPublication,
  recordsOf,
} from './publish-records.ts';
import type { WantedRecord } from './record-plan.ts';

export function registerConnectionRoute(app: App, { config, localUrl }: HttpServices): void {
  app.get('/v1/connection', {
    schema: {
      summary: 'How to reach the service',
      description:
        'Returns the address and the SMTP ports for programs, and the DNS provider at which the service can ' +
        'publish records.',
      operationId: 'getConnection',
      tags: ['Projects'],
      response: { 200: connection, ...failures() },
    },
    handler: async () => ({
      object: 'connection' as const,
      url: config.publicUrl ?? localUrl,
      has_public_url: config.publicUrl !== null,
      smtp: { host: config.hostname, ports: config.submissionPorts.map(({ port }) => port) },
      dns_provider: config.dnsProvider?.name ?? null,
    }),
  });
}

const NO_PROVIDER: Refusal = {
  refused: 'conflict',
  message:
    'No DNS provider is configured; set LETTERHAUS_DNS_PROVIDER and its token, or publish the records by hand.',
};

export function registerPublicationRoute(app: App, services: HttpServices): void {
  const { db, config, domains, world } = services;
  app.post('/v1/domains/:id/publish', {
    schema: {
      summary: 'Publish the records at the DNS provider',
      description:
        'Adds the missing records of the domain in its zone, by the API of the DNS provider that the service is ' +
        'configured with, and a DMARC record with `p=none` if there is none. Existing records are neither changed ' +
        'nor removed. With `dry_run` it only returns what it would add. For owners.',
      operationId: 'publishDomainRecords',
      tags: ['Domains'],
      security: BY_SESSION,
      params: idParams('domain'),
      body: publicationWrite,
      response: { 200: publication, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      // The token may write the zones of others, so a project's own rights do not suffice.
      if (!(await isOperator(db, request))) return refuse(reply, NOT_OPERATOR);
      const found = await domains.get(callerOf(request), request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (config.dnsProvider === null) return refuse(reply, NO_PROVIDER);
      // Few installations have a provider, so a start does not load their APIs (service/machine/privileges.ts).
      const { openDnsProvider } = await import('../net/dns-provider/open-provider.ts');
      const provider = openDnsProvider(config.dnsProvider, { world });
      const missing = recordsOf(domainToWire(found)).flatMap(({ record, isInDns }) =>
        isInDns ? [] : [record],
      );
      const lacksDmarc = await domains.lacksDmarc(found.name);
      const wanted = lacksDmarc ? [...missing, firstDmarcRecord(found.name, config)] : missing;
      const published = await publish(provider, { domain: found.name, wanted }, request.body);
      if (isRefusal(published)) return refuse(reply, published);
      return { object: 'domain_publication' as const, domain_id: found.id, ...published };
    },
  });
}

type Wanted = { domain: string; wanted: readonly WantedRecord[] };

type Published = Omit<z.output<typeof publication>, 'object' | 'domain_id'>;

/** Returns a refusal when the provider refuses or cannot be reached. */
async function publish(
  provider: DnsProvider,
  { domain, wanted }: Wanted,
  { dry_run: isDryRun }: { dry_run: boolean },
): Promise<Published | Refusal> {
  try {
    const planned = await planPublication(provider, domain, wanted);
    if (planned === null) {
      return { refused: 'conflict', message: noZoneSentence(provider, domain) };
    }
    const added = isDryRun ? 0 : await addPlanned(provider, planned);
    const records = planned.plan.map(({ ttlS: ttl, ...record }) => ({ ...record, ttl }));
    return { provider: provider.name, zone: planned.zone.name, added, records };
  } catch (error) {
    if (!(error instanceof DnsProviderProblem)) throw error;
    return { refused: 'conflict', message: error.message };
  }
}

const connection = z
  .object({
    object: z.literal('connection'),
    url: z.string().meta({
      description: 'Address of the API, without a trailing slash.',
      examples: ['https://mail.example.com'],
    }),
    has_public_url: z
      .boolean()
      .describe('False when `url` is the address of this machine, because none is configured.'),
    smtp: z.object({
      host: z.string().meta({ examples: ['mail.example.com'] }),
      ports: doc(z.array(z.int()), 'Ports that take mail of clients. Empty: none.', [587, 465]),
    }),
    dns_provider: z
      .enum(DNS_PROVIDERS)
      .nullable()
      .describe('DNS provider at which owners can publish records, or null.'),
  })
  .meta({ id: 'Connection' });

const publicationWrite = z
  .strictObject({
    dry_run: doc(z.boolean().default(false), 'Only returns what would be added.'),
  })
  .meta({ id: 'DomainPublicationWrite' });

const publication = z
  .object({
    object: z.literal('domain_publication'),
    domain_id: idSchema('The domain.'),
    provider: z.string().meta({ description: 'Name of the provider.', examples: ['Cloudflare'] }),
    zone: z.string().meta({ description: 'The zone of the domain.', examples: ['acme.com'] }),
    added: z.int().describe('Number of records that were added now.'),
    records: z
      .array(
        z.object({
          purpose: z.enum(['DKIM', 'SPF', 'MX', 'DMARC']),
          type: z.enum(['TXT', 'MX', 'A', 'AAAA', 'CNAME']),
          name: z.string().meta({ examples: ['send.acme.com'] }),
          value: z.string().meta({ examples: ['v=spf1 a:mail.example.com ~all'] }),
          ttl: z.int().describe('TTL in seconds.'),
          action: z
            .enum(['present', 'add', 'blocked'])
            .describe('`present`: the zone has it. `blocked`: a record of others is in the way.'),
          problem: doc(z.string().nullable(), 'What blocks the record and what to do, or null.'),
        }),
      )
      .describe('Records that DNS did not have at the last check, and what is done with each.'),
  })
  .meta({ id: 'DomainPublication' });
