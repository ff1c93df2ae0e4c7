/** Routes of the results of TLS sessions, for operators: by day and recipient domain, with the types of RFC 8460. */
import { z } from 'zod';
import { parseDomain } from '../../mail/address.ts';
import { refuseFields } from '../../core/refusals.ts';
import { readTlsResults } from './transport-security-store.ts';
import { refuse } from '../../http/errors.ts';
import { listResponse } from '../../http/list-pages.ts';
import { requireOperator } from '../../http/operators.ts';
import { failures, listOf } from '../../http/schemas.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { BY_SESSION } from '../../accounts/sessions/http-sessions.ts';

const ROWS_MAX = 10_000;

export function registerTlsResultRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/tls-results', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'List the results of TLS sessions',
      description:
        'Counts TLS sessions by day, recipient domain, policy and result, newest day first, at most 10,000 ' +
        'rows. For owners.',
      operationId: 'listTlsResults',
      tags: ['Operator'],
      security: BY_SESSION,
      querystring: resultQuery,
      response: { 200: resultList, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const { days, domain: text } = request.query;
      const domain = text === undefined ? null : parseDomain(text);
      if (text !== undefined && domain === null) {
        const message = 'is not a domain name, like example.org';
        return refuse(reply, refuseFields([{ field: 'domain', message }]));
      }
      const rows = await readTlsResults(db, { domain, days, limit: ROWS_MAX + 1 });
      return listResponse(
        rows.map((row) => ({ object: 'tls_result' as const, ...row })),
        ROWS_MAX,
      );
    },
  });
}

const resultQuery = z.strictObject({
  domain: z
    .string()
    .optional()
    .meta({
      description: 'Returns only results for recipients at this domain.',
      examples: ['example.org'],
    }),
  days: z.coerce
    .number<string>()
    .int()
    .min(1)
    .max(30)
    .default(7)
    .describe('Number of days to return. 1 is today (UTC).'),
});

const result = z
  .object({
    object: z.literal('tls_result'),
    day: z.string().meta({ format: 'date', examples: ['2026-11-24'] }),
    domain: z
      .string()
      .meta({ description: 'Domain of the recipients.', examples: ['example.org'] }),
    policy: z.enum(['tlsa', 'sts', 'no-policy-found']).describe('Policy that required TLS.'),
    result: z
      .string()
      .meta({ description: '`success`, or a result type of RFC 8460.', examples: ['success'] }),
    sessions: z.int().describe('Number of sessions.'),
  })
  .meta({ id: 'TlsResult' });

const resultList = listOf('TlsResultList', result);
