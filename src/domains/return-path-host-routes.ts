/** Routes of the host that receives the bounces of all domains: owners read and set it. */
import { z } from 'zod';
import { parseDomain } from '../mail/address.ts';
import { isRefusal, refuseFields } from '../core/refusals.ts';
import { changeReturnPathHost, readInstallation, tagOfReturnPathHost } from './mail-host-store.ts';
import { refuse } from '../http/errors.ts';
import { requireOperator } from '../http/operators.ts';
import { entityTag, expectedBy, failures, preconditionHeaders, tagged } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];

export function registerReturnPathHostRoutes(app: App, { db }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: requireOperator(db) };
  app.get('/v1/operator/return-path-host', {
    ...route,
    schema: {
      summary: 'Show the host that receives bounces',
      description:
        'Returns the host that the MX records of `send.<domain>` of all domains name. For owners.',
      operationId: 'getReturnPathHost',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: host, ...failures(404) },
    },
    handler: async (_, reply) => {
      const { returnPathHost: name, hosts } = await readInstallation(db);
      return tagged(reply, {
        object: 'return_path_host' as const,
        name,
        node_names: namesOf(hosts),
        etag: tagOfReturnPathHost(name),
      });
    },
  });

  app.put('/v1/operator/return-path-host', {
    ...route,
    schema: {
      summary: 'Set the host that receives bounces',
      description:
        'Sets the host that receives bounces. Verified domains have 72 hours to publish the new host, ' +
        'counted from when no node has the previous name. For owners.',
      operationId: 'setReturnPathHost',
      tags: TAGS,
      security: BY_SESSION,
      headers: preconditionHeaders,
      body: hostChange,
      response: { 200: changedHost, ...failures(400, 404, 412, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const name = parseDomain(request.body.name);
      if (name === null) {
        const message = 'is not fully qualified; write a full host name, such as mail.example.com';
        return refuse(reply, refuseFields([{ field: 'name', message }]));
      }
      const changed = await changeReturnPathHost(db, { name, isExpected: expectedBy(request) });
      if (isRefusal(changed)) return refuse(reply, changed);
      const { hosts } = await readInstallation(db);
      return tagged(reply, {
        object: 'return_path_host' as const,
        name,
        before: changed.before,
        verified_domains: changed.verified,
        node_names: namesOf(hosts),
        etag: tagOfReturnPathHost(name),
      });
    },
  });
}

const namesOf = (hosts: readonly { name: string }[]): string[] => [
  ...new Set(hosts.map(({ name }) => name)),
];

const hostName = z
  .string()
  .meta({ description: 'Full host name.', examples: ['mail.example.com'] });

const host = z
  .object({
    object: z.literal('return_path_host'),
    name: hostName
      .nullable()
      .describe(
        'Host that receives bounces, or null until a node with a full host name has started.',
      ),
    node_names: z
      .array(z.string())
      .describe(
        'Host names of the nodes. A domain is also verified when its MX record names one of them.',
      ),
    etag: entityTag,
  })
  .meta({ id: 'ReturnPathHost' });

const changedHost = host
  .extend({
    before: hostName.nullable().describe('Previous host, or null before the first.'),
    verified_domains: z
      .int()
      .describe('Number of verified domains that must publish the new host.'),
  })
  .meta({ id: 'ReturnPathHostChange' });

const hostChange = z.strictObject({ name: hostName }).meta({ id: 'ReturnPathHostWrite' });
