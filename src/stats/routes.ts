/** Routes of counts (stats-report.ts). A key for one domain sees only the counts of that domain. */
import { isRefusal } from '../core/refusals.ts';
import { startOfDate } from './counts.ts';
import { reportStats } from './stats-report.ts';
import { callerOf } from '../http/access.ts';
import { refuse } from '../http/errors.ts';
import { failures } from '../http/schemas.ts';
import { statsQuery, statsReport } from './schemas.ts';
import type { App, HttpServices } from '../http/services.ts';

export function registerStatsRoutes(app: App, { db, world }: HttpServices): void {
  app.get('/v1/stats', {
    config: { withinDomain: true },
    schema: {
      summary: 'Count mail by outcome',
      description:
        'Returns counts of mail by hour or by day, in UTC unless `zone` names a time zone. Each change counts in ' +
        'the period in which it happened. All fields except `emails` count recipients. The cost does not depend on the number of ' +
        'emails. A key for one domain sees the counts of that domain.',
      operationId: 'getStats',
      tags: ['Stats'],
      querystring: statsQuery,
      response: { 200: statsReport, ...failures(422) },
    },
    handler: async (request, reply) => {
      const { from, to, granularity, zone, by } = request.query;
      const times = { from: parseTime(from, zone), to: parseTime(to, zone) };
      const statsRequest = { granularity, zone, by, ...times };
      const caller = callerOf(request);
      const report = await reportStats(
        db.readsOf(caller.projectId),
        caller,
        statsRequest,
        world.now(),
      );
      return isRefusal(report) ? refuse(reply, report) : report;
    },
  });
}

/** A date begins at midnight of the zone. */
function parseTime(text: string | undefined, zone: string | undefined): Date | undefined {
  if (text === undefined) return undefined;
  const isDate = !text.includes('T');
  const start = isDate && zone !== undefined ? startOfDate(text, zone) : null;
  return start ?? new Date(text);
}
