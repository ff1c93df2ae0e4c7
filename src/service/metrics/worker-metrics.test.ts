/** Labels of providers in the metrics of delivery. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Registry } from 'prom-client';
import type { ProviderFacts } from '../../delivery/shaping/provider-view.ts';
import { DEFAULT_SHAPING } from '../../delivery/shaping/settings.ts';
import { addDeliveryGauges } from './worker-metrics.ts';
import { ProviderLabels } from './provider-label.ts';

const provider = (name: string, state: ProviderFacts['state'], open = 3): ProviderFacts => ({
  provider: name,
  state,
  reason: null,
  untilMs: null,
  window: 4,
  open,
  idle: 0,
});

test('known and listed providers have a label of their own, and all others share one', async () => {
  const registry = new Registry();
  const labels = new ProviderLabels({
    ...DEFAULT_SHAPING,
    providers: { partner: { connections: 3 } },
    suffixes: [['mx.partner.example', 'partner']],
  });
  addDeliveryGauges(registry, labels, {
    waiting: () => 0,
    unsettled: () => ({ delivery: 2, webhook: 0 }),
    runningCount: () => 0,
    isUplinkDown: () => true,
    providers: () => [
      ...Array.from({ length: 40 }, (_, index) => provider(`mx${index}.example`, 'full', 9)),
      provider('google', 'slowed'),
      provider('partner', 'suspended', 0),
      provider('mx.away.example', 'suspended', 0),
      provider('relay mail.example:587', 'open', 2),
    ],
  });
  const lines = (await registry.metrics()).split('\n');
  const values = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}{`)).map((line) => line.slice(name.length));
  assert.deepEqual(values('letterhaus_provider_connections'), [
    '{provider="other"} 360',
    '{provider="google"} 3',
    '{provider="partner"} 0',
    '{provider="relay"} 2',
  ]);
  assert.ok(lines.includes('letterhaus_uplink_down 1'));
  assert.deepEqual(values('letterhaus_provider_suspended'), [
    '{provider="other"} 1',
    '{provider="google"} 0',
    '{provider="partner"} 1',
    '{provider="relay"} 0',
  ]);
});
