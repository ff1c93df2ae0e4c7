/** Routes of sending domains: add, list, read, verify, remove. The logic is in domains/domains.ts. */
import { z } from 'zod';
import { isRefusal } from '../core/refusals.ts';
import { presentDomain } from './view.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { countToLimit } from '../accounts/limits/http-limits.ts';
import { pageAnswer, pageFrom } from '../http/list.ts';
import {
  doc,
  environment,
  failures,
  idParams,
  idSchema,
  listOf,
  optional,
  pageQuery,
  time,
} from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { WAITING_SHOWN_MAX } from './limits.ts';
import { DKIM_PEM_MAX_LENGTH } from '../mail/dkim-import.ts';
import { isId } from '../database/ids.ts';
import { DOMAIN_STATUSES, DOMAIN_TLS } from './domain-store.ts';

const TAGS = ['Domains'];
const params = idParams('domain');

export function registerDomainRoutes(app: App, services: HttpServices): void {
  registerCreateAndList(app, services);
  registerOne(app, services);
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
        'The response lists the DNS records to publish; then verify it. With `dkim` it signs with an ' +
        'existing key, whose record need not be changed.',
      operationId: 'createDomain',
      tags: TAGS,
      body: domainCreation,
      response: { 201: domain, ...failures(400, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { name, ...settings } = request.body;
      if (!(await countToLimit(services, request, reply, 'domains'))) return reply;
      const added = await domains.create(callerOf(request), name, settings);
      if (isRefusal(added)) return refuse(reply, added);
      return reply.code(201).send(presentDomain(added));
    },
  });

  app.get('/v1/domains', {
    config: { withinDomain: true },
    schema: {
      summary: 'List domains',
      description: 'Those of this project and environment, newest first.',
      operationId: 'listDomains',
      tags: TAGS,
      querystring: pageQuery,
      response: { 200: domainList, ...failures(422) },
    },
    handler: async (request) => {
      const page = pageFrom(request.query);
      return pageAnswer(await domains.list(callerOf(request), page), presentDomain);
    },
  });
}

function registerOne(app: App, { domains }: HttpServices): void {
  app.get('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Get a domain',
      description: 'With its DNS records as they were found last, and advice.',
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
      if (request.query.waiting !== 'true') return presentDomain(found);
      return { ...presentDomain(found), waiting: await domains.countWaiting(caller, id) };
    },
  });

  app.patch('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Change a domain',
      description: 'Applies to emails that are accepted from now on.',
      operationId: 'updateDomain',
      tags: TAGS,
      params,
      body: domainChange,
      response: { 200: domain, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const { tls: mode, tracking } = request.body;
      const { opens, clicks } = tracking ?? {};
      const changed = await domains.change(callerOf(request), id, {
        tls: mode ?? undefined,
        tracking: { opens: opens ?? undefined, clicks: clicks ?? undefined },
      });
      return isRefusal(changed) ? refuse(reply, changed) : presentDomain(changed);
    },
  });

  app.delete('/v1/domains/:id', {
    config: { withinDomain: true },
    schema: {
      summary: 'Remove a domain',
      description: 'No more email is sent from it; waiting recipients end as failed.',
      operationId: 'deleteDomain',
      tags: TAGS,
      params,
      response: { 200: domainDeleted, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const { id } = request.params;
      const waiting = isId(id) ? await domains.countWaiting(caller, id) : 0;
      const removed = await domains.delete(caller, id);
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
        'Looks its records up now and returns the domain with the result; a missing record ' +
        'is not an error, its `problem` says what to do.',
      operationId: 'verifyDomain',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await domains.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countToLimit(services, request, reply, 'verification'))) return reply;
      const verified = await domains.verify(caller, request.params.id);
      return isRefusal(verified) ? refuse(reply, verified) : presentDomain(verified);
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
        'Makes new keys, whose records are in `records` with `key: next`. The present keys sign until a check ' +
        'finds the new RSA record; then the new keys sign, and the record of the previous ones has to stay for 7 days.',
      operationId: 'rotateDomainDkim',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const caller = callerOf(request);
      const found = await domains.get(caller, request.params.id);
      if (isRefusal(found)) return refuse(reply, found);
      if (!(await countToLimit(services, request, reply, 'domains'))) return reply;
      const rotated = await domains.rotateDkim(caller, request.params.id);
      return isRefusal(rotated) ? refuse(reply, rotated) : presentDomain(rotated);
    },
  });

  app.post('/v1/domains/:id/rotate-dkim/cancel', {
    config: { withinDomain: true },
    schema: {
      summary: 'Cancel a rotation',
      description: 'Drops the new keys. Once they sign, a rotation can no longer be canceled.',
      operationId: 'cancelDomainDkimRotation',
      tags: TAGS,
      params,
      response: { 200: domain, ...failures(404, 409) },
    },
    handler: async (request, reply) => {
      const canceled = await domains.cancelDkimRotation(callerOf(request), request.params.id);
      return isRefusal(canceled) ? refuse(reply, canceled) : presentDomain(canceled);
    },
  });
}

const tls = doc(
  z.enum(DOMAIN_TLS),
  'For emails that do not set it themselves. `enforced`: only to mail servers with a valid ' +
    'certificate over TLS; otherwise recipients are retried and fail when the email expires.',
);

const TRACKING = 'Whether opens and clicks are tracked, for emails that do not set it themselves.';

