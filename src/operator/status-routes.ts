/** Routes of the state and the variables of the installation at a glance, for operators. */
import { z } from 'zod';
import packageFile from '../../package.json' with { type: 'json' };
import { newestToWire } from '../backup/newest-backup.ts';
import { UNREADY_CODES, unreadySentence } from '../core/unready.ts';
import { listConditions } from './condition-store.ts';
import { listNodeFacts } from '../migration/upgrade-facts.ts';
import { readQueueDepth } from '../delivery/queue-control/depth-store.ts';
import { readReconciliation } from '../reconciliation/day-store.ts';
import { requireOperator } from '../http/operators.ts';
import { doc, failures, listOf } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import { condition, conditionToWire } from './routes.ts';

const CONDITIONS_MAX = 1_000;

export function registerStatusRoute(app: App, services: HttpServices): void {
  const { db } = services;
  app.get('/v1/operator/status', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
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
      const [nodes, depths, reconciliation, conditions, backup] = await Promise.all([
        listNodeFacts(db),
        readQueueDepth(db, []),
        readReconciliation(db),
        listConditions(db, CONDITIONS_MAX),
        services.newestBackup(),
      ]);
      return {
        object: 'status' as const,
        version: packageFile.version,
        unready: services
          .unready()
          .map((reason) => ({ code: reason.code, message: unreadySentence(reason) })),
        warnings: [...services.readyWarnings()],
        on_hold: services.isOnHold(),
        nodes: nodes.map(({ host, version, workers }) => ({ host, version, workers })),
        queue: queueToWire(depths),
        is_accounted_for: reconciliation.differing === 0,
        conditions: conditions.map(conditionToWire),
        backup: backup && newestToWire(backup),
      };
    },
  });
}

export function registerVariablesRoute(app: App, { db, config }: HttpServices): void {
  app.get('/v1/operator/variables', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'List the variables',
      description:
        'Lists the environment variables that the service knows, and how they are set on this node. Secrets have ' +
        'no value. A change takes effect with the next start. For owners.',
      operationId: 'listVariables',
      tags: ['Operator'],
      security: BY_SESSION,
      response: { 200: variableList, ...failures(404) },
    },
    handler: async () => ({
      object: 'list' as const,
      data: config.variables.map(({ name, isSet, isHidden, value }) => ({
        object: 'variable' as const,
        name,
        is_set: isSet,
        is_hidden: isHidden,
        value,
      })),
      has_more: false,
    }),
  });
}

const variableList = listOf(
  'VariableList',
  z
    .object({
      object: z.literal('variable'),
      name: z.string().meta({ examples: ['LETTERHAUS_HOSTNAME'] }),
      is_set: z.boolean().describe('False when the default applies.'),
      is_hidden: z.boolean().describe('True for secrets, whose value is not shown.'),
      value: doc(z.string().nullable(), 'Its value, or null.', 'mail.example.com'),
    })
    .meta({ id: 'Variable' }),
);

function queueToWire(depths: Awaited<ReturnType<typeof readQueueDepth>>) {
  const sum = (countOf: (depth: (typeof depths)[number]) => number) =>
    depths.reduce((total, depth) => total + countOf(depth), 0);
  return {
    waiting: sum(({ depth }) => depth),
    due: sum(({ due }) => due),
    held: sum(({ held }) => held),
    oldest_s: Math.round(Math.max(0, ...depths.map(({ oldestS }) => oldestS))),
  };
}

const status = z
  .object({
    object: z.literal('status'),
    version: z.string().meta({ description: 'Version of Letterhaus.', examples: ['0.1.0'] }),
    unready: z
      .array(z.object({ code: z.enum(UNREADY_CODES), message: z.string() }))
      .describe('Reasons why no mail is accepted or sent. Empty when there are none.'),
    warnings: z.array(z.string()).describe('Problems that do not prevent service.'),
    on_hold: z
      .boolean()
      .describe('True for a restored installation before its release. It sends no mail.'),
    nodes: z
      .array(
        z.object({
          host: z.string().meta({ examples: ['mail1'] }),
          version: z.string().nullable(),
          workers: z.int(),
        }),
      )
      .describe('Machines with workers. A killed machine is listed for 15 more seconds.'),
    queue: z.object({
      waiting: z
        .int()
        .describe('Number of recipients that have not ended. Above 100,000 it is an estimate.'),
      due: z
        .int()
        .describe('Number of waiting recipients that are due and not claimed by a worker.'),
      held: z.int().describe('Number of waiting recipients on hold.'),
      oldest_s: z.int().describe('Seconds that the oldest due recipient has waited.'),
    }),
    is_accounted_for: z
      .boolean()
      .describe(
        'True when the daily reconciliation found no difference, or only acknowledged ones.',
      ),
    conditions: z.array(condition).describe('Open conditions, at most the newest 1,000.'),
    backup: z
      .object({
        to: z.string().describe('Place where the service stores backups.'),
        newest: z
          .string()
          .nullable()
          .describe('Name of the newest backup, or null before the first.'),
        age_seconds: z
          .int()
          .nullable()
          .describe('Age of the newest backup in seconds, or null before the first.'),
        problem: z
          .string()
          .nullable()
          .describe('Reason why the backups cannot be listed, or null when they can.'),
      })
      .nullable()
      .describe('Backups of this installation, or null when the service makes none.'),
  })
  .meta({ id: 'InstallationStatus' });
