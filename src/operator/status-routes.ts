/** Shows the state of the installation at a glance, for the operator. */
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };
import { newestToWire } from '../backup/newest.ts';
import { UNREADY_CODES, unreadySentence } from '../core/readiness.ts';
import { listConditions } from './condition-store.ts';
import { listNodeFacts } from '../migration/upgrade-facts.ts';
import { queueDepth } from '../delivery/queue-control/depth-store.ts';
import { readReconciliation } from '../reconciliation/day-store.ts';
import { onlyOperators } from '../http/operators.ts';
import { failures } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import { condition, conditionToWire } from './routes.ts';

const CONDITIONS_MAX = 1_000;

export function registerStatusRoute(app: App, services: HttpServices): void {
  const { db } = services;
  app.get('/v1/operator/status', {
    config: { access: 'session' },
    preHandler: onlyOperators(db),
    schema: {
      summary: 'Show the state of the installation',
      description:
        'Returns whether mail is accepted and sent, the nodes, the queue, open conditions, and the newest backup. ' +
        'For owners.',
      operationId: 'getStatus',
      tags: ['Operator'],
      security: BY_SESSION,
      response: { 200: status, ...failures(404) },
    },
    handler: async () => {
      const [nodes, depths, proof, open, backup] = await Promise.all([
        listNodeFacts(db),
        queueDepth(db, []),
        readReconciliation(db),
        listConditions(db, CONDITIONS_MAX),
        services.newestBackup(),
      ]);
      const sum = (count: (one: (typeof depths)[number]) => number) =>
        depths.reduce((total, one) => total + count(one), 0);
      return {
        object: 'status' as const,
        version: packageFile.version,
        unready: services
          .unready()
          .map((one) => ({ code: one.code, message: unreadySentence(one) })),
        warnings: [...services.readyWarnings()],
        on_hold: services.isOnHold(),
        nodes: nodes.map(({ host, version, workers }) => ({ host, version, workers })),
        queue: {
          waiting: sum(({ depth }) => depth),
          due: sum(({ due }) => due),
          held: sum(({ held }) => held),
          oldest_s: Math.round(Math.max(0, ...depths.map(({ oldestS }) => oldestS))),
        },
        is_accounted_for: proof.differing === 0,
        conditions: open.map(conditionToWire),
        backup: backup && newestToWire(backup),
      };
    },
  });
}

const status = z
  .object({
    object: z.literal('status'),
    version: z.string().meta({ description: 'Version of Letterhaus.', examples: ['0.1.0'] }),
    unready: z
      .array(z.object({ code: z.enum(UNREADY_CODES), message: z.string() }))
      .describe('Reasons why no mail is accepted or sent; empty without any.'),
    warnings: z.array(z.string()).describe('Problems that do not prevent service.'),
    on_hold: z.boolean().describe('Restored and not released yet: nothing is sent.'),
    nodes: z
      .array(
        z.object({
          host: z.string().meta({ examples: ['mail1'] }),
          version: z.string().nullable(),
          workers: z.int(),
        }),
      )
      .describe('Machines with workers; one that was killed stays for 15 seconds.'),
    queue: z.object({
      waiting: z.int().describe('Recipients that have not ended; above 100,000 an estimate.'),
      due: z.int().describe('Of these, recipients that can be tried now and are in the table.'),
      held: z.int().describe('Of these, recipients on hold.'),
      oldest_s: z.int().describe('Seconds for which the oldest sendable recipient has waited.'),
    }),
    is_accounted_for: z
      .boolean()
      .describe('Whether the daily proof found only acknowledged differences.'),
    conditions: z.array(condition).describe('Open conditions; the newest 1,000.'),
    backup: z
      .object({
        to: z.string().describe('Where the service stores backups.'),
        newest: z.string().nullable().describe('The newest backup; null without any.'),
        age_seconds: z.int().nullable().describe('Age of the newest backup, in seconds.'),
        problem: z.string().nullable().describe('Reason why the backups cannot be listed.'),
      })
      .nullable()
      .describe('null when the service makes no backups.'),
  })
  .meta({ id: 'InstallationStatus' });
