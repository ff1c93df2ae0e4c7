/** The removal of old mail: what it waits for, and the confirmation of the operator. */
import { z } from 'zod';
import { showPeriod } from '../core/retention.ts';
import { confirmRemoval, readRetentionState } from './clock-store.ts';
import { onlyOperators } from '../http/operators.ts';
import { failures, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION } from '../accounts/sessions/http-sessions.ts';

const TAGS = ['Operator'];

export function registerRetentionRoutes(app: App, { db, config }: HttpServices): void {
  const route = { config: { access: 'session' as const }, preHandler: onlyOperators(db) };
  app.get('/v1/operator/retention', {
    ...route,
    schema: {
      summary: 'Show what the removal of old mail waits for',
      description:
        'Nothing is removed for a day after the clock of the database has jumped, and at most a tenth of all weeks in a ' +
        'day. For owners.',
      operationId: 'getRetention',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: retention, ...failures(404) },
    },
    handler: async () => {
      const { contentH, metadataH } = config.retention;
      const { ranAt, hold, waiting } = await readRetentionState(db);
      return {
        object: 'retention' as const,
        content: showPeriod(contentH),
        metadata: showPeriod(metadataH),
        ran_at: ranAt?.toISOString() ?? null,
        held_until: hold?.until.toISOString() ?? null,
        clock_moved_s: hold === null ? null : Math.round(hold.movedS),
        waiting,
      };
    },
  });

  app.post('/v1/operator/retention/confirm', {
    ...route,
    schema: {
      summary: 'Remove all old mail that is due',
      description:
        'Within ten minutes, and without the limits on a day. It cannot be undone. For owners.',
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
    content: period('How long html, text and attachments are kept; `ever`: always.'),
    metadata: period('How long emails with their timeline are kept; `ever`: always.'),
    ran_at: time('When the last check was.').nullable(),
    held_until: time('Nothing is removed before this time; null: nothing is held up.').nullable(),
    clock_moved_s: z
      .int()
      .nullable()
      .describe('By how many seconds the clock of the database moved; below 0: back.'),
    waiting: z
      .array(z.string())
      .describe('The first days of the weeks that are due and wait for another day.'),
  })
  .meta({ id: 'RetentionState' });

const confirmed = z
  .object({ object: z.literal('retention_confirmed') })
  .meta({ id: 'RetentionConfirmed' });
