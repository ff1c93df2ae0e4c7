/** What an operator has to act on now. Its beginnings and ends are in the event stream of an operator's key. */
import { z } from 'zod';
import { CONDITION_TYPES, OPERATOR_PROJECT_ID } from '../../core/operator-events.ts';
import type { Refusal } from '../../core/refusals.ts';
import { findOrganization } from '../../store/members.ts';
import { type Condition, listConditions } from '../../store/operator-conditions.ts';
import { callerOf } from '../access.ts';
import { refuse } from '../errors.ts';
import { failures, listOf, time } from '../schemas/common.ts';
import type { App, HttpServices } from '../services.ts';

const SHOWN_MAX = 100;

const NOT_OPERATORS: Refusal = {
  refused: 'authorization_error',
  message:
    'This is for the operator: use a key that was made with `letterhaus keys create --project operator --mode live`.',
};

export function registerOperatorRoutes(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/conditions', {
    schema: {
      summary: 'List what an operator has to act on',
      description:
        'Open conditions of the installation, newest first: a provider that blocks it, a disk that is nearly full, ' +
        'a clock that is wrong. For keys of the operator, and for admins. At most 100.',
      operationId: 'listOperatorConditions',
      tags: ['Service'],
      response: { 200: conditionList, ...failures() },
    },
    handler: async (request, reply) => {
      const { projectId, organizationId } = callerOf(request);
      const isOperator =
        request.session === null
          ? projectId === OPERATOR_PROJECT_ID
          : organizationId === (await findOrganization(db));
      if (!isOperator) return refuse(reply, NOT_OPERATORS);
      const open = await listConditions(db, SHOWN_MAX + 1);
      return {
        object: 'list' as const,
        data: open.slice(0, SHOWN_MAX).map(toWire),
        has_more: open.length > SHOWN_MAX,
      };
    },
  });
}

function toWire({ type, subject, message, remedy, details, since, lastSeen }: Condition) {
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

const condition = z
  .object({
    object: z.literal('condition'),
    type: z.enum(CONDITION_TYPES),
    subject: z
      .string()
      .meta({ description: 'What it concerns, by type.', examples: ['mail1.example.org'] }),
    message: z.string().meta({
      description: 'What is wrong.',
      examples: ['The disk of the database has 412 MB left; emails are refused.'],
    }),
    remedy: z.string().meta({ description: 'What to do.', examples: ['Enlarge the disk.'] }),
    details: z.looseObject({}).describe('Facts for programs, by type.'),
    since: time('When it began.'),
    last_seen: time('When it was last noticed.'),
  })
  .meta({ id: 'OperatorCondition' });

const conditionList = listOf(condition);
