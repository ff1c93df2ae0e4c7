/** Routes of sending domains: add, list, read, verify, remove (domains.ts). */
import { z } from 'zod';
import { isRefusal } from '../core/refusals.ts';
import { domainToWire } from './wire.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { countTowardsLimit } from '../accounts/limits/http-limits.ts';
import { pageResponse, readPage } from '../http/list-pages.ts';
import {
  doc,
  entityTag,
  environment,
  expectedBy,
  failures,
  idParams,
  idSchema,
  listOf,
  optional,
  pageQuery,
  preconditionHeaders,
  tagged,
  time,
} from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { WAITING_SHOWN_MAX } from './domain-limits.ts';
import { DKIM_PEM_MAX_LENGTH } from '../mail/dkim-import.ts';
import { isId } from '../database/ids.ts';
import { RECORD_STATUSES } from './dns/records.ts';
import { DOMAIN_STATUSES, DOMAIN_TLS } from './domain-store.ts';

const TAGS = ['Domains'];
const params = idParams('domain');

export function registerDomainRoutes(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerGet(app, services);
  registerChange(app, services);
  registerRemove(app, services);
  registerVerify(app, services);
  registerRotation(app, services);
}

function registerCreateAndList(app: App, services: HttpServices): void {
  const { domains } = services;
  app.post('/v1/domains', {
    config: { limit: 'domains', withinDomain: true },
    schema: {
      summary: 'Add a domain',
      description:
        'Adds a sending domain and returns the DNS records to publish. Publish them, then verify the domain. ' +
        'With `dkim` the domain signs with an existing key, so that its record need not change.',
      operationId: 'createDomain',
      tags: TAGS,
      body: domainCreation,
      response: { 201: domain, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { name, ...settings } = request.body;
      if (!(await countTowardsLimit(services, request, reply, 'domains'))) return reply;
      const added = await domains.create(callerOf(request), name, settings);
      if (isRefusal(added)) return refuse(reply, added);
      return reply.code(201).send(domainToWire(added));
    },
  });

  app.get('/v1/domains', {
    config: { withinDomain: true },
    schema: {
      summary: 'List domains',
      description: 'Lists the domains of this project and environment, newest first.',
      operationId: 'listDomains',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: domainList, ...failures(422) },
    },
    handler: async (request) => {
      const page = readPage(request.query);
      return pageResponse(await domains.list(callerOf(request), page), domainToWire);
    },
  });
}

function registerGet(app: App, { domains }: HttpServices): void {
  app.get('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Get a domain',
      description:
        'Returns a domain with the results of the last check of its DNS records, and advice.',
      operationId: 'getDomain',
      tags: TAGS,
      params,
      querystring: z.strictObject({
        waiting: doc(z.enum(['true', 'false']).default('false'), COUNTS_WAITING),
      }),
      response: { 200: domain, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { id } = request.params;
      const found = await domains.get(caller, id);
      if (isRefusal(found)) return refuse(reply, found);
      const shown = tagged(reply, domainToWire(found));
      if (request.query.waiting !== 'true') return shown;
      return { ...shown, waiting: await domains.countWaiting(caller, id) };
    },
  });
}

function registerChange(app: App, { domains }: HttpServices): void {
  app.patch('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Change a domain',
      description:
        'Changes the settings of a domain. They apply to emails that are accepted afterwards.',
      operationId: 'updateDomain',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      body: domainChange,
      response: { 200: domain, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { tls: mode, tracking } = request.body;
      const { opens, clicks } = tracking ?? {};
      const change = {
        tls: mode ?? undefined,
        tracking: { opens: opens ?? undefined, clicks: clicks ?? undefined },
      };
      const changed = await domains.change(callerOf(request), id, change, expectedBy(request));
      return isRefusal(changed) ? refuse(reply, changed) : tagged(reply, domainToWire(changed));
    },
  });
}

