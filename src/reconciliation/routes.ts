/**
 * Routes of the daily reconciliation. Keys of the operator and admins get its summary. Owners list its days, start
 * a check, and acknowledge differences.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { z } from 'zod';
import {
  describeDifference,
  DIFFERENCE_KINDS,
  DIFFERENCES,
  STATUS_COLUMNS,
} from './differences.ts';
import { type Refusal, refuseFields } from '../core/refusals.ts';
import { reconcile, reportProject } from './reconcile.ts';
import { isId } from '../database/ids.ts';
import { listAllProjects } from '../accounts/projects/project-store.ts';
import {
  acknowledgeDay,
  listDifferences,
  listReconciledDays,
  type ReconciledDay,
  readReconciliation,
} from './day-store.ts';
import { scheduleDay } from './reconciliation-store.ts';
import { refuse } from '../http/errors.ts';
import { listResponse } from '../http/list-pages.ts';
import { isOperator, NOT_OPERATOR, requireOperator } from '../http/operators.ts';
import { failures, idSchema, listOf, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';
import { DAY_MS } from '../lib/units.ts';

const TAGS = ['Operator'];
const DIFFERENCES_MAX = 100;
const DAYS_MAX = 1_000;
const DEFAULT_DAYS = 14;
/** After this time the response is incomplete. */
const CHECK_TIME_MAX_MS = 20_000;

export function registerReconciliationRoutes(app: App, services: HttpServices): void {
  registerSummary(app, services);
  registerDays(app, services);
  registerCheck(app, services);
  registerAcknowledgement(app, services);
}

function registerSummary(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/reconciliation', {
    schema: {
      summary: 'Get the result of the daily reconciliation of mail',
      description:
        'Returns the result of the daily reconciliation. For each project and day, it compares accepted recipients ' +
        'with ended and waiting ones. For keys of the operator, and for admins.',
      operationId: 'getReconciliation',
      tags: ['Service'],
      response: { 200: reconciliation, ...failures() },
    },
    handler: async (request, reply) => {
      if (!(await isOperator(db, request))) return refuse(reply, NOT_OPERATOR);
      const summary = await readReconciliation(db);
      const differing = await listDifferences(db, DIFFERENCES_MAX);
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
      remedy: DIFFERENCES[one.kind].remedy,
      email_ids: [...one.examples],
    })),
  };
}

function registerDays(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/reconciliation/days', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'List the days with mail, by project',
      description:
        'Lists days by project, with recipients by status and differences, newest first. The default is the ' +
        'last 14 days. For owners.',
      operationId: 'listReconciledDays',
      tags: TAGS,
      security: BY_SESSION,
      querystring: dayQuery,
      response: { 200: dayList, ...failures(404, 422) },
    },
    handler: async (request, reply) => {
      const { from, to = '9999-12-31', project_id: projectId = null } = request.query;
      if (projectId !== null && !isId(projectId)) return refuse(reply, NO_SUCH_ID);
      const { through } = await readReconciliation(db);
      const first = new Date(Date.parse(through) - (DEFAULT_DAYS - 1) * DAY_MS);
      const range = { from: from ?? first.toISOString().slice(0, 10), to, projectId };
      const listed = await listReconciledDays(db, range, DAYS_MAX + 1);
      const { has_more } = listResponse(listed, DAYS_MAX);
      const data = listed.slice(0, DAYS_MAX).filter(hasContent).map(dayToWire);
      return { object: 'list' as const, data, has_more };
    },
  });
}

