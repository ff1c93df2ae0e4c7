/** Routes of snoozes: findings that members snoozed. For sessions only; the audit log records who did it. */
import { z } from 'zod';
import { noSuch, type Refusal, refuseFields } from '../core/refusals.ts';
import { DAY_MS } from '../lib/units.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { listResponse } from '../http/list-pages.ts';
import { doc, failures, listOf, time } from '../http/schemas.ts';
import type { App, HttpServices } from '../http/services.ts';
import { BY_SESSION, sessionOf } from '../accounts/sessions/http-sessions.ts';
import { endSnooze, listSnoozes, saveSnooze, type Snooze, SNOOZES_MAX } from './snooze-store.ts';

const TAGS = ['Findings'];
const SNOOZE_MAX_DAYS = 30;

const TOO_MANY: Refusal = {
  refused: 'conflict',
  message: `This project has ${SNOOZES_MAX} snoozed findings; end one of them first.`,
};

const params = z.object({
  id: doc(
    z
      .string()
      .min(1)
      .max(300)
      .refine((text) => !text.includes('\0'), 'contains a NUL; leave it out'),
    'Finding, as the dashboard names it: its kind and the id of its object.',
    'webhook.failing:0193a4c2-7c1e-7bd0-9c1f-3a9b1f2d4e5a',
  ),
});

const newSnooze = z
  .strictObject({
    until: doc(
      z.iso.datetime({ offset: true }),
      `Time until which the finding is snoozed, at most ${SNOOZE_MAX_DAYS} days ahead.`,
      '2026-11-28T09:00:00Z',
    ),
  })
  .meta({ id: 'SnoozeCreation' });

const snooze = z
  .object({
    object: z.literal('snooze'),
    id: z.string().meta({ description: 'The finding.', examples: ['bounce-rate'] }),
    until: time('End of the snooze.'),
    by: z
      .object({
        id: z.string(),
        name: z.string().nullable(),
        email: z.string(),
      })
      .nullable()
      .describe('Member who snoozed the finding, or null when the member was removed.'),
    created_at: time('Time of the snooze.'),
  })
  .meta({ id: 'Snooze', description: 'A finding that is snoozed for all members of the project.' });

const snoozeList = listOf('SnoozeList', snooze);
const snoozeEnded = z
  .object({
    object: z.literal('snooze'),
    id: doc(z.string(), 'The finding.', 'bounces'),
    deleted: z.literal(true),
  })
  .meta({ id: 'DeletedSnooze' });

export function registerSnoozeRoutes(app: App, { db, world }: HttpServices): void {
  app.get('/v1/snoozes', {
    config: { access: 'session' },
    schema: {
      summary: 'List snoozed findings',
      description:
        'Lists the findings of the overview that members snoozed, the next to return first.',
      operationId: 'listSnoozes',
      tags: TAGS,
      security: BY_SESSION,
      response: { 200: snoozeList, ...failures(404) },
    },
    handler: async (request, reply) => {
      if (request.caller === null) return refuse(reply, noSuch('project'));
      const rows = await listSnoozes(db, callerOf(request));
      return listResponse(rows.map(snoozeToWire), SNOOZES_MAX);
    },
  });

  app.put('/v1/snoozes/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'Snooze a finding',
      description:
        'Snoozes a finding of the overview until a time, for all members of the project. Alarms, conditions and ' +
        'webhooks report it nevertheless.',
      operationId: 'snoozeFinding',
      tags: TAGS,
      security: BY_SESSION,
      params,
      body: newSnooze,
      response: { 200: snooze, ...failures(400, 404, 409, 413, 415, 422) },
    },
    handler: async (request, reply) => {
      if (request.caller === null) return refuse(reply, noSuch('project'));
      const until = new Date(request.body.until);
      const aheadMs = until.getTime() - world.now();
      if (aheadMs <= 0 || aheadMs > SNOOZE_MAX_DAYS * DAY_MS) return refuse(reply, WRONG_TIME);
      const { memberId } = sessionOf(request);
      const wanted = { finding: request.params.id, until, memberId };
      const saved = await saveSnooze(db, callerOf(request), wanted);
      return saved === null ? refuse(reply, TOO_MANY) : snoozeToWire(saved);
    },
  });

  app.delete('/v1/snoozes/:id', {
    config: { access: 'session' },
    schema: {
      summary: 'End a snooze',
      description: 'Shows a finding of the overview again.',
      operationId: 'endSnooze',
      tags: TAGS,
      security: BY_SESSION,
      params,
      response: { 200: snoozeEnded, ...failures(404) },
    },
    handler: async (request, reply) => {
      const { id } = request.params;
      const isEnded = request.caller !== null && (await endSnooze(db, callerOf(request), id));
      if (!isEnded) return refuse(reply, noSuch('snooze'));
      return { object: 'snooze' as const, id, deleted: true as const };
    },
  });
}

const WRONG_TIME = refuseFields([
  { field: 'until', message: `must be in the future, and at most ${SNOOZE_MAX_DAYS} days ahead` },
]);

function snoozeToWire({ finding, until, by, createdAt }: Snooze) {
  return {
    object: 'snooze' as const,
    id: finding,
    until: until.toISOString(),
    by,
    created_at: createdAt.toISOString(),
  };
}