function registerRemove(app: App, { domains }: HttpServices): void {
  app.delete('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Remove a domain',
      description:
        'Removes a domain. The service sends no more email from it, and waiting recipients end as `failed`.',
      operationId: 'deleteDomain',
      tags: TAGS,
      params,
      headers: preconditionHeaders,
      response: { 200: domainDeleted, ...failures(404, 412) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { id } = request.params;
      const waiting = isId(id) ? await domains.countWaiting(caller, id) : 0;
      const removed = await domains.delete(caller, id, expectedBy(request));
      if (isRefusal(removed)) return refuse(reply, removed);
      return { object: 'domain' as const, id, deleted: true as const, waiting };
    },
  });
}

function registerVerify(app: App, services: HttpServices): void {
  const { domains } = services;
  app.post('/v1/domains/:id/verify', {
    config: { limit: 'verification', withinDomain: true },
    schema: {
      summary: 'Verify a domain',
      description:
        'Looks up the DNS records of the domain now and returns the domain with the result. A missing record ' +
        'is not an error. The `problem` of the record says what to do.',
      operationId: 'verifyDomain',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await domains.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'verification'))) return reply;
      const verified = await domains.verify(caller, request.params.id);
      return isRefusal(verified) ? refuse(reply, verified) : domainToWire(verified);
    },
  });
}

function registerRotation(app: App, services: HttpServices): void {
  const { domains } = services;
  app.post('/v1/domains/:id/rotate-dkim', {
    config: { limit: 'domains', withinDomain: true },
    schema: {
      summary: 'Rotate the DKIM keys',
      description:
        'Generates new DKIM keys. Their records are in `records` with `key: next`. The current keys sign ' +
        'until a check finds the new RSA record. Then the new keys sign. The record of the previous keys ' +
        'must stay published for 7 days.',
      operationId: 'rotateDomainDkim',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await domains.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countTowardsLimit(services, request, reply, 'domains'))) return reply;
      const rotated = await domains.rotateDkim(caller, request.params.id);
      return isRefusal(rotated) ? refuse(reply, rotated) : domainToWire(rotated);
    },
  });

  app.post('/v1/domains/:id/rotate-dkim/cancel', {
    config: { withinDomain: true },
    schema: {
      summary: 'Cancel a rotation',
      description:
        'Cancels a rotation and deletes the new keys. A rotation whose new keys sign already cannot be ' +
        'canceled.',
      operationId: 'cancelDomainDkimRotation',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const canceled = await domains.cancelDkimRotation(callerOf(request), request.params.id);
      return isRefusal(canceled) ? refuse(reply, canceled) : domainToWire(canceled);
    },
  });
}

const tls = doc(
  z.enum(DOMAIN_TLS),
  'TLS mode of emails that do not set it. `enforced` sends only to mail servers with a valid TLS ' +
    'certificate. Other recipients are retried, and fail when the email expires.',
);

const TRACKING = 'Tracking of opens and clicks in emails that do not set it.';

const record = z
  .object({
    record: z.enum(['DKIM', 'SPF', 'MX']).describe('Purpose of the record.'),
    type: z.enum(['TXT', 'MX']),
    name: z.string().meta({
      description: 'Full name of the record. Some DNS panels require the name without the domain.',
      examples: ['s1._domainkey.acme.com'],
    }),
    value: z.string().meta({ examples: ['v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEF…'] }),
    ttl: doc(z.int().min(0), 'Suggested TTL in seconds.', 3600),
    priority: doc(
      z.int().min(0).optional(),
      'Priority of an MX record. Absent for TXT records.',
      10,
    ),
    required: z.boolean().describe('True when the domain cannot be verified without this record.'),
    status: z.enum(RECORD_STATUSES),
    found: doc(z.array(z.string()), 'Records that DNS has at this name.', []),
    problem: doc(
      z.string().nullable(),
      'What is wrong and what to do, or null when the record is correct.',
      'There is no TXT record at s1._domainkey.acme.com; publish it as shown.',
    ),
    key: doc(
      z.enum(['next', 'previous']).optional(),
      'Generation of a DKIM key during a rotation. `next` keys will sign, and `previous` keys signed ' +
        'before.',
    ),
  })
  .meta({
    id: 'DomainRecord',
    description: 'A DNS record to publish, with the records that DNS has.',
  });

const waitingCount = z
  .int()
  .min(0)
  .max(WAITING_SHOWN_MAX + 1);
const COUNTS_WAITING =
  'With `true` the response includes `waiting`. Counting takes time in a long queue.';

