/**
 * The metrics of a worker. The supervisor adds up the metrics of the workers (service/pool/worker-pool.ts), for `GET
 * /metrics` of the API and for a port of its own (listener.ts).
 */
import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import type { ProviderBlock } from '../../delivery/blocks/block-store.ts';
import type { ProviderFacts } from '../../delivery/shaping/provider-view.ts';
import { UNREADY_CODES } from '../../core/unready.ts';
import { OTHER, type ProviderLabels } from './provider-label.ts';

const SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

/** Counters and histograms of a worker. */
export type WorkerCounters = ReturnType<typeof createWorkerCounters>;

export function createWorkerCounters(registry: Registry) {
  const registers = [registry];
  const buckets = SECONDS;
  return {
    accepted: new Counter({
      name: 'letterhaus_emails_accepted_total',
      help: 'Emails accepted and committed.',
      labelNames: ['environment'],
      registers,
    }),
    acceptSeconds: new Histogram({
      name: 'letterhaus_accept_seconds',
      help: 'Seconds from a checked request to its commit.',
      buckets,
      registers,
    }),
    lost: new Counter({
      name: 'letterhaus_emails_lost_total',
      help: 'Accepted emails that a fail-over of the database lost.',
      registers,
    }),
    /**
     * Attempts by their status, including those whose outcome was fenced off. A recipient that ends without an
     * attempt (expired, suppressed) does not count.
     */
    attempts: new Counter({
      name: 'letterhaus_attempts_total',
      help: 'Delivery attempts by the resulting status of the recipient.',
      labelNames: ['status'],
      registers,
    }),
    attemptSeconds: new Histogram({
      name: 'letterhaus_attempt_seconds',
      help: 'Duration of one delivery attempt, including its settlement.',
      buckets,
      registers,
    }),
    firstAttemptSeconds: new Histogram({
      name: 'letterhaus_first_attempt_after_seconds',
      help: 'From the commit of an email to the start of its first attempt, when handed over.',
      buckets,
      registers,
    }),
    /** Each refused outcome is kept and retried. */
    settleFailures: new Counter({
      name: 'letterhaus_settle_failures_total',
      help: 'Outcomes of deliveries that the database refused to store, by SQLSTATE.',
      labelNames: ['sqlstate'],
      registers,
    }),
    visits: new Counter({
      name: 'letterhaus_tracking_visits_total',
      help: 'Opens and clicks of tracked emails by result.',
      labelNames: ['result'],
      registers,
    }),
  };
}

type DeliveryState = {
  waiting: () => number;
  runningCount: () => number;
  unsettled: () => { delivery: number; webhook: number };
  /** Whether no mail server anywhere answers (delivery/outage/uplink.ts). */
  isUplinkDown: () => boolean;
  providers: () => ProviderFacts[];
};

/** Registers gauges of the running deliveries of a worker. They are read at each scrape. */
export function addDeliveryGauges(
  registry: Registry,
  labels: ProviderLabels,
  state: DeliveryState,
): void {
  const gauge = (name: string, help: string, read: () => number): void => {
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(read());
      },
    });
  };
  gauge('letterhaus_memory_waiting', 'Recipients that wait in memory.', state.waiting);
  gauge('letterhaus_under_way', 'Recipients that are being delivered now.', state.runningCount);
  gauge('letterhaus_smtp_connections', 'Open connections to mail servers.', () =>
    state.providers().reduce((sum, { open }) => sum + open, 0),
  );
  addUplinkGauge(registry, state.isUplinkDown);
  addUnsettledGauge(registry, state.unsettled);
  addProviderGauges(registry, labels, state.providers);
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

/** All workers of a machine have the same value. */
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

/**
 * Adds up open and idle connections of the workers. Window and suspension belong to the machine, and all workers have
 * the same value.
 */
function addProviderGauges(
  registry: Registry,
  labels: ProviderLabels,
  read: () => ProviderFacts[],
): void {
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
        this.inc({ provider: OTHER }, 0);
        for (const provider of read())
          this.inc({ provider: labels.of(provider.provider) }, of(provider));
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
    { help: 'Open connections without a message, by provider.', aggregator: 'sum' },
    ({ idle }) => idle,
  );
  gauge(
    'letterhaus_provider_window',
    { help: 'Connections that a provider may have now, by provider.', aggregator: 'max' },
    ({ window }) => window,
  );
  gauge(
    'letterhaus_provider_slowed',
    {
      help: 'Whether a provider with this label is slowed, because it asked for less mail.',
      aggregator: 'max',
    },
    ({ state }) => (state === 'slowed' ? 1 : 0),
  );
  gauge(
    'letterhaus_provider_suspended',
    { help: 'Whether a provider with this label is suspended.', aggregator: 'max' },
    ({ state }) => (state === 'suspended' ? 1 : 0),
  );
}

/**
 * Adds the gauge of providers that refuse our mail (delivery/blocks/provider-blocks.ts). All workers have the same
 * value, so the supervisor takes the highest, not the sum. activity-metrics.ts counts refusals.
 */
export function addBlockGauge(
  registry: Registry,
  labels: ProviderLabels,
  read: () => Iterable<ProviderBlock>,
): void {
  new Gauge({
    name: 'letterhaus_provider_blocked',
    help: 'Whether a provider refuses all mail of one of our addresses, or of a sending domain.',
    labelNames: ['provider', 'about', 'category'],
    registers: [registry],
    aggregator: 'max',
    collect() {
      this.reset();
      for (const { provider, about, category } of read()) {
        this.set({ provider: labels.of(provider), about, category }, 1);
      }
    },
  });
}

/** Takes the worst value of all workers. `GET /readyz` has the same codes. */
export function addReadiness(
  registry: Registry,
  read: () => { codes: readonly string[]; unwrittenS: number },
): void {
  const registers = [registry];
  new Gauge({
    name: 'letterhaus_unready',
    help: 'Whether a worker accepts no mail for this reason of GET /readyz.',
    labelNames: ['reason'],
    registers,
    aggregator: 'max',
    collect() {
      const { codes } = read();
      for (const reason of UNREADY_CODES) this.set({ reason }, codes.includes(reason) ? 1 : 0);
    },
  });
  new Gauge({
    name: 'letterhaus_database_unwritten_seconds',
    help: 'Time since the database last confirmed a heartbeat of a worker, which comes every 2 s.',
    registers,
    aggregator: 'max',
    collect() {
      this.set(read().unwrittenS);
    },
  });
}
