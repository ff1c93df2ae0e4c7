/**
 * What an operator has to act on now, and whether all mail is accounted for. Beginnings and ends are in the event
 * stream of an operator's key.
 */
import type { FastifyRequest } from 'fastify';
import { z } from 'zod';
import { CONDITION_TYPES, OPERATOR_PROJECT_ID } from '../core/operator-events.ts';
import {
  describeDifference,
  DIFFERENCE_KINDS,
  DIFFERENCES,
} from '../reconciliation/differences.ts';
import type { Refusal } from '../core/refusals.ts';
import { findOrganization } from '../accounts/members/member-store.ts';
import { type Condition, listConditions } from './condition-store.ts';
import {
  listDifferences,
  type ReconciledDay,
  readReconciliation,
} from '../reconciliation/day-store.ts';
import type { Queryable } from '../database/database.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { doc, failures, idSchema, listOf, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

const SHOWN_MAX = 100;

const NOT_OPERATORS: Refusal = {
  refused: 'authorization_error',
  message:
    'This is for the operator: use a key that was made with `letterhaus keys create --project operator --mode live`.',
};

/** By an operator's key, or the session of a member of the first organization. */
async function isOperator(db: Queryable, request: FastifyRequest): Promise<boolean> {
  const { projectId, organizationId } = callerOf(request);
  if (request.session === null) return projectId === OPERATOR_PROJECT_ID;
  return organizationId === (await findOrganization(db));
}

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
      if (!(await isOperator(db, request))) return refuse(reply, NOT_OPERATORS);
      const open = await listConditions(db, SHOWN_MAX + 1);
      return {
        object: 'list' as const,
        data: open.slice(0, SHOWN_MAX).map(toWire),
        has_more: open.length > SHOWN_MAX,
      };
    },
  });
}

export function registerReconciliationRoute(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/reconciliation', {
    schema: {
      summary: 'Get whether all mail is accounted for',
      description:
        'The result of the daily proof: for each project and day, accepted recipients are compared with those that ' +
        'ended and those that wait. For keys of the operator, and for admins.',
      operationId: 'getReconciliation',
      tags: ['Service'],
      response: { 200: reconciliation, ...failures() },
    },
    handler: async (request, reply) => {
      if (!(await isOperator(db, request))) return refuse(reply, NOT_OPERATORS);
      const summary = await readReconciliation(db);
      const differing = await listDifferences(db, SHOWN_MAX);
      return {
        object: 'reconciliation' as const,
        is_accounted_for: summary.differing === 0,
        from: summary.through < summary.from ? null : summary.from,
        to: summary.through < summary.from ? null : summary.through,
        checked_at: summary.finishedAt?.toISOString() ?? null,
        days_differing: summary.differing,
        days_waiting: summary.waiting,
        days_removed: summary.removed,
        differences: differing.map(differenceToWire),
      };
    },
  });
}

function differenceToWire({ projectId, projectName, day, differences }: ReconciledDay) {
  return {
    day,
    project_id: projectId,
    project_name: projectName,
    differences: differences.map((one) => ({
      kind: one.kind,
      message: describeDifference(one),
      remedy: DIFFERENCES[one.kind].toDo,
      email_ids: [...one.examples],
    })),
  };
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
    subject: doc(z.string(), 'What it concerns, by type.', 'mail1.example.org'),
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

const conditionList = listOf('OperatorConditionList', condition);

const day = (description: string) =>
  z.string().meta({ description, format: 'date', examples: ['2026-11-24'] });

const reconciliation = z
  .object({
    object: z.literal('reconciliation'),
    is_accounted_for: z.boolean().describe('No difference was found, or all are acknowledged.'),
    from: day(
      'The first of the last 30 days (UTC) that can be checked; null before the first is over.',
    ).nullable(),
    to: day('The last day that is over.').nullable(),
    checked_at: time('When all that was due had been checked; null: never.').nullable(),
    days_differing: doc(z.int(), 'Days of a project with a difference that is not acknowledged.'),
    days_waiting: z.int().describe('Days of a project that are to be checked now.'),
    days_removed: doc(
      z.int(),
      'Days of a project whose mail the retention removed before it could be checked.',
    ),
    differences: doc(
      z.array(
        z.object({
          day: day('The day on which the mail was accepted (UTC).'),
          project_id: idSchema('The project.'),
          project_name: z.string().describe('Its name.'),
          differences: z.array(
            z.object({
              kind: z.enum(DIFFERENCE_KINDS),
              message: z.string().describe('What differs.'),
              remedy: z.string().describe('What to do.'),
              email_ids: z.array(idSchema('An email.')).describe('Some of the emails.'),
            }),
          ),
        }),
      ),
      'The newest days with a difference that is not acknowledged, at most 100.',
    ),
  })
  .meta({ id: 'Reconciliation' });
