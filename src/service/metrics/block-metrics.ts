/**
 * The metric of providers that refuse our mail (delivery/blocks/provider-blocks.ts). Refusals are counted in
 * activity-metrics.ts.
 */
import { Gauge, type Registry } from 'prom-client';
import type { ProviderBlock } from '../../delivery/blocks/block-store.ts';
import type { ProviderLabels } from './provider-label.ts';

/** All workers have the same value, so the supervisor takes the highest, not the sum. */
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
