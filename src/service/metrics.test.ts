import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProviderFacts } from '../delivery/connection-pool.ts';
import { createMetrics } from './metrics.ts';

const provider = (name: string, state: ProviderFacts['state'], open = 3): ProviderFacts => ({
  provider: name,
  state,
  reason: null,
  untilMs: null,
  window: 4,
  open,
  idle: 0,
});

test('metrics name the affected providers, however many are busy, with the depth of their queues', async () => {
  const { registry } = createMetrics({
    waiting: () => 0,
    unsettled: () => ({ delivery: 2, webhook: 0 }),
    underWay: () => 0,
    isUplinkDown: () => true,
    providers: () => [
      ...Array.from({ length: 40 }, (_, index) => provider(`busy${index}`, 'full', 9)),
      provider('touchy', 'slowed'),
      provider('away', 'suspended', 0),
    ],
    queueDepth: async () => ({
      depth: 7,
      oldestS: 60,
      providers: [{ provider: 'away', depth: 5, oldestS: 60 }],
    }),
    alerts: async () => [],
    conditions: async () => [{ type: 'disk.low', open: 2 }],
    unusableSecrets: async () => ({ domain: 1, webhook: 0, member: 0 }),
  });
  const lines = (await registry.metrics()).split('\n');
  const values = (name: string): string[] =>
    lines.filter((line) => line.startsWith(`${name}{`)).map((line) => line.slice(name.length));
  const inTrouble = (name: string) => values(name).filter((line) => !/busy|other/.test(line));
  assert.deepEqual(inTrouble('letterhaus_provider_slowed'), [
    '{provider="touchy"} 1',
    '{provider="away"} 0',
  ]);
  assert.deepEqual(inTrouble('letterhaus_provider_suspended'), [
    '{provider="touchy"} 0',
    '{provider="away"} 1',
  ]);
  assert.ok(lines.includes('letterhaus_uplink_down 1'));
  assert.equal(values('letterhaus_provider_connections').length, 31);
  assert.equal(values('letterhaus_provider_connections').at(-1), '{provider="other"} 108');
  assert.deepEqual(values('letterhaus_queue_provider_depth'), ['{provider="away"} 5']);
  assert.deepEqual(values('letterhaus_queue_provider_oldest_due_seconds'), [
    '{provider="away"} 60',
  ]);
});
