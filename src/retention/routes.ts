/** Routes of the removal of old mail: its state, and the operator's confirmation. */
import { z } from 'zod';
import { showPeriod } from '../core/retention.ts';
import { confirmRemoval, readRetentionState } from './clock-store.ts';
import { requireOperator } from '../http/operators.ts';
import { failures, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];

export function registerRetentionRoutes(app: App, { db, config }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: requireOperator(db) };
  app.get('/v1/operator/retention', {
    ...route,
    schema: {
      summary: 'Show why old mail is not removed yet',
      description:
        'Returns the state of the removal of old mail. After a jump of the database clock, the removal ' +
        'pauses for a day. It removes at most a tenth of all weeks in a day. For owners.',
      operationId: 'getRetention',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: retention, ...failures(404) },
    },
    handler: async () => {
      const { contentH, metadataH } = config.retention;
      const { ranAt, pause, waiting } = await readRetentionState(db);
      return {
        object: 'retention' as const,
        content: showPeriod(contentH),
        metadata: showPeriod(metadataH),
        ran_at: ranAt?.toISOString() ?? null,
        held_until: pause?.until.toISOString() ?? null,
        clock_moved_s: pause === null ? null : Math.round(pause.movedS),
        waiting,
      };
    },
  });

  app.post('/v1/operator/retention/confirm', {
    ...route,
    schema: {
      summary: 'Remove all old mail that is due',
      description:
        'Removes all due mail within ten minutes, without the daily limits. This cannot be undone. For ' +
        'owners.',
      operationId: 'confirmRetention',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: confirmed, ...failures(404) },
    },
    handler: async () => {
      await confirmRemoval(db);
      return { object: 'retention_confirmed' as const };
    },
  });
}

const period = (description: string) => z.string().meta({ description, examples: ['45d'] });

const retention = z
  .object({
    object: z.literal('retention'),
    content: period('Retention of html, text and attachments, or `ever` without a limit.'),
    metadata: period('Retention of emails and their timeline, or `ever` without a limit.'),
    ran_at: time('Time of the last check for due mail, or null before the first.').nullable(),
    held_until: time('End of the pause of the removal, or null when it is not paused.').nullable(),
    clock_moved_s: z
      .int()
      .nullable()
      .describe(
        'Seconds by which the database clock moved, negative when it moved back, or null without a pause.',
      ),
    waiting: z
      .array(z.string())
      .describe('First days of the due weeks that the service removes on a later day.'),
  })
  .meta({ id: 'RetentionState' });

const confirmed = z
  .object({ object: z.literal('retention_confirmed') })
  .meta({ id: 'RetentionConfirmed' });
