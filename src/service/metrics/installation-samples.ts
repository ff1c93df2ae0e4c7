/**
 * The figures of installation-metrics.ts in the form of Prometheus: names, help and labels. The form is that of a
 * worker's registry, because the supervisor has no registry.
 */
import packageFile from '../../../package.json' with { type: 'json' };
import type { CertificateUse } from '../machine/certificate-watch.ts';
import { CONDITION_TYPES, type ConditionType } from '../../core/operator-events.ts';
import type { ReportCounts } from '../../doctor/report-store.ts';
import { DOMAIN_STATUSES } from '../../domains/domain-store.ts';
import type { DatabaseFigures, DomainFigures, WebhookFigures } from './installation-store.ts';
import type { ProviderDepth } from '../../delivery/queue-control/depth-store.ts';
import type { ReconciliationSummary } from '../../reconciliation/day-store.ts';
import type { Alert } from '../../reputation/reputation-store.ts';
import type { UnusableCounts } from '../../secrets/unusable-store.ts';
import type { Metrics } from '../worker/worker-messages.ts';

export type Sample = Metrics[number];
type Labels = Readonly<Record<string, string>>;
type Value = { labels: Labels; value: number };

/** The cast is needed because the library's types describe its objects and not their JSON. */
export function sample(
  type: 'counter' | 'gauge',
  { name, help }: { name: string; help: string },
  given: number | readonly Value[],
): Sample {
  const values = typeof given === 'number' ? [{ labels: {}, value: given }] : given;
  return { name, help, type, aggregator: 'sum', values } as unknown as Sample;
}

type Given = number | readonly Value[] | null;
type Samples = (Sample | null)[];

const gauge = (name: string, help: string, given: Given): Sample | null =>
  given === null ? null : sample('gauge', { name: `letterhaus_${name}`, help }, given);

const unlessEmpty = (values: readonly Value[]): Given => (values.length === 0 ? null : values);

export type Figures = {
  queue: readonly ProviderDepth[];
  database: DatabaseFigures;
  domains: DomainFigures;
  webhooks: WebhookFigures;
  alerts: readonly Alert[];
  conditions: readonly { type: ConditionType; open: number }[];
  secrets: UnusableCounts;
  reconciliation: ReconciliationSummary;
  doctor: ReportCounts;
};

export function figureSamples(
  figures: Figures,
  limits: { databaseBytesMax: number | null },
): Samples {
  return [
    ...queueSamples(figures.queue),
    ...databaseSamples(figures.database, limits),
    ...domainSamples(figures.domains),
    ...webhookSamples(figures.webhooks),
    reputationSample(figures.alerts),
    conditionSample(figures.conditions),
    secretSample(figures.secrets),
    ...reconciliationSamples(figures.reconciliation),
    ...doctorSamples(figures.doctor),
  ];
}

/** Workers have this metric, too (activity-metrics.ts). */
export const CPU_SECONDS = {
  name: 'letterhaus_process_cpu_seconds_total',
  help: 'CPU time of the supervisor and of the workers that run now, in user and system mode.',
} as const;

export const RESIDENT_BYTES = {
  name: 'letterhaus_process_resident_memory_bytes',
  help: 'Resident memory of the supervisor and of all workers.',
} as const;

export function cpuSeconds(): number {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
}

export function processSamples({
  startedMs,
  figures,
}: {
  startedMs: number;
  figures: Figures | null;
}): Samples {
  const { version } = packageFile;
  const postgres = figures?.database.serverVersion ?? '';
  const build = { version, node: process.versions.node, postgres };
  const labels = { process: 'supervisor' };
  return [
    gauge('build_info', 'The version of Letterhaus, Node and PostgreSQL; always 1.', [
      { labels: build, value: 1 },
    ]),
    gauge('start_timestamp_seconds', 'The start time of the service.', startedMs / 1_000),
    sample('counter', CPU_SECONDS, [{ labels, value: cpuSeconds() }]),
    sample('gauge', RESIDENT_BYTES, [{ labels, value: process.memoryUsage.rss() }]),
  ];
}

