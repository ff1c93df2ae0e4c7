/**
 * The metrics of a worker. The supervisor adds up the metrics of the workers (worker-pool.ts) for
 * `GET /metrics` of the API and for a port of its own (metrics-listener.ts).
 */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { CONDITION_TYPES, type ConditionType } from '../core/operator-events.ts';
import type { ProviderFacts } from '../delivery/connection-pool.ts';
import { mostImportantFirst } from './provider-report.ts';
import type { QueueDepth } from '../store/queue-depth.ts';
import type { Alert } from '../store/reputation.ts';
import type { UnusableCounts } from '../store/unusable-secrets.ts';

const SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

export type ServiceMetrics = {
  registry: Registry;
  /** Emails that got a 202. */
  accepted: Counter<'environment'>;
  acceptSeconds: Histogram;
  /** Accepted, and lost by a fail-over to an asynchronous standby. */
  lost: Counter;
  /**
   * Attempts by the status that they led to, also when the outcome was fenced off. A recipient that ends without an
   * attempt (expired, suppressed) is not counted.
   */
  attempts: Counter<'status'>;
  attemptSeconds: Histogram;
  /** Outcomes that the database refused, by SQLSTATE; each is kept and tried again. */
  settleFailures: Counter<'sqlstate'>;
  /** Opens and clicks by what became of them. */
  visits: Counter<'result'>;
  /** From the commit of an email to the start of its first attempt. */
  firstAttemptSeconds: Histogram;
};

/** Values that are read when the metrics are requested. */
type MetricsState = {
  waiting: () => number;
  underWay: () => number;
  /** Outcomes that are kept because the database refuses them. */
  unsettled: () => { delivery: number; webhook: number };
  /** No mail server anywhere answers (delivery/uplink.ts). */
  isUplinkDown: () => boolean;
  providers: () => ProviderFacts[];
  /** @param providersMax providers that are listed by name */
  queueDepth: (providersMax: number) => Promise<QueueDepth>;
  /** Senders with too many bounces or complaints. */
  alerts: () => Promise<readonly Alert[]>;
  /** Open conditions of the installation. */
  conditions: () => Promise<readonly { type: ConditionType; open: number }[]>;
  unusableSecrets: () => Promise<UnusableCounts>;
};

export function createMetrics(state: MetricsState): ServiceMetrics {
  const registry = new Registry();
  const registers = [registry];
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers,
      collect() {
        this.set(read());
      },
    });
  };
  gauge('letterhaus_memory_waiting', 'Recipients that wait in memory.', state.waiting);
  gauge('letterhaus_under_way', 'Recipients that are being delivered now.', state.underWay);
  gauge('letterhaus_smtp_connections', 'Open connections to mail servers.', () =>
    state.providers().reduce((sum, { open }) => sum + open, 0),
  );
  addUplinkGauge(registry, state.isUplinkDown);
  addUnsettledGauge(registry, state.unsettled);
  addProviderGauges(registry, state.providers);
  addQueueGauges(registry, state.queueDepth);
  addInstallationGauges(registry, state);
  return {
    registry,
    accepted: new Counter({
      name: 'letterhaus_emails_accepted_total',
      help: 'Emails accepted and committed.',
      labelNames: ['environment'],
      registers,
    }),
    lost: new Counter({
      name: 'letterhaus_emails_lost_total',
      help: 'Accepted emails that the server the database failed over to does not have.',
      registers,
    }),
    acceptSeconds: new Histogram({
      name: 'letterhaus_accept_seconds',
      help: 'From a checked request to its commit.',
      buckets: SECONDS,
      registers,
    }),
    attempts: new Counter({
      name: 'letterhaus_attempts_total',
      help: 'Delivery attempts by what they made of the recipient.',
      labelNames: ['status'],
      registers,
    }),
    settleFailures: new Counter({
      name: 'letterhaus_settle_failures_total',
      help: 'Outcomes of deliveries that the database refused to store, by SQLSTATE.',
      labelNames: ['sqlstate'],
      registers,
    }),
    visits: visitCounter(registry),
    attemptSeconds: new Histogram({
      name: 'letterhaus_attempt_seconds',
      help: 'Duration of one delivery attempt, settled.',
      buckets: SECONDS,
      registers,
    }),
    firstAttemptSeconds: new Histogram({
      name: 'letterhaus_first_attempt_after_seconds',
      help: 'From the commit of an email to the start of its first attempt, when handed over.',
      buckets: SECONDS,
      registers,
    }),
  };
}

