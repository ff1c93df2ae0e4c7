/**
 * Shows which path stores a batch after an error, and what is logged about it. The paths fail with errors that the test
 * sets, because a database does not fail in these ways on request.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { DatabaseUnavailable } from '../database/database.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { OutcomeBatches } from './outcome-batches.ts';

/** A store whose paths fail with the errors that a test sets, with its log and a clock that the test moves. */
function newStore() {
  const scene = {
    error: new Error('not set'),
    fullPathError: null as Error | null,
    nowMs: 0,
    logged: [] as unknown[],
  };
  const log = {
    warn: () => {},
    error: ({ err }: { err?: unknown }) => {
      if (err !== undefined) scene.logged.push(err);
    },
  };
  const store = new OutcomeBatches<number, string>({
    leaseId: () => 'worker',
    fencedResult: 'fenced',
    commitFull: async (batch) => {
      if (scene.fullPathError !== null) throw scene.fullPathError;
      return batch.map(() => 'full path');
    },
    commitFast: async () => {
      throw scene.error;
    },
    shorten: (item) => item,
    describe: (item) => ({ item }),
    lockKeyOf: String,
    itemBytes: 1,
    log: log as never,
    world: { ...systemWorld, monotonicMs: () => scene.nowMs },
  });
  return Object.assign(scene, { store });
}

const withSqlState = (code: string): Error => Object.assign(new Error('refused'), { code });

test('the full path stores a batch after any error of the fast path', async () => {
  const scene = newStore();
  const errors = [
    new DatabaseUnavailable('the connection was lost'),
    withSqlState('23514'),
    withSqlState('42703'),
    new TypeError('a bug'),
  ];
  for (const error of errors) {
    scene.error = error;
    assert.equal(await scene.store.settle(1), 'full path');
  }
});

test('an unavailable database and a refused row on the fast path are not logged', async () => {
  const scene = newStore();
  const serialization = new DatabaseUnavailable('retry', { cause: withSqlState('40001') });
  const lost = new DatabaseUnavailable('the connection was lost');
  for (const error of [lost, serialization, withSqlState('23514')]) {
    scene.error = error;
    await scene.store.settle(1);
  }
  assert.deepEqual(scene.logged, []);
});

test('an assertion that only the fast path violates is logged, because its rows are right', async () => {
  const scene = newStore();
  const violated = withSqlState('P0004');
  Object.assign(scene, { error: violated, fullPathError: violated });
  assert.equal(await scene.store.settle(1), 'kept');
  assert.deepEqual(scene.logged, []);
  scene.fullPathError = null;
  assert.equal(await scene.store.settle(2), 'full path');
  assert.deepEqual(scene.logged, [violated]);
});

test('any other error of the fast path is logged at most once a minute', async () => {
  const scene = newStore();
  const [missingColumn, bug, later] = [
    withSqlState('42703'),
    new TypeError('a bug'),
    withSqlState('42501'),
  ];
  for (const [nowMs, error] of [
    [0, missingColumn],
    [59_999, bug],
    [60_000, later],
  ] as const) {
    Object.assign(scene, { nowMs, error });
    await scene.store.settle(1);
  }
  assert.deepEqual(scene.logged, [missingColumn, later]);
});