/** `ageS` is null before the first reading. */
export function readingSamples({ isUp, ageS }: { isUp: boolean; ageS: number | null }): Samples {
  return [
    gauge(
      'database_up',
      'Whether the database answered the last queries for these figures.',
      isUp ? 1 : 0,
    ),
    gauge('figures_age_seconds', 'The age of the figures from the database.', ageS),
  ];
}

function queueSamples(queue: readonly ProviderDepth[]): Samples {
  const sum = (of: (one: ProviderDepth) => number) =>
    queue.reduce((total, one) => total + of(one), 0);
  const by = (of: (one: ProviderDepth) => number): Value[] =>
    queue.map((one) => ({ labels: { provider: one.provider }, value: of(one) }));
  const states = {
    due: sum(({ due }) => due),
    with_workers: sum(({ withWorkers }) => withWorkers),
    held: sum(({ held }) => held),
  };
  const depth = sum((one) => one.depth);
  const later = Math.max(0, depth - states.due - states.with_workers - states.held);
  const oldest = 'Waiting time of the oldest recipient that could be sent';
  return [
    gauge('queue_depth', 'Recipients that have not ended.', depth),
    gauge(
      'queue_recipients',
      'Recipients that have not ended, by state: due, in the memory of workers, on hold, or waiting for its time.',
      Object.entries({ ...states, later }).map(([state, value]) => ({ labels: { state }, value })),
    ),
    gauge(
      'queue_oldest_due_seconds',
      `${oldest}, also at a suspended provider.`,
      Math.max(0, ...queue.map(({ oldestS }) => oldestS)),
    ),
    gauge(
      'queue_provider_depth',
      'Recipients that have not ended, by provider.',
      by((one) => one.depth),
    ),
    gauge(
      'queue_provider_oldest_due_seconds',
      `${oldest}, by provider.`,
      by(({ oldestS }) => oldestS),
    ),
  ];
}

function databaseSamples(
  database: DatabaseFigures,
  { databaseBytesMax }: { databaseBytesMax: number | null },
): Samples {
  const { sizeBytes, connections, connectionsMax, frozenXidAge, replicationLagS } = database;
  return [
    gauge('database_size_bytes', 'The size of the database.', sizeBytes),
    gauge(
      'database_size_limit_bytes',
      'LETTERHAUS_DATABASE_MAX_MB: at this size no mail is accepted.',
      databaseBytesMax,
    ),
    gauge('database_connections', 'Connections to the server, of all programs.', connections),
    gauge('database_connections_limit', 'max_connections of the server.', connectionsMax),
    gauge(
      'database_frozen_transaction_age',
      'Transactions since the oldest frozen row version; the server stops at two billion.',
      frozenXidAge,
    ),
    gauge(
      'database_oldest_transaction_seconds',
      'The age of the oldest transaction in the database that the role may see.',
      database.oldestTransactionS,
    ),
    gauge(
      'database_replication_lag_seconds',
      'The replication lag of the slowest standby.',
      replicationLagS,
    ),
  ];
}

function domainSamples({ byStatus, named }: DomainFigures): Samples {
  const counts = new Map<string, number>(DOMAIN_STATUSES.map((status) => [status, 0]));
  for (const { status, count } of byStatus) counts.set(status, count);
  return [
    gauge(
      'domains',
      'Live sending domains by status.',
      [...counts].map(([status, value]) => ({ labels: { status }, value })),
    ),
    gauge(
      'domain_verified',
      'Whether a live sending domain is verified; absent with more than 200 domains.',
      unlessEmpty(
        named.map(({ name, isVerified }) => ({
          labels: { domain: name },
          value: Number(isVerified),
        })),
      ),
    ),
  ];
}

function webhookSamples(webhooks: WebhookFigures): Samples {
  const { enabled, failing, disabled, waiting, oldestDueS } = webhooks;
  const states = { enabled, failing, disabled };
  return [
    gauge(
      'webhook_endpoints',
      'Endpoints by state; failing: enabled endpoints whose last attempts failed.',
      Object.entries(states).map(([state, value]) => ({ labels: { state }, value })),
    ),
    gauge('webhook_queue_depth', 'Webhook deliveries that have not ended.', waiting),
    gauge(
      'webhook_queue_oldest_due_seconds',
      'Waiting time of the oldest due webhook delivery.',
      oldestDueS,
    ),
  ];
}