/** The same for every worker. */
function addInstallationGauges(registry: Registry, state: MetricsState): void {
  addReputationGauge(registry, state.alerts);
  addConditionGauge(registry, state.conditions);
  addSecretsGauge(registry, state.unusableSecrets);
}

function visitCounter(registry: Registry): Counter<'result'> {
  return new Counter({
    name: 'letterhaus_tracking_visits_total',
    help: 'Opens and clicks of tracked emails by what became of them.',
    labelNames: ['result'],
    registers: [registry],
  });
}

function addUnsettledGauge(
  registry: Registry,
  read: () => { delivery: number; webhook: number },
): void {
  new Gauge({
    name: 'letterhaus_unsettled_outcomes',
    help: 'Outcomes of deliveries and webhooks that the database refuses to store; kept in memory.',
    labelNames: ['of'],
    registers: [registry],
    collect() {
      for (const [of, count] of Object.entries(read())) this.set({ of }, count);
    },
  });
}

/** The same for every worker of a machine. */
function addUplinkGauge(registry: Registry, isDown: () => boolean): void {
  new Gauge({
    name: 'letterhaus_uplink_down',
    help: 'Whether no mail server anywhere answers this machine.',
    registers: [registry],
    aggregator: 'max',
    collect() {
      this.set(Number(isDown()));
    },
  });
}

/** Caps label cardinality (mostImportantFirst), and of providers with the most mail. */
const PROVIDERS_SHOWN = 30;
const QUEUED_PROVIDERS_SHOWN = 20;

/**
 * Open and idle are this worker's; window and suspension are the machine's, the same for every
 * worker.
 */
function addProviderGauges(registry: Registry, read: () => ProviderFacts[]): void {
  const gauge = (
    name: string,
    { help, aggregator }: { help: string; aggregator: 'sum' | 'max' },
    of: (provider: ProviderFacts) => number,
  ): void => {
    new Gauge({
      name,
      help,
      labelNames: ['provider'],
      registers: [registry],
      aggregator,
      collect() {
        this.reset();
        for (const [index, provider] of mostImportantFirst(read()).entries()) {
          this.inc(
            { provider: index < PROVIDERS_SHOWN ? provider.provider : 'other' },
            of(provider),
          );
        }
      },
    });
  };
  gauge(
    'letterhaus_provider_connections',
    { help: 'Open connections by provider.', aggregator: 'sum' },
    ({ open }) => open,
  );
  gauge(
    'letterhaus_provider_idle',
    { help: 'Of these, those without a message.', aggregator: 'sum' },
    ({ idle }) => idle,
  );
  gauge(
    'letterhaus_provider_window',
    { help: 'Connections that are allowed at present.', aggregator: 'max' },
    ({ window }) => window,
  );
  gauge(
    'letterhaus_provider_slowed',
    { help: 'Whether the provider gets less because it asked for that.', aggregator: 'max' },
    ({ state }) => (state === 'slowed' ? 1 : 0),
  );
  gauge(
    'letterhaus_provider_suspended',
    { help: 'Whether the provider is left alone.', aggregator: 'max' },
    ({ state }) => (state === 'suspended' ? 1 : 0),
  );
}

