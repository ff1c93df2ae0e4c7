/**
 * The counter of failed authentications in front of the database: how rarely it queries for a client that is blocked.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import type { Queryable } from '../../database/database.ts';
import { AuthLimiter } from './auth-limiter.ts';

const LIMIT = { max: 3, windowS: 60 };

/** Counts like the database, and records how often it was queried. */
function fakeCounter() {
  const used = new Map<string, number>();
  const state = { asked: 0, ms: 0 };
  const db: Queryable = {
    async query<Row extends object>(_statement: unknown, values: readonly unknown[] = []) {
      state.asked += 1;
      const client = String(values[0]);
      used.set(client, Math.min(used.get(client) ?? 0, LIMIT.max) + 1);
      const row = { max: LIMIT.max, used: used.get(client), window_s: 60, reset_s: 60 };
      return [row] as object[] as Row[];
    },
  };
  return { state, limiter: new AuthLimiter(db, { monotonicMs: () => state.ms }, LIMIT) };
}

test('failures are allowed up to the limit, each with the number that remains', async () => {
  const { limiter } = fakeCounter();
  const taken = [];
  for (let count = 0; count < 4; count += 1) taken.push(await limiter.count('192.0.2.1'));
  assert.deepEqual(
    taken.map(({ allowed, limit }) => [allowed, limit.remaining]),
    [
      [true, 2],
      [true, 1],
      [true, 0],
      [false, 0],
    ],
  );
});

test('a client beyond the limit is refused from memory and counted once a second', async () => {
  const { state, limiter } = fakeCounter();
  for (let count = 0; count < 1_000; count += 1) await limiter.count('192.0.2.1');
  assert.equal(state.asked, 4);
  state.ms += 1_000;
  for (let count = 0; count < 1_000; count += 1) await limiter.count('192.0.2.1');
  assert.equal(state.asked, 5);
});

test('the limit of one client does not refuse another', async () => {
  const { limiter } = fakeCounter();
  for (let count = 0; count < 5; count += 1) await limiter.count('192.0.2.1');
  assert.equal((await limiter.count('192.0.2.2')).allowed, true);
});
