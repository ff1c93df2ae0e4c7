/** Routes of conditions: list the open ones. The event stream of an operator's key shows their beginnings and ends. */
import { z } from 'zod';
import { CONDITION_TYPES } from '../core/operator-events.ts';
import { type Condition, listConditions } from './condition-store.ts';
import { refuse } from '../http/errors.ts';
import { isOperator, NOT_OPERATOR } from '../http/operators.ts';
import { doc, failures, listOf, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

const SHOWN_MAX = 100;

export function registerOperatorRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/conditions', {
    schema: {
      summary: 'List open conditions',
      description:
        'Lists conditions that require an operator to act, newest first, at most 100. Examples are a ' +
        'provider that blocks the installation, a nearly full disk, and a wrong clock. For keys of the ' +
        'operator, and for admins.',
      operationId: 'listOperatorConditions',
      tags: ['Service'],
      response: { 200: conditionList, ...failures() },
    },
    handler: async (request, reply) => {
      if (!(await isOperator(db, request))) return refuse(reply, NOT_OPERATOR);
      const open = await listConditions(db, SHOWN_MAX + 1);
      return {
        object: 'list' as const,
        data: open.slice(0, SHOWN_MAX).map(conditionToWire),
        has_more: open.length > SHOWN_MAX,
      };
    },
  });
}

export function conditionToWire({
  type,
  subject,
  message,
  remedy,
  details,
  since,
  lastSeen,
}: Condition) {
  return {
    object: 'condition' as const,
    type,
    subject,
    message,
    remedy,
    details,
    since: since.toISOString(),
    last_seen: lastSeen.toISOString(),
  };
}

export const condition = z
  .object({
    object: z.literal('condition'),
    type: z.enum(CONDITION_TYPES),
    subject: doc(
      z.string(),
      'Object of the condition, for example a host. It depends on the type.',
      'mail1.example.org',
    ),
    message: z.string().meta({
      description: 'One sentence that says what is wrong.',
      examples: ['The disk of the database has 412 MB left; emails are refused.'],
    }),
    remedy: z
      .string()
      .meta({ description: 'One sentence that says what to do.', examples: ['Enlarge the disk.'] }),
    details: z.looseObject({}).describe('Details of the condition. The fields depend on the type.'),
    since: time('Start of the condition.'),
    last_seen: time('Time of the latest report of the condition.'),
  })
  .meta({ id: 'OperatorCondition' });

const conditionList = listOf('OperatorConditionList', condition);
