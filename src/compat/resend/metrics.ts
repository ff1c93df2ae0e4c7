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
import { anyCase, HIDDEN } from './wire/shapes.ts';

/** Each metric with its event type; null never occurs. `unique` counts recipients instead of events. */
const METRICS: Readonly<Record<string, { type: string | null; unique: boolean }>> = {
  sent: { type: 'recipients', unique: true },
  delivered: { type: 'email.delivered', unique: true },
  delivery_delayed: { type: 'email.delivery_delayed', unique: true },
  bounced: { type: 'email.bounced', unique: true },
  bounced_permanent: { type: 'email.bounced', unique: true },
  bounced_transient: { type: null, unique: true },
  bounced_undetermined: { type: null, unique: true },
  complained: { type: 'email.complained', unique: true },
  suppressed: { type: 'email.suppressed', unique: true },
  failed: { type: 'email.failed', unique: true },
  opened: { type: 'email.opened', unique: false },
  unique_opened: { type: 'email.opened', unique: true },
  clicked: { type: 'email.clicked', unique: false },
  unique_clicked: { type: 'email.clicked', unique: true },
};

const DAY_MS = 86_400_000;
const DAYS_BY_DEFAULT = 6;

export function registerResendMetrics(app: App, { db, world }: HttpServices): void {
  app.get('/emails/metrics', {
    schema: { ...HIDDEN, querystring: metricsQuery },
    handler: async (request, reply) => {
      const wanted = readQuery(request.query, world.now());
      if (isRefusal(wanted)) return refuse(reply, wanted);
      const caller = callerOf(request);
      const counts = await countMetrics(db.readsOf(caller.projectId), caller, wanted);
      if (counts === null) return refuse(reply, TOO_MANY);
      return present(wanted, counts);
    },
  });
}

const TOO_MANY: Refusal = refuseFields([
  {
    field: 'start_date',
    message: `the period has more than ${METRIC_EMAILS_MAX} emails; choose a shorter one, or a domain`,
  },
]);

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

type Wanted = MetricsQuery & { metrics: readonly string[]; granularity: Granularity };

function readQuery(query: z.output<typeof metricsQuery>, nowMs: number): Wanted | Refusal {
  const until = query.end_date === undefined ? new Date(nowMs) : new Date(query.end_date);
  const since =
    query.start_date === undefined
      ? new Date(until.getTime() - DAYS_BY_DEFAULT * DAY_MS)
      : new Date(query.start_date);
  const metrics = namesIn(query.metrics) ?? Object.keys(METRICS);
  const dimensions = namesIn(query.dimensions) ?? [];
  const wrongMetric = metrics.find((name) => !Object.hasOwn(METRICS, name));
  const wrongDimension = dimensions.find((name) => !isDimension(name));
  const lists = { domain_id: query.domain_id?.split(','), email_id: query.email_id?.split(',') };
  const problems = [
    ...(isTime(since) ? [] : [{ field: 'start_date', message: NO_TIME }]),
    ...(isTime(until) ? [] : [{ field: 'end_date', message: NO_TIME }]),
    ...(wrongMetric === undefined ? [] : [notOffered('metrics', wrongMetric)]),
    ...(wrongDimension === undefined ? [] : [notOffered('dimensions', wrongDimension)]),
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

/** Removes duplicates, because every metric is counted for every group. */
function namesIn(list: string | undefined): string[] | undefined {
  return list === undefined ? undefined : [...new Set(list.split(','))];
}

const NO_TIME = 'must be a date or a time in ISO 8601';
const YEAR_9999_MS = Date.UTC(9999, 0);

function isTime(time: Date): boolean {
  return time.getTime() >= 0 && time.getTime() <= YEAR_9999_MS;
}

function isDimension(name: string): name is Dimension {
  return DIMENSIONS.some((one) => one === name);
}

function notOffered(field: string, name: string) {
  return { field, message: `${JSON.stringify(name.slice(0, 64))} is not counted by this service` };
}

function present(wanted: Wanted, counts: readonly MetricCount[]) {
  const { since, until, metrics, dimensions, granularity } = wanted;
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
    totals: totalsOf(metrics, counts),
    ...(dimensions.length > 0 && {
      data: [...groups.values()].map((group) => ({
        ...placeOf(group[0]!),
        ...totalsOf(metrics, group),
      })),
    }),
  };
}

function placeOf({ period, domainId, domainName, emailId }: MetricCount) {
  return {
    ...(period && { period: period.toISOString() }),
    ...(domainId && { domain_id: domainId, domain_name: domainName }),
    ...(emailId && { email_id: emailId }),
  };
}

function totalsOf(metrics: readonly string[], counts: readonly MetricCount[]) {
  return Object.fromEntries(
    metrics.map((name) => {
      const { type, unique } = METRICS[name]!;
      const own = counts.filter((count) => count.type === type);
      return [
        name,
        own.reduce((sum, { events, recipients }) => sum + (unique ? recipients : events), 0),
      ];
    }),
  );
}