function registerCheck(app: App, { db, world, operatorEvents }: HttpServices): void {
  app.post('/v1/operator/reconciliation/check', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Check now that all mail is accounted for',
      description:
        'Checks the days that are due. `walks_queue` also checks the queue, and `day` checks that day again, ' +
        'even today. Repairs nothing. After 20 seconds it returns `is_complete: false`. Repeat the request ' +
        'then without `day`. For owners.',
      operationId: 'checkReconciliation',
      tags: TAGS,
      security: BY_SESSION,
      body: checkRequest,
      response: { 200: check, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { day: asked, project_id: projectId = null, walks_queue: walksQueue } = request.body;
      if (projectId !== null && !isId(projectId)) return refuse(reply, NO_SUCH_ID);
      if (asked !== undefined) {
        if (asked > (await readReconciliation(db)).today) {
          const message = `${asked} has not begun (UTC)`;
          return refuse(reply, refuseFields([{ field: 'day', message }]));
        }
        const all = projectId === null ? await listAllProjects(db) : [{ id: projectId }];
        for (const { id } of all) await scheduleDay(db, { projectId: id, day: asked });
      }
      const untilMs = world.monotonicMs() + CHECK_TIME_MAX_MS;
      let isComplete = true;
      const pauseBetweenSteps = async (): Promise<boolean> => {
        await turn();
        isComplete = world.monotonicMs() < untilMs;
        return isComplete;
      };
      await reconcile({ db, operatorEvents, pauseBetweenSteps }, { projectId, walksQueue });
      await operatorEvents.flush();
      return { object: 'reconciliation_check' as const, is_complete: isComplete };
    },
  });
}

function registerAcknowledgement(app: App, { db, operatorEvents }: HttpServices): void {
  app.post('/v1/operator/reconciliation/acknowledge', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Acknowledge the differences of a day',
      description:
        'Acknowledges the differences of a day and ends their alarm. Further differences of this day are ' +
        'reported again. For owners.',
      operationId: 'acknowledgeReconciliation',
      tags: TAGS,
      security: BY_SESSION,
      body: acknowledgement,
      response: { 200: acknowledged, ...failures(400, 404, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { day: known, project_id: projectId = null } = request.body;
      if (projectId !== null && !isId(projectId)) return refuse(reply, NO_SUCH_ID);
      const projects = await acknowledgeDay(db, { projectId, day: known });
      if (projects.length === 0) {
        const message = `There is no difference of ${known} to acknowledge; \`letterhaus reconcile\` lists them.`;
        return refuse(reply, { refused: 'not_found', message });
      }
      for (const id of projects) await reportProject({ db, operatorEvents }, id);
      await operatorEvents.flush();
      return { object: 'reconciliation_acknowledged' as const, day: known, projects };
    },
  });
}

const NO_SUCH_ID: Refusal = refuseFields([{ field: 'project_id', message: 'is not an id' }]);

const hasContent = ({ recipients, differences, checkedAt }: ReconciledDay): boolean =>
  recipients > 0 || differences.length > 0 || checkedAt === null;

function dayToWire(one: ReconciledDay) {
  return {
    object: 'reconciled_day' as const,
    day: one.day,
    project_id: one.projectId,
    project: one.projectName,
    state: stateOf(one),
    checked_at: one.checkedAt?.toISOString() ?? null,
    emails: one.emails,
    recipients: one.recipients,
    statuses: one.statuses,
    differences: one.differences.map((difference) => ({
      ...difference,
      examples: [...difference.examples],
      message: describeDifference(difference),
      remedy: DIFFERENCES[difference.kind].remedy,
    })),
    acknowledged_at: one.acknowledgedAt?.toISOString() ?? null,
  };
}

const STATES = [
  'differs',
  'acknowledged',
  'not_checked',
  'removed',
  'accounted_for_open',
  'accounted_for',
] as const;

function stateOf({
  differences,
  acknowledgedAt,
  checkedAt,
  isWaiting,
  statuses,
}: ReconciledDay): (typeof STATES)[number] {
  if (differences.length > 0) return acknowledgedAt === null ? 'differs' : 'acknowledged';
  if (checkedAt === null) return isWaiting ? 'not_checked' : 'removed';
  return (statuses.open ?? 0) > 0 ? 'accounted_for_open' : 'accounted_for';
}

const day = (description: string) =>
  z.string().meta({ description, format: 'date', examples: ['2026-11-24'] });

