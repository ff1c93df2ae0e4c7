/** Owners read and set the host that receives the bounces of all domains. */
import { z } from 'zod';
import { parseDomain } from '../mail/address.ts';
import { refuseFields } from '../core/refusals.ts';
import { readInstallation, setReturnPathHost } from './mail-host-store.ts';
import { refuse } from '../http/errors.ts';
import { onlyOperators } from '../http/operators.ts';
import { failures } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];

export function registerReturnPathHostRoutes(app: App, { db }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: onlyOperators(db) };
  app.get('/v1/operator/return-path-host', {
    ...route,
    schema: {
      summary: 'Show the host that receives bounces',
      description: 'The MX records of `send.<domain>` of all domains name it. For owners.',
      operationId: 'getReturnPathHost',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: host, ...failures(404) },
    },
    handler: async () => {
      const { returnPathHost: name, hosts } = await readInstallation(db);
      return { object: 'return_path_host' as const, name, node_names: namesOf(hosts) };
    },
  });

  app.put('/v1/operator/return-path-host', {
    ...route,
    schema: {
      summary: 'Set the host that receives bounces',
      description:
        'Once no node has the previous name, verified domains have 72 hours to publish the new one. For owners.',
      operationId: 'setReturnPathHost',
      tags: TAGS,
      security: BY_SESSION,
      body: hostWrite,
      response: { 200: changed, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const name = parseDomain(request.body.name);
      if (name === null) {
        const message = 'is not fully qualified; write a full host name, such as mail.example.com';
        return refuse(reply, refuseFields([{ field: 'name', message }]));
      }
      const { before, verified } = await setReturnPathHost(db, name);
      const { hosts } = await readInstallation(db);
      return {
        object: 'return_path_host' as const,
        name,
        before,
        verified_domains: verified,
        node_names: namesOf(hosts),
      };
    },
  });
}

const namesOf = (hosts: readonly { name: string }[]): string[] => [
  ...new Set(hosts.map(({ name }) => name)),
];

const hostName = z
  .string()
  .meta({ description: 'A full host name.', examples: ['mail.example.com'] });

const host = z
  .object({
    object: z.literal('return_path_host'),
    name: hostName.nullable().describe('Null until a node with a full host name has started.'),
    node_names: z
      .array(z.string())
      .describe('Names of the nodes. A domain whose MX record names one of them verifies, too.'),
  })
  .meta({ id: 'ReturnPathHost' });

const changed = host
  .extend({
    before: hostName.nullable().describe('The previous host.'),
    verified_domains: z.int().describe('Verified domains that must publish the new host.'),
  })
  .meta({ id: 'ReturnPathHostChange' });

const hostWrite = z.strictObject({ name: hostName }).meta({ id: 'ReturnPathHostWrite' });
