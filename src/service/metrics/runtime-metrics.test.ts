/** Metrics of Node, compared with what the test makes the process do. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { type MetricObjectWithValues, type MetricValue, Registry } from 'prom-client';
import { waitFor } from '../../../test/support/wait.ts';
import { addRuntime } from './runtime-metrics.ts';

const BLOCKED_MS = 200;

const registry = new Registry();
addRuntime(registry);

type Found = MetricObjectWithValues<MetricValue<string> & { metricName?: string }>;

async function valueOf(name: string, labels: Readonly<Record<string, string>>): Promise<number> {
  const metrics = (await registry.getMetricsAsJSON()) as Found[];
  const values = metrics.flatMap((metric) =>
    metric.values.map((value) => ({ metricName: metric.name, ...value })),
  );
  const found = values.find(
    (value) =>
      value.metricName === name &&
      Object.entries(labels).every(([label, wanted]) => value.labels[label] === wanted),
  );
  assert.ok(found !== undefined, name);
  return found.value;
}

function blockEventLoop(): void {
  const endMs = performance.now() + BLOCKED_MS;
  while (performance.now() < endMs);
}

test('a blocked event loop is seen as late and busy', async () => {
  let longestS = 0;
  const isLate = async () => {
    blockEventLoop();
    // The timer of the measurement is due now, and the event loop runs timers before the second of these.
    await setImmediate();
    await setImmediate();
    longestS = await valueOf('letterhaus_event_loop_lag_seconds', { quantile: '1' });
    return longestS > BLOCKED_MS / 2_000;
  };
  await waitFor(isLate, { what: 'the lag to be measured' });
  assert.ok((await valueOf('letterhaus_event_loop_lag_seconds', { quantile: '0.99' })) >= 0);
  const ratio = await valueOf('letterhaus_event_loop_utilization_ratio', {});
  assert.ok(ratio >= 0 && ratio <= 1, String(ratio));
});

test('pauses for garbage collection are counted by kind', async () => {
  // Every kind has a series before its first pause.
  await valueOf('letterhaus_gc_seconds_count', { kind: 'weak_callbacks' });
  setFlagsFromString('--expose-gc');
  const collect = runInNewContext('gc') as () => void;
  collect();
  const isCounted = async () =>
    (await valueOf('letterhaus_gc_seconds_count', { kind: 'major' })) >= 1;
  await waitFor(isCounted, { what: 'the pause to be counted' });
});

test('the heap is below its limit', async () => {
  const used = await valueOf('letterhaus_heap_used_bytes', {});
  assert.ok(used > 0 && used < (await valueOf('letterhaus_heap_limit_bytes', {})));
  assert.ok((await valueOf('letterhaus_external_memory_bytes', {})) > 0);
});
