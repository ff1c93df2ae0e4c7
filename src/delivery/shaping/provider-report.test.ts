/** Shows which of thousands of providers the metrics name, so that a stranger's names hide none that matters. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ProviderFacts } from './provider-view.ts';
import { mostImportantFirst } from './provider-report.ts';

const REPORTED = 200;

function providers(
  count: number,
  nameOf: (n: number) => string,
  facts: Partial<ProviderFacts>,
): ProviderFacts[] {
  const common = {
    state: 'open',
    reason: null,
    untilMs: null,
    window: 2,
    open: 0,
    idle: 0,
  } as const;
  return Array.from({ length: count }, (_, n) => ({ ...common, ...facts, provider: nameOf(n) }));
}

test('thousands of suspended names of a stranger hide neither large providers nor those that take mail', () => {
  const strangers = providers(5_000, (n) => `mx${n}.stranger.test`, { state: 'suspended' });
  const large = [
    ...providers(1, () => 'google', { state: 'suspended' }),
    ...providers(1, () => 'outlook', { open: 1 }),
  ];
  const busy = providers(60, (n) => `mx.customer${n}.test`, { open: 1 });
  const took = providers(20, (n) => `mx.down${n}.test`, { state: 'suspended', window: 5 });
  const shown = mostImportantFirst([...strangers, ...busy, ...took, ...large]).slice(0, REPORTED);
  const names = new Set(shown.map(({ provider }) => provider));
  for (const { provider } of [...large, ...busy, ...took]) assert.ok(names.has(provider), provider);
  assert.equal(names.size, REPORTED);
  assert.deepEqual(new Set(shown.slice(0, 2)), new Set(large));
});

test('other providers are sorted by connections, and each is in the list once', () => {
  const all = [
    ...providers(50, (n) => `mx${n}.test`, { open: 1 }),
    ...providers(1, () => 'busy.test', { open: 9 }),
  ];
  const sorted = mostImportantFirst(all);
  assert.equal(sorted[0]?.provider, 'busy.test');
  assert.deepEqual(new Set(sorted), new Set(all));
  assert.equal(sorted.length, all.length);
});
