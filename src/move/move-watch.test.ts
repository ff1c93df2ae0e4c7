/** Tests how a node reacts while its database is moved, driven by the mover's state in the database. */
import assert from 'node:assert/strict';
import { setImmediate as untilRead } from 'node:timers/promises';
import { test, type TestContext } from 'node:test';
import type { MoveState } from './source-store.ts';
import type { Queryable } from '../database/database.ts';
import { watchMove } from './move-watch.ts';

const CHECK_EVERY_MS = 500;

type Watched = {
  /** Sets the state in the database from now on; null: it cannot be read. */
  set: (state: MoveState | null) => void;
  pass: (ms: number) => Promise<void>;
  pauses: boolean[];
  watch: ReturnType<typeof watchMove>;
};

function watched(t: TestContext): Watched {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let state: MoveState | null = { hasMoved: false, isPaused: false };
  let nowMs = 0;
  const pauses: boolean[] = [];
  const db = {
    query: () => (state === null ? Promise.reject(new Error('away')) : Promise.resolve([state])),
  } as unknown as Queryable;
  const watch = watchMove({
    db,
    pool: { pauseSending: (isPaused) => pauses.push(isPaused) },
    world: { monotonicMs: () => nowMs },
    log: { info: () => {}, warn: () => {} },
  });
  t.after(() => watch[Symbol.dispose]());
  return {
    set: (next) => (state = next),
    pauses,
    watch,
    pass: async (ms) => {
      for (let passedMs = 0; passedMs < ms; passedMs += CHECK_EVERY_MS) {
        await untilRead();
        nowMs += CHECK_EVERY_MS;
        t.mock.timers.tick(CHECK_EVERY_MS);
      }
      await untilRead();
    },
  };
}

test('sending pauses while a mover asks for it, and continues when the mover is gone', async (t) => {
  const { set, pass, pauses } = watched(t);
  set({ hasMoved: false, isPaused: true });
  await pass(1_000);
  assert.deepEqual(pauses, [true]);
  set({ hasMoved: false, isPaused: false });
  await pass(1_000);
  assert.deepEqual(pauses, [true, false]);
});

test('a pause lasts through a short outage of the database, and ends in a long one', async (t) => {
  const { set, pass, pauses } = watched(t);
  set({ hasMoved: false, isPaused: true });
  await pass(1_000);
  set(null);
  await pass(20_000);
  assert.deepEqual(pauses, [true]);
  await pass(15_000);
  assert.deepEqual(pauses, [true, false]);
});

test('a node notices that its database was moved', async (t) => {
  const { set, pass, watch } = watched(t);
  set({ hasMoved: true, isPaused: true });
  await pass(1_000);
  assert.equal(await watch.moved, 'moved');
});