export const domain = z
  .object({
    object: z.literal('domain'),
    id: idSchema('The domain.'),
    name: z.string().meta({ examples: ['acme.com'] }),
    status: doc(
      z.enum(DOMAIN_STATUSES),
      'Status of the domain. `degraded`: two checks missed a required record of a verified domain. It ' +
        'still sends. `failed`: a required record was missing for 72 hours. It does not send.',
    ),
    can_sign: doc(
      z.boolean(),
      'False when the service cannot open the DKIM keys of the domain. Its mail waits (see `advice`).',
    ),
    environment,
    tls,
    tracking: z.object({ opens: z.boolean(), clicks: z.boolean() }).describe(TRACKING),
    created_at: time('Time of creation.'),
    verified_at: time('Time at which the domain last became verified, or null before.').nullable(),
    checked_at: time('Time of the last DNS check, or null before the first.').nullable(),
    failing_since: time(
      'Time of the first check that missed a required record of a verified domain, or null when none is ' +
        'missing.',
    ).nullable(),
    dkim: doc(
      z.object({
        selector: z.string().describe('Selector of the RSA key that signs.'),
        since: time('Time since which the key signs.'),
        next: doc(
          z.object({ selector: z.string(), since: time('Time of creation.') }).nullable(),
          'Next key. It signs as soon as a check finds its record. Null when no rotation is in progress.',
        ),
        previous: doc(
          z
            .object({
              selector: z.string(),
              until: time('Time of replacement.'),
              keep_until: time('End of the period in which its record must stay published.'),
            })
            .nullable(),
          'Previous key. It signed mail that may still be in transit. Null after `keep_until`.',
        ),
      }),
      'DKIM keys of the domain.',
    ),
    records: z.array(record),
    advice: z.array(
      z.object({
        about: z.enum(['dkim', 'dmarc', 'ptr', 'replies', 'mta_sts', 'inbound', 'reputation']),
        message: z.string().meta({ examples: ['Publish a DMARC record at _dmarc.acme.com.'] }),
      }),
    ),
    etag: entityTag,
    waiting: waitingCount
      .optional()
      .describe(
        'Number of recipients that wait for mail of this domain. Absent without `waiting=true` in the query.',
      ),
  })
  .meta({ id: 'Domain', description: 'A sending domain.' });

const domainList = listOf('DomainList', domain);
const domainDeleted = z
  .object({
    object: z.literal('domain'),
    id: idSchema('The deleted object.'),
    deleted: z.literal(true),
    waiting: waitingCount.describe(
      'Number of recipients that waited for mail of this domain. They end as `failed`.',
    ),
  })
  .meta({ id: 'DeletedDomain' });

const domainCreation = z
  .strictObject({
    name: doc(
      z.string().min(1).max(253),
      'Name of the domain. A subdomain is a separate domain.',
      'acme.com',
    ),
    tls: tls.optional(),
    dkim: doc(
      z
        .strictObject({
          selector: doc(
            z.string().min(1).max(200),
            'Selector: the part of the record name before `._domainkey`.',
            's1',
          ),
          private_key: z
            .string()
            .min(1)
            .max(DKIM_PEM_MAX_LENGTH)
            .meta({
              description:
                'RSA key of 1024 to 4096 bits in PEM (PKCS#8 or PKCS#1), without a passphrase.',
              examples: [
                '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq…\n-----END PRIVATE KEY-----\n',
              ],
              writeOnly: true,
            }),
        })
        .optional(),
      'Existing RSA key to sign with. It is never returned. Without it, the service generates a key.',
    ),
  })
  .meta({ id: 'DomainCreation', examples: [{ name: 'acme.com' }] });

const domainChange = z
  .strictObject({
    tls: optional(tls),
    tracking: optional(
      doc(
        z.strictObject({ opens: optional(z.boolean()), clicks: optional(z.boolean()) }),
        `${TRACKING} Absent fields do not change.`,
      ),
    ),
  })
  .refine(({ tls: mode, tracking }) => mode != null || tracking != null, {
    error: 'Nothing to change: set `tls` or `tracking`.',
  })
  .meta({ id: 'DomainChange', examples: [{ tracking: { opens: true, clicks: true } }] });
