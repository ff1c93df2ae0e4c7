/** What a worker counts; the supervisor adds the workers up for `GET /metrics`. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';

const SECONDS = [
  0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300,
];

export type ServiceMetrics = {
  registry: Registry;
  /** Emails that got a 202. */
  accepted: Counter<'environment'>;
  acceptSeconds: Histogram;
  /** Recipients by what an attempt made of them: delivered, deferred, bounced, failed, ... */
  attempts: Counter<'status'>;
  attemptSeconds: Histogram;
  /** From the commit of an email to the start of its first attempt. */
  firstAttemptSeconds: Histogram;
};

export function createMetrics(state: {
  waiting: () => number;
  underWay: () => number;
  connections: () => number;
  queueDepth: () => Promise<{ depth: number; oldestS: number } | null>;
}): ServiceMetrics {
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
  gauge('posthorn_memory_waiting', 'Recipients that wait in memory.', state.waiting);
  gauge('posthorn_under_way', 'Recipients that are being delivered now.', state.underWay);
  gauge('posthorn_smtp_connections', 'Open connections to mail servers.', state.connections);
  addQueueGauges(registry, state.queueDepth);
  return {
    registry,
    accepted: new Counter({
      name: 'posthorn_emails_accepted_total',
      help: 'Emails accepted and committed.',
      labelNames: ['environment'],
      registers,
    }),
    acceptSeconds: new Histogram({
      name: 'posthorn_accept_seconds',
      help: 'From a checked request to its commit.',
      buckets: SECONDS,
      registers,
    }),
    attempts: new Counter({
      name: 'posthorn_attempts_total',
      help: 'Delivery attempts by what they made of the recipient.',
      labelNames: ['status'],
      registers,
    }),
    attemptSeconds: new Histogram({
      name: 'posthorn_attempt_seconds',
      help: 'Duration of one delivery attempt, settled.',
      buckets: SECONDS,
      registers,
    }),
    firstAttemptSeconds: new Histogram({
      name: 'posthorn_first_attempt_after_seconds',
      help: 'From the commit of an email to the start of its first attempt, when handed over.',
      buckets: SECONDS,
      registers,
    }),
  };
}

/** The same for every worker: the highest counts, not the sum. */
function addQueueGauges(
  registry: Registry,
  read: () => Promise<{ depth: number; oldestS: number } | null>,
): void {
  const oldest = new Gauge({
    name: 'posthorn_queue_oldest_due_seconds',
    help: 'How long the oldest due recipient has been waiting for its attempt.',
    registers: [registry],
    aggregator: 'max',
  });
  const depth = new Gauge({
    name: 'posthorn_queue_depth',
    help: 'Recipients that have not ended.',
    registers: [registry],
    aggregator: 'max',
    async collect() {
      const queue = await read().catch(() => null);
      if (!queue) return;
      depth.set(queue.depth);
      oldest.set(queue.oldestS);
    },
  });
}