/** The same for every worker: the highest counts, not the sum. */
function addQueueGauges(
  registry: Registry,
  read: (providersMax: number) => Promise<QueueDepth>,
): void {
  let reading: Promise<QueueDepth | null> | null = null;
  // All gauges are collected at once: they share one query.
  const readOnce = (): Promise<QueueDepth | null> => {
    reading ??= read(QUEUED_PROVIDERS_SHOWN)
      .catch(() => null)
      .finally(() => (reading = null));
    return reading;
  };
  const gauge = (
    name: string,
    { help, labelNames = [] }: { help: string; labelNames?: string[] },
    show: (gauge: Gauge, queue: QueueDepth) => void,
  ): void => {
    new Gauge({
      name,
      help,
      labelNames,
      registers: [registry],
      aggregator: 'max',
      async collect() {
        const queue = await readOnce();
        if (queue === null) return;
        this.reset();
        show(this, queue);
      },
    });
  };
  const byProvider = (of: (provider: QueueDepth['providers'][number]) => number) => {
    return (shown: Gauge, { providers }: QueueDepth): void => {
      for (const provider of providers) shown.set({ provider: provider.provider }, of(provider));
    };
  };
  gauge('letterhaus_queue_depth', { help: 'Recipients that have not ended.' }, (shown, { depth }) =>
    shown.set(depth),
  );
  gauge(
    'letterhaus_queue_oldest_due_seconds',
    { help: 'How long the oldest due recipient has been waiting for its attempt.' },
    (shown, { oldestS }) => shown.set(oldestS),
  );
  gauge(
    'letterhaus_queue_provider_depth',
    {
      help: 'The depth by provider (by domain while its provider is not known): the deepest.',
      labelNames: ['provider'],
    },
    byProvider(({ depth }) => depth),
  );
  gauge(
    'letterhaus_queue_provider_oldest_due_seconds',
    {
      help: 'How long the oldest due recipient of these has been waiting.',
      labelNames: ['provider'],
    },
    byProvider(({ oldestS }) => oldestS),
  );
}

/** The same for every worker: the highest, not the sum. */
function addReputationGauge(registry: Registry, read: () => Promise<readonly Alert[]>): void {
  new Gauge({
    name: 'letterhaus_reputation_rate',
    help: 'The share of bounces or complaints in 24 hours where it is beyond the rule.',
    labelNames: ['project', 'environment', 'domain', 'kind'],
    registers: [registry],
    aggregator: 'max',
    async collect() {
      const alerts = await read().catch(() => null);
      if (alerts === null) return;
      this.reset();
      for (const { projectId: project, environment, domain, kind, count, ended } of alerts) {
        this.set({ project, environment, domain, kind }, ended === 0 ? 0 : count / ended);
      }
    },
  });
}

/** The same for every worker. Types without an open condition are 0, not absent. */
function addConditionGauge(registry: Registry, read: MetricsState['conditions']): void {
  new Gauge({
    name: 'letterhaus_operator_conditions',
    help: 'Open conditions that an operator has to act on, by type (letterhaus attention lists them).',
    labelNames: ['type'],
    registers: [registry],
    aggregator: 'max',
    async collect() {
      const open = await read().catch(() => null);
      if (open === null) return;
      for (const type of CONDITION_TYPES) this.set({ type }, 0);
      for (const { type, open: count } of open) this.set({ type }, count);
    },
  });
}

/** The same for every worker: the highest, not the sum. */
function addSecretsGauge(registry: Registry, read: () => Promise<UnusableCounts>): void {
  new Gauge({
    name: 'letterhaus_unusable_secrets',
    help: 'Stored secrets that the secret key does not open: DKIM keys by domain, webhooks, second factors of members.',
    labelNames: ['kind'],
    registers: [registry],
    aggregator: 'max',
    async collect() {
      const counts = await read().catch(() => null);
      if (counts === null) return;
      for (const [kind, count] of Object.entries(counts)) this.set({ kind }, count);
    },
  });
}
