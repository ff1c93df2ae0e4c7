/** Shows when a silent worker is killed, on a fake clock. test/journey/frozen-worker.test.ts freezes real ones. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FrozenWorkerWatch } from './frozen-worker-watch.ts';

/** Watches workers with these ids. The test decides which pings they answer. */
function watchOf(ids: readonly number[]) {
  const signals: string[] = [];
  const pings: number[] = [];
  const workers = ids.map((id) => ({
    id,
    process: { pid: 100 + id, kill: (signal: string) => signals.push(`${id} ${signal}`) },
  }));
  const warnings: object[] = [];
  const watch = new FrozenWorkerWatch({
    workers: () => workers,
    ping: (id) => pings.push(id),
    log: { warn: (facts: object) => warnings.push(facts) },
  });
  return { watch, signals, pings, warnings };
}

const ticks = (watch: FrozenWorkerWatch, count: number): void => {
  for (let index = 0; index < count; index += 1) watch.tick();
};

test('a worker that is silent for more than 8 s is killed once, one that answers is not', () => {
  const { watch, signals, pings, warnings } = watchOf([1, 2]);
  for (const id of [1, 2]) watch.noteReady(id);
  for (let second = 0; second < 8; second += 1) {
    watch.tick();
    watch.noteMessage(2);
  }
  assert.deepEqual(signals, []);
  assert.equal(pings.length, 16);
  ticks(watch, 3);
  assert.deepEqual(signals, ['1 SIGKILL']);
  assert.deepEqual(warnings, [{ pid: 101, silent_s: 8 }]);
  assert.equal(watch.killedCount, 1);
  assert.equal(watch.remove(1), true);
  assert.equal(watch.remove(2), false);
});

test('a worker that loads its code has a minute', () => {
  const { watch, signals } = watchOf([1]);
  ticks(watch, 60);
  assert.deepEqual(signals, []);
  ticks(watch, 1);
  assert.deepEqual(signals, ['1 SIGKILL']);
});

test('the pause of a suspended machine counts as one second of silence', () => {
  const { watch, signals } = watchOf([1]);
  watch.noteReady(1);
  ticks(watch, 7);
  // A timer of a process that was stopped for an hour fires once.
  watch.tick();
  assert.deepEqual(signals, []);
  watch.noteMessage(1);
  ticks(watch, 8);
  assert.deepEqual(signals, []);
});
