import assert from 'node:assert/strict';
import { test } from 'node:test';
import { TlsMemory } from './tls-memory.ts';

const DAY_MS = 24 * 3600_000;

test('what a handshake needed is remembered for three days, the last finding counts', () => {
  let nowMs = 0;
  const memory = new TlsMemory({ monotonicMs: () => nowMs });
  assert.equal(memory.of('mx.a.test'), null);
  memory.learn('mx.a.test', 'broken');
  memory.learn('mx.a.test', 'reduced');
  assert.deepEqual([memory.of('mx.a.test'), memory.of('mx.b.test')], ['reduced', null]);
  nowMs = 3 * DAY_MS - 1;
  assert.equal(memory.of('mx.a.test'), 'reduced');
  nowMs = 3 * DAY_MS;
  assert.equal(memory.of('mx.a.test'), null);
});

test('of very many hosts the oldest are forgotten', () => {
  const memory = new TlsMemory({ monotonicMs: () => 0 });
  for (let index = 0; index <= 10_000; index++) memory.learn(`${index}.test`, 'broken');
  assert.deepEqual([memory.of('0.test'), memory.of('10000.test')], [null, 'broken']);
});
