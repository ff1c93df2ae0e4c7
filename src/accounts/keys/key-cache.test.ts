/**
 * Shows how long a worker remembers a key, and how many queries requests cause. The database answers when the test lets
 * it, so that look-ups overlap.
 */
import { test } from 'node:test';
import assert from 'node:assert/strict';
import { randomBytes, randomUUIDv7 } from 'node:crypto';
import { API_KEY_RANDOM_BYTES, hashApiKey, makeApiKey } from './api-key.ts';
import { ALLOW_ALL, type Caller } from '../../core/scope.ts';
import { DatabaseUnavailable, type Queryable } from '../../database/database.ts';
import { KeyCache } from './key-cache.ts';

/** A database that knows some keys, answers on command, and records its queries. */
function fakeKeys() {
  const callers = new Map<string, Caller>();
  const asked: string[][] = [];
  let gate = Promise.resolve();
  let broken = false;
  const db: Queryable = {
    async query<Row extends object>(_statement: unknown, values: readonly unknown[] = []) {
      const hashes = values[0] as string[];
      asked.push(hashes);
      const rows = hashes.flatMap((hash) => {
        const caller = callers.get(hash);
        return caller ? [{ hash, ...caller }] : [];
      });
      await gate;
      if (broken) throw new DatabaseUnavailable('gone');
      return rows as object[] as Row[];
    },
  };
  const clock = { ms: 0 };
  const cache = new KeyCache(db, { monotonicMs: () => clock.ms });
  return {
    cache,
    asked,
    clock,
    add: (): { key: string; caller: Caller } => {
      const key = makeApiKey('test', randomBytes(API_KEY_RANDOM_BYTES));
      const caller: Caller = {
        projectId: randomUUIDv7(),
        environment: 'test',
        organizationId: randomUUIDv7(),
        keyId: randomUUIDv7(),
        permission: 'full_access',
        domain: null,
        expiresAt: null,
        ...ALLOW_ALL,
      };
      callers.set(hashApiKey(key), caller);
      return { key, caller };
    },
    revoke: (key: string) => void callers.delete(hashApiKey(key)),
    break: () => void (broken = true),
    hold: (): (() => void) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      return resolve;
    },
  };
}

test('a key is looked up once and remembered for less than a second', async () => {
  const { cache, asked, clock, add } = fakeKeys();
  const { key, caller } = add();
  assert.deepEqual(await cache.find(key), caller);
  clock.ms = 499;
  assert.deepEqual(cache.find(key), caller);
  assert.equal(asked.length, 1);
  clock.ms = 900;
  const found = cache.find(key);
  assert.ok(found instanceof Promise);
  assert.deepEqual(await found, caller);
  assert.equal(asked.length, 2);
});

test('a revoked key stops working within a second', async () => {
  const { cache, clock, add, revoke } = fakeKeys();
  const { key } = add();
  await cache.find(key);
  revoke(key);
  clock.ms = 999;
  assert.equal(await cache.find(key), null);
});

test('a key in use is looked up again in the background without delay for requests', async () => {
  const { cache, asked, clock, add } = fakeKeys();
  const { key, caller } = add();
  await cache.find(key);
  for (clock.ms = 100; clock.ms < 5_000; clock.ms += 100) {
    assert.deepEqual(cache.find(key), caller);
    await new Promise(setImmediate);
  }
  assert.ok(asked.length >= 5 && asked.length <= 11, String(asked.length));
});

test('a hundred requests with one key share one look-up, other keys share the next', async () => {
  const { cache, asked, add, hold } = fakeKeys();
  const result = hold();
  const [one, ...others] = [add(), add(), add()];
  const find = async (key: string) => cache.find(key);
  const finds = Array.from({ length: 100 }, () => find(one.key));
  for (const { key } of others) finds.push(find(key), find(key));
  result();
  const found = await Promise.all(finds);
  assert.ok(found.every((caller) => caller !== null));
  assert.deepEqual(
    asked.map((hashes) => hashes.length),
    [1, 2],
  );
});

test('an evicted key is looked up again, even while a look-up is under way', async () => {
  const { cache, add, revoke, hold } = fakeKeys();
  const { key, caller } = add();
  const result = hold();
  const before = cache.find(key);
  revoke(key);
  cache.evict(caller.keyId);
  const after = cache.find(key);
  result();
  assert.deepEqual(await before, caller);
  assert.equal(await after, null);
  assert.equal(await cache.find(key), null);
});

test('a fresh look-up ignores cached results and look-ups under way', async () => {
  const { cache, asked, add, revoke, hold } = fakeKeys();
  const { key, caller } = add();
  assert.deepEqual(await cache.find(key), caller);
  assert.deepEqual(await cache.findUncached(key), caller);
  assert.equal(asked.length, 2);
  await new Promise(setImmediate);
  const result = hold();
  const before = cache.findUncached(key);
  revoke(key);
  const [second, third] = [cache.findUncached(key), cache.findUncached(key)];
  result();
  assert.deepEqual(await before, caller);
  assert.deepEqual([await second, await third], [null, null]);
  assert.equal(asked.length, 4);
  assert.equal(cache.findUncached('nonsense'), null);
});

test('a text that is not a key causes no database query', async () => {
  const { cache, asked, add } = fakeKeys();
  const { key } = add();
  for (const text of ['', 'x', `${key}x`, key.toUpperCase(), key.replace('_test_', '_live_')]) {
    assert.equal(cache.find(text), null);
  }
  assert.equal(asked.length, 0);
});

test('when the database is unavailable, every waiting request gets the error', async () => {
  const { cache, add, hold, ...db } = fakeKeys();
  const result = hold();
  const { key } = add();
  const finds = [cache.find(key), cache.find(key)];
  db.break();
  result();
  for (const find of finds) await assert.rejects(Promise.resolve(find), DatabaseUnavailable);
});
