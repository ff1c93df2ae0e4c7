/** Shows how pairs of sending domain and provider are distributed over source addresses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { rankSources } from './sources.ts';

const IPS = ['192.0.2.1', '192.0.2.2', '192.0.2.3', '192.0.2.4'];
const PAIRS = Array.from({ length: 4_000 }, (_, n) => ({
  sender: `send.domain${n % 500}.test`,
  provider: `provider${Math.floor(n / 500)}.test`,
}));

test('sending domains are distributed evenly over source addresses', () => {
  const counts = new Map(IPS.map((ip) => [ip, 0]));
  for (const pair of PAIRS) {
    const [first = ''] = rankSources(IPS, pair);
    counts.set(first, (counts.get(first) ?? 0) + 1);
  }
  for (const count of counts.values()) {
    assert.ok(count > 850 && count < 1_150, `${[...counts.values()].join(', ')} of 4000`);
  }
});

test('removing a source address moves only its own pairs, and adding it again restores them', () => {
  const [, ...others] = IPS;
  for (const pair of PAIRS) {
    const ranked = rankSources(IPS, pair);
    const left = ranked.filter((ip) => ip !== '192.0.2.1');
    assert.deepEqual(rankSources(others, pair), left);
    assert.deepEqual(
      rankSources(IPS.toReversed(), pair),
      ranked,
      'the order of the list has no effect',
    );
  }
});