const reconciliation = z
  .object({
    object: z.literal('reconciliation'),
    is_accounted_for: z
      .boolean()
      .describe('True when no difference was found, or all are acknowledged.'),
    from: day(
      'First of the last 30 days (UTC) that can be checked, or null before the first is over.',
    ).nullable(),
    to: day('Last day (UTC) that is over, or null before the first is over.').nullable(),
    checked_at: time(
      'Time at which a run last checked all due days, or null before the first.',
    ).nullable(),
    days_differing: z
      .int()
      .describe('Number of days of a project with a difference that is not acknowledged.'),
    days_waiting: z.int().describe('Number of days of a project that are due for a check.'),
    days_removed: z
      .int()
      .describe('Number of days of a project whose mail the retention removed before a check.'),
    differences: z
      .array(
        z.object({
          day: day('Day of acceptance (UTC).'),
          project_id: idSchema('The project.'),
          project_name: z.string().describe('Name of the project.'),
          differences: z.array(
            z.object({
              kind: z.enum(DIFFERENCE_KINDS),
              message: z.string().describe('One sentence that says what differs.'),
              remedy: z.string().describe('One sentence that says what to do.'),
              email_ids: z.array(idSchema('An email.')).describe('Examples of these emails.'),
            }),
          ),
        }),
      )
      .describe('Days with a difference that is not acknowledged, at most the newest 100.'),
  })
  .meta({ id: 'Reconciliation' });

const date = z.iso.date().meta({ description: 'Day (UTC).', examples: ['2026-11-24'] });
const projectId = z
  .string()
  .optional()
  .meta({
    description: 'Includes only this project.',
    format: 'uuid',
    examples: ['0193f2a4-7c1e-7b3a-9d52-6f0e8c4b21aa'],
  });

const dayQuery = z.strictObject({
  from: date.optional(),
  to: date.optional(),
  project_id: projectId,
});

const reconciledDay = z
  .object({
    object: z.literal('reconciled_day'),
    day: day('Day of acceptance (UTC).'),
    project_id: idSchema('The project.'),
    project: z.string().describe('Name of the project.'),
    state: z
      .enum(STATES)
      .describe(
        'State of the day. `differs`: a difference is not acknowledged. `removed`: the retention removed its ' +
          'mail before the check. `accounted_for_open`: some recipients have not ended.',
      ),
    checked_at: time('Time of the check, or null before it.').nullable(),
    emails: z.int(),
    recipients: z.int(),
    statuses: z
      .partialRecord(z.enum(STATUS_COLUMNS), z.int())
      .describe('Number of recipients by status. `open` counts recipients that have not ended.'),
    differences: z.array(
      z.object({
        kind: z.enum(DIFFERENCE_KINDS),
        message: z.string().describe('One sentence that says what differs.'),
        remedy: z.string().describe('One sentence that says what to do.'),
        emails: z.int().describe('Number of emails.'),
        examples: z.array(idSchema('An email.')).describe('Examples of these emails.'),
        counter: z.string().optional().describe('Counter that differs.'),
        counted: z.int().optional().describe('Value of the counter.'),
        stored: z.int().optional().describe('Number in the stored mail.'),
      }),
    ),
    acknowledged_at: time(
      'Time at which an operator acknowledged the differences, or null.',
    ).nullable(),
  })
  .meta({ id: 'ReconciledDay' });

const dayList = listOf('ReconciledDayList', reconciledDay);

const checkRequest = z
  .strictObject({
    day: date.optional(),
    project_id: projectId,
    walks_queue: z.boolean().default(false).describe('True to check every row of the queue, too.'),
  })
  .meta({ id: 'ReconciliationCheckRequest' });

const check = z
  .object({
    object: z.literal('reconciliation_check'),
    is_complete: z.boolean().describe('True when all due days were checked.'),
  })
  .meta({ id: 'ReconciliationCheck' });

const acknowledgement = z
  .strictObject({ day: date, project_id: projectId })
  .meta({ id: 'ReconciliationAcknowledgement' });

const acknowledged = z
  .object({
    object: z.literal('reconciliation_acknowledged'),
    day: day('The day.'),
    projects: z.array(idSchema('A project.')),
  })
  .meta({ id: 'ReconciliationAcknowledged' });