const record = z
  .object({
    record: z.enum(['DKIM', 'SPF', 'MX']).describe('Its purpose.'),
    type: z.enum(['TXT', 'MX']),
    name: z.string().meta({
      description: 'The full name; some DNS panels require it without the domain.',
      examples: ['s1._domainkey.acme.com'],
    }),
    value: z.string().meta({ examples: ['v=DKIM1; k=rsa; p=MIIBIjANBgkqhkiG9w0BAQEF…'] }),
    ttl: doc(z.int().min(0), 'Suggested TTL in seconds.', 3600),
    priority: doc(z.int().min(0).optional(), 'For MX records only.', 10),
    required: z.boolean().describe('Without it the domain is not verified.'),
    status: z.enum(['not_started', 'verified', 'missing', 'mismatch', 'dns_error']),
    found: doc(z.array(z.string()), 'The records in DNS at this name.', []),
    problem: doc(
      z.string().nullable(),
      'What is wrong and what to do.',
      'There is no TXT record at s1._domainkey.acme.com; publish it as shown.',
    ),
    key: doc(
      z.enum(['next', 'previous']).optional(),
      'Only of DKIM records during a rotation: of the keys that are to sign, or of those that signed before.',
    ),
  })
  .meta({ id: 'DomainRecord', description: 'A DNS record to publish, and what was found.' });

const waitingCount = z
  .int()
  .min(0)
  .max(WAITING_SHOWN_MAX + 1);
const COUNTS_WAITING = '`true`: the response has `waiting`, which takes time in a deep queue.';

const domain = z
  .object({
    object: z.literal('domain'),
    id: idSchema('The domain.'),
    name: z.string().meta({ examples: ['acme.com'] }),
    status: doc(
      z.enum(DOMAIN_STATUSES),
      '`degraded`: was verified, and a required record is missing at two checks; it sends. ' +
        '`failed`: the records were missing for 72 hours; it does not send.',
    ),
    can_sign: doc(
      z.boolean(),
      'False: the service cannot open its DKIM keys; its mail waits (see `advice`).',
    ),
    environment,
    tls,
    tracking: z.object({ opens: z.boolean(), clicks: z.boolean() }).describe(TRACKING),
    created_at: time('When it was added.'),
    verified_at: time('When it last became verified.').nullable(),
    checked_at: time('When its records were last looked up.').nullable(),
    failing_since: time(
      'Since when a required record of a domain that was verified is missing; null: none is.',
    ).nullable(),
    dkim: doc(
      z.object({
        selector: z.string().describe('Of the RSA key that signs.'),
        since: time('Since when it signs.'),
        next: doc(
          z.object({ selector: z.string(), since: time('When it was made.') }).nullable(),
          'Signs as soon as a check finds its record; null: no rotation is under way.',
        ),
        previous: doc(
          z
            .object({
              selector: z.string(),
              until: time('When it was replaced.'),
              keep_until: time('How long its record has to stay published.'),
            })
            .nullable(),
          'Of mail that is under way; null after that time.',
        ),
      }),
      'The DKIM keys.',
    ),
    records: z.array(record),
    advice: z.array(
      z.object({
        about: z.enum(['dkim', 'dmarc', 'ptr', 'replies', 'mta_sts', 'inbound', 'reputation']),
        message: z.string().meta({ examples: ['Publish a DMARC record at _dmarc.acme.com.'] }),
      }),
    ),
    waiting: waitingCount
      .optional()
      .describe('Recipients that wait for its mail; only if the query asks for it.'),
  })
  .meta({ id: 'Domain', description: 'A sending domain.' });

const domainList = listOf('DomainList', domain);
const domainDeleted = z
  .object({
    object: z.literal('domain'),
    id: idSchema('The deleted object.'),
    deleted: z.literal(true),
    waiting: waitingCount.describe('Recipients that waited for its mail: they end as failed.'),
  })
  .meta({ id: 'DeletedDomain' });

const domainCreation = z
  .strictObject({
    name: doc(z.string().min(1).max(253), 'A subdomain is a domain of its own.', 'acme.com'),
    tls: tls.optional(),
    dkim: doc(
      z
        .strictObject({
          selector: doc(
            z.string().min(1).max(200),
            'The name of its record before `._domainkey`.',
            's1',
          ),
          private_key: z
            .string()
            .min(1)
            .max(DKIM_PEM_MAX_LENGTH)
            .meta({
              description:
                'RSA of 1024 to 4096 bits in PEM (PKCS#8 or PKCS#1), without a passphrase.',
              examples: [
                '-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq…\n-----END PRIVATE KEY-----\n',
              ],
              writeOnly: true,
            }),
        })
        .optional(),
      'An RSA key that is in use already; it is never returned. Absent: a new key.',
    ),
  })
  .meta({ id: 'DomainCreation', examples: [{ name: 'acme.com' }] });

const domainChange = z
  .strictObject({
    tls: optional(tls),
    tracking: optional(
      doc(
        z.strictObject({ opens: optional(z.boolean()), clicks: optional(z.boolean()) }),
        `${TRACKING} What is left out stays as it is.`,
      ),
    ),
  })
  .refine(({ tls: mode, tracking }) => mode != null || tracking != null, {
    error: 'Nothing to change: set `tls` or `tracking`.',
  })
  .meta({ id: 'DomainChange', examples: [{ tracking: { opens: true, clicks: true } }] });
