/** Routes of a restored installation on hold: show the mail that it would send, and release it. */
import { z } from 'zod';
import type { Refusal } from '../core/refusals.ts';
import {
  countMailOnHold,
  countWebhooksOnHold,
  endHold,
  listMailInDoubt,
  readHold,
} from './store/hold.ts';
import { refuse } from '../http/errors.ts';
import { requireOperator } from '../http/operators.ts';
import { environment, failures, idSchema, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];
const IN_DOUBT_MAX = 10_000;

const NOT_ON_HOLD: Refusal = {
  refused: 'conflict',
  message: 'The installation is not on hold.',
};

export function registerHoldRoutes(app: App, services: HttpServices): void {
  registerHold(app, services);
  registerRelease(app, services);
}

function registerHold(app: App, { db }: HttpServices): void {
  app.get('/v1/operator/hold', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Show what a restored installation would send',
      description:
        'Returns the mail that a restored installation would send. It accepts mail and sends none until it ' +
        'is released. Returns 409 when the installation is not on hold. For owners.',
      operationId: 'getHold',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: hold, ...failures(404, 409) },
    },
    handler: async (_request, reply) => {
      const found = await readHold(db);
      if (found === null) return refuse(reply, NOT_ON_HOLD);
      const [mail, webhooks, inDoubt] = await Promise.all([
        countMailOnHold(db),
        countWebhooksOnHold(db),
        listMailInDoubt(db, IN_DOUBT_MAX),
      ]);
      return {
        object: 'hold' as const,
        since: found.since.toISOString(),
        backup_taken_at: found.backupTakenAt?.toISOString() ?? null,
        mail: mail.map((one) => ({
          project_id: one.projectId,
          project: one.project,
          environment: one.environment,
          in_doubt: one.inDoubt,
          unsent: one.unsent,
          held: one.onHold,
        })),
        webhooks,
        in_doubt: inDoubt.map(({ emailId, to, dueAt, attempts }) => ({
          email_id: emailId,
          to,
          due_at: dueAt.toISOString(),
          attempts,
        })),
      };
    },
  });
}

function registerRelease(app: App, { db }: HttpServices): void {
  app.post('/v1/operator/release', {
    config: { access: 'session' },
    preHandler: requireOperator(db),
    schema: {
      summary: 'Release a restored installation',
      description:
        'Releases a restored installation. Nodes begin to send within seconds. Returns 409 when the ' +
        'installation is not on hold. For owners.',
      operationId: 'endHold',
      tags: TAGS,
      security: BY_SESSION,
      body: releaseRequest,
      response: { 200: release, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      const { except_in_doubt: exceptInDoubt = false } = request.body;
      const mail = await countMailOnHold(db);
      const isEnded = await db.transaction((tx) => endHold(tx, { exceptInDoubt }));
      if (!isEnded) return refuse(reply, NOT_ON_HOLD);
      const inDoubt = mail.reduce((sum, one) => sum + one.inDoubt, 0);
      const unsent = mail.reduce((sum, one) => sum + one.unsent, 0);
      return {
        object: 'release' as const,
        released: unsent + (exceptInDoubt ? 0 : inDoubt),
        held_back: exceptInDoubt ? inDoubt : 0,
      };
    },
  });
}

const IN_DOUBT = 'Recipients that the lost machine may have sent to after the backup.';

const hold = z
  .object({
    object: z.literal('hold'),
    since: time('Time of the restore.'),
    backup_taken_at: time('Time of the backup.').nullable(),
    mail: z.array(
      z.object({
        project_id: idSchema('The project.'),
        project: z.string().describe('Name of the project.'),
        environment,
        in_doubt: z.int().describe(IN_DOUBT),
        unsent: z.int().describe('Number of recipients that the lost machine cannot have sent to.'),
        held: z
          .int()
          .describe('Number of recipients on hold in the queue. A release does not send to them.'),
      }),
    ),
    webhooks: z.int().describe('Number of pending webhook deliveries.'),
    in_doubt: z
      .array(
        z.object({
          email_id: idSchema('The email.'),
          to: z.string().describe('Address of the recipient.'),
          due_at: time('Due time of the delivery.'),
          attempts: z.int().describe('Number of attempts before the backup.'),
        }),
      )
      .describe(`${IN_DOUBT} At most the oldest 10,000.`),
  })
  .meta({ id: 'InstallationHold' });

const releaseRequest = z
  .strictObject({
    except_in_doubt: z
      .boolean()
      .optional()
      .describe(
        'True to keep recipients in doubt on hold in the queue, where you release or drop them.',
      ),
  })
  .meta({ id: 'InstallationReleaseRequest' });

const release = z
  .object({
    object: z.literal('release'),
    released: z.int().describe('Number of recipients that are sent now.'),
    held_back: z.int().describe('Number of recipients in doubt that stay on hold in the queue.'),
  })
  .meta({ id: 'InstallationRelease' });