function reputationSample(alerts: readonly Alert[]): Sample | null {
  return gauge(
    'reputation_rate',
    'The share of bounces or complaints in 24 hours, where it exceeds the rule.',
    unlessEmpty(
      alerts.map(({ projectId: project, environment, domain, kind, count, ended }) => ({
        labels: { project, environment, domain, kind },
        value: ended === 0 ? 0 : count / ended,
      })),
    ),
  );
}

/** Types without an open condition are 0, not absent. */
function conditionSample(open: Figures['conditions']): Sample | null {
  const counts = new Map(CONDITION_TYPES.map((type) => [type, 0]));
  for (const { type, open: count } of open) counts.set(type, count);
  return gauge(
    'operator_conditions',
    'Open conditions that an operator has to act on, by type (letterhaus attention lists them).',
    [...counts].map(([type, value]) => ({ labels: { type }, value })),
  );
}

function secretSample(counts: UnusableCounts): Sample | null {
  return gauge(
    'unusable_secrets',
    'Stored secrets that the secret key does not open: DKIM keys by domain, webhooks, second factors of members.',
    Object.entries(counts).map(([kind, value]) => ({ labels: { kind }, value })),
  );
}

function reconciliationSamples({ differing, finishedAt }: ReconciliationSummary): Samples {
  return [
    gauge(
      'reconciliation_differences',
      'Days of a project whose mail is not accounted for, and not acknowledged (letterhaus reconcile lists them).',
      differing,
    ),
    gauge(
      'reconciliation_finished_timestamp_seconds',
      'The time of the last complete check of all due days.',
      finishedAt && finishedAt.getTime() / 1_000,
    ),
  ];
}

/** Absent before the first report: without one, nobody knows that nothing is red. */
function doctorSamples({ oldestAt, ...counts }: ReportCounts): Samples {
  if (oldestAt === null) return [];
  return [
    gauge(
      'doctor_checks',
      'Checks of the newest report of the doctor by their worst finding, added up over the nodes.',
      Object.entries(counts).map(([level, value]) => ({ labels: { level }, value })),
    ),
    gauge(
      'doctor_finished_timestamp_seconds',
      'The end of the last run of the doctor, on the node where it is the longest ago.',
      oldestAt.getTime() / 1_000,
    ),
  ];
}

/** Present before the first report, so that an alarm notices a doctor that never ends. */
export function doctorDailySample(isDaily: boolean): Sample | null {
  return gauge('doctor_daily', 'Whether this node runs the doctor once a day.', isDaily ? 1 : 0);
}

export type Disk = { of: 'data' | 'database'; freeBytes: number; sizeBytes: number | null };

export function diskSamples(disks: readonly Disk[]): Samples {
  const sizes = disks.flatMap(({ of, sizeBytes }) =>
    sizeBytes === null ? [] : [{ labels: { of }, value: sizeBytes }],
  );
  return [
    gauge(
      'disk_free_bytes',
      'Free bytes for this service on the disk of the data directory and of a database on this machine.',
      unlessEmpty(disks.map(({ of, freeBytes }) => ({ labels: { of }, value: freeBytes }))),
    ),
    gauge('disk_size_bytes', 'The size of the disk of the data directory.', unlessEmpty(sizes)),
  ];
}

export type Expiry = { of: CertificateUse['of']; atMs: number; lifeMs: number };

export function expirySamples(expiries: readonly Expiry[]): Samples {
  return [
    gauge(
      'certificate_expiry_timestamp_seconds',
      'The end of the certificate of the API, of tracked links or of the mail ports.',
      unlessEmpty(expiries.map(({ of, atMs }) => ({ labels: { of }, value: atMs / 1_000 }))),
    ),
    gauge(
      'certificate_lifetime_seconds',
      'From the beginning of the certificate to its end.',
      unlessEmpty(expiries.map(({ of, lifeMs }) => ({ labels: { of }, value: lifeMs / 1_000 }))),
    ),
  ];
}
