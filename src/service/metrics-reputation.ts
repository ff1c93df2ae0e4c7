/** What is beyond the rules about bounces and complaints (core/guard.ts), for `GET /metrics`. */
import { Gauge, type Registry } from 'prom-client';
import type { Trip } from '../store/reputation.ts';

/** The same for every worker: the highest, not the sum. */
export function addReputationGauge(registry: Registry, read: () => Promise<readonly Trip[]>): void {
  new Gauge({
    name: 'posthorn_reputation_rate',
    help: 'The share of bounces or complaints in 24 hours where it is beyond the rule.',
    labelNames: ['project', 'environment', 'domain', 'kind'],
    registers: [registry],
    aggregator: 'max',
    async collect() {
      const trips = await read().catch(() => null);
      if (trips === null) return;
      this.reset();
      for (const { projectId: project, environment, domain, kind, count, ended } of trips) {
        this.set({ project, environment, domain, kind }, ended === 0 ? 0 : count / ended);
      }
    },
  });
}
