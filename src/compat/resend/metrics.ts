/**
 * `/emails/metrics` of the root mount: counts the emails that were accepted in a period, by the events of their
 * recipients. It returns no rates, which follow from the counts. Periods are in UTC.
 */
import { z } from 'zod';
import { isRefusal, type Refusal, refuseFields } from '../../core/refusals.ts';
import {
  countMetrics,
  type Dimension,
  DIMENSIONS,
  type Granularity,
  GRANULARITIES,
  METRIC_EMAILS_MAX,
  type MetricCount,
  type MetricsQuery,
} from './wire/email-metrics-store.ts';
import { isId } from '../../database/ids.ts';
import { callerOf } from '../../http/access.ts';
import { refuse } from '../../http/errors.ts';
import type { App, HttpServices } from '../../http/services.ts';
import { anyCase, HIDDEN } from './wire/shared-schemas.ts';
import { DAY_MS } from '../../lib/units.ts';

/** Each metric with its event type; null never occurs. `isUnique` counts recipients instead of events. */
const METRICS: Readonly<Record<string, { type: string | null; isUnique: boolean }>> = {
  sent: { type: 'recipients', isUnique: true },
  delivered: { type: 'email.delivered', isUnique: true },
  delivery_delayed: { type: 'email.delivery_delayed', isUnique: true },
  bounced: { type: 'email.bounced', isUnique: true },
  bounced_permanent: { type: 'email.bounced', isUnique: true },
  bounced_transient: { type: null, isUnique: true },
  bounced_undetermined: { type: null, isUnique: true },
  complained: { type: 'email.complained', isUnique: true },
  suppressed: { type: 'email.suppressed', isUnique: true },
  failed: { type: 'email.failed', isUnique: true },
  opened: { type: 'email.opened', isUnique: false },
  unique_opened: { type: 'email.opened', isUnique: true },
  clicked: { type: 'email.clicked', isUnique: false },
  unique_clicked: { type: 'email.clicked', isUnique: true },
};

const DEFAULT_DAYS = 6;
const NOT_A_TIME = 'must be a date or a time in ISO 8601';
const YEAR_9999_MS = Date.UTC(9999, 0);

const TOO_MANY_EMAILS: Refusal = refuseFields([
  {
    field: 'start_date',
    message: `the period has more than ${METRIC_EMAILS_MAX} emails; choose a shorter one, or a domain`,
  },
]);

export function registerResendMetrics(app: App, { db, world }: HttpServices): void {
  app.get('/emails/metrics', {
    schema: { ...HIDDEN, querystring: metricsQuery },
    handler: async (request, reply) => {
      const metricsRequest = readQuery(request.query, world.now());
      if (isRefusal(metricsRequest)) return refuse(reply, metricsRequest);
      const caller = callerOf(request);
      const counts = await countMetrics(db.readsOf(caller.projectId), caller, metricsRequest);
      if (counts === null) return refuse(reply, TOO_MANY_EMAILS);
      return metricsToResend(metricsRequest, counts);
    },
  });
}

const metricsQuery = z.object({
  start_date: z.string().optional(),
  end_date: z.string().optional(),
  timezone: z.literal('UTC').optional(),
  granularity: anyCase(GRANULARITIES).default('daily'),
  metrics: z.string().optional(),
  dimensions: z.string().optional(),
  domain_id: z.string().optional(),
  email_id: z.string().optional(),
});

type MetricsRequest = MetricsQuery & { metrics: readonly string[]; granularity: Granularity };

function readQuery(query: z.output<typeof metricsQuery>, nowMs: number): MetricsRequest | Refusal {
  const until = query.end_date === undefined ? new Date(nowMs) : new Date(query.end_date);
  const since =
    query.start_date === undefined
      ? new Date(until.getTime() - DEFAULT_DAYS * DAY_MS)
      : new Date(query.start_date);
  const metrics = splitNames(query.metrics) ?? Object.keys(METRICS);
  const dimensions = splitNames(query.dimensions) ?? [];
  const wrongMetric = metrics.find((name) => !Object.hasOwn(METRICS, name));
  const wrongDimension = dimensions.find((name) => !isDimension(name));
  const lists = { domain_id: query.domain_id?.split(','), email_id: query.email_id?.split(',') };
  const problems = [
    ...(isTime(since) ? [] : [{ field: 'start_date', message: NOT_A_TIME }]),
    ...(isTime(until) ? [] : [{ field: 'end_date', message: NOT_A_TIME }]),
    ...(wrongMetric === undefined ? [] : [unknownName('metrics', wrongMetric)]),
    ...(wrongDimension === undefined ? [] : [unknownName('dimensions', wrongDimension)]),
    ...Object.entries(lists).flatMap(([field, ids]) =>
      ids?.every(isId) === false
        ? [{ field, message: 'must be ids with commas between them' }]
        : [],
    ),
  ];
  if (problems.length > 0) return refuseFields(problems);
  return {
    since,
    until,
    granularity: query.granularity,
    metrics,
    dimensions: dimensions.filter(isDimension),
    domainIds: lists.domain_id ?? null,
    emailIds: lists.email_id ?? null,
  };
}

/** Returns the names without duplicates, because every metric is counted for every group. */
function splitNames(list: string | undefined): string[] | undefined {
  return list === undefined ? undefined : [...new Set(list.split(','))];
}

function isTime(time: Date): boolean {
  return time.getTime() >= 0 && time.getTime() <= YEAR_9999_MS;
}

function isDimension(name: string): name is Dimension {
  return DIMENSIONS.some((dimension) => dimension === name);
}

function unknownName(field: string, name: string) {
  return { field, message: `${JSON.stringify(name.slice(0, 64))} is not counted by this service` };
}

function metricsToResend(request: MetricsRequest, counts: readonly MetricCount[]) {
  const { since, until, metrics, dimensions, granularity } = request;
  const groups = Map.groupBy(counts, ({ period, domainId, emailId }) =>
    [period?.getTime(), domainId, emailId].join(' '),
  );
  return {
    object: 'metrics' as const,
    start_date: since.toISOString(),
    end_date: until.toISOString(),
    metrics,
    dimensions,
    granularity,
    totals: countTotals(metrics, counts),
    ...(dimensions.length > 0 && {
      data: [...groups.values()].map((group) => ({
        ...dimensionFields(group[0]!),
        ...countTotals(metrics, group),
      })),
    }),
  };
}

function dimensionFields({ period, domainId, domainName, emailId }: MetricCount) {
  return {
    ...(period && { period: period.toISOString() }),
    ...(domainId && { domain_id: domainId, domain_name: domainName }),
    ...(emailId && { email_id: emailId }),
  };
}

function countTotals(metrics: readonly string[], counts: readonly MetricCount[]) {
  return Object.fromEntries(
    metrics.map((name) => {
      const { type, isUnique } = METRICS[name]!;
      const ofType = counts.filter((count) => count.type === type);
      return [
        name,
        ofType.reduce((sum, { events, recipients }) => sum + (isUnique ? recipients : events), 0),
      ];
    }),
  );
}
