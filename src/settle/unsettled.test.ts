/**
 * Outcomes that the database refuses: one that is at fault blocks no other, and a store that can store nothing stops
 * its senders. test/journey/settle-refused.test.ts shows the same with a real database.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '../../test/support/wait.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { type Extent, Unsettled } from './unsettled.ts';

/** A store whose refusals a test sets, with a record of its calls. */
function newStore() {
  const scene = {
    /** Returns the SQLSTATE of a failure; null: it is stored. */
    refuses: (_items: readonly number[], _extent: Extent): string | null => null,
    tried: [] as { items: readonly number[]; extent: Extent }[],
    stored: [] as number[],
    logged: [] as object[],
  };
  const log = { warn: () => {}, error: (facts: object) => void scene.logged.push(facts) };
  const unsettled = new Unsettled<number, string>({
    write: async (items, extent) => {
      scene.tried.push({ items, extent });
      const code = scene.refuses(items, extent);
      if (code !== null) throw Object.assign(new Error('refused'), { code });
      return items.map((item) => `stored ${item}`);
    },
    describe: (item) => ({ item }),
    lockKeyOf: (item) => String(item % 10),
    onSettled: (item) => void scene.stored.push(item),
    log: log as never,
    world: { ...systemWorld, random: () => 0 },
  });
  return Object.assign(scene, { unsettled });
}

const UP_TO_64 = Array.from({ length: 64 }, (_, index) => index + 1);

test('one outcome that cannot be stored does not block the others of its batch', async () => {
  const store = newStore();
  store.refuses = (items) => (items.includes(41) ? '23514' : null);
  const results = await store.unsettled.settle(UP_TO_64);
  assert.deepEqual(
    results.filter((result) => result === 'kept'),
    ['kept'],
  );
  assert.equal(results[40], 'kept');
  assert.equal(store.unsettled.mustWait, false);
  assert.ok(store.tried.length <= 14, `${store.tried.length} statements`);
  store.refuses = () => null;
  await waitFor(() => store.stored.includes(41), { what: 'it to be stored' });
  assert.equal(store.unsettled.size, 0);
  await store.unsettled.stop(0);
});

test('when nothing can be stored, new work must wait and one outcome at a time is retried', async () => {
  const store = newStore();
  store.refuses = () => '42703';
  assert.ok((await store.unsettled.settle(UP_TO_64)).every((result) => result === 'kept'));
  assert.equal(store.unsettled.mustWait, true);
  const before = store.tried.length;
  assert.ok(before <= 10, `${before} statements`);
  assert.deepEqual(await store.unsettled.settle([100]), ['kept']);
  assert.equal(store.tried.length, before, 'what would fail is not tried');
  await waitFor(() => store.tried.length > before + 1, { what: 'two probes' });
  assert.ok(store.tried.slice(before).every(({ items }) => items.length === 1));
  assert.ok(store.tried.slice(before).every(({ extent }) => extent === 'all'));
  store.refuses = () => null;
  await waitFor(() => store.stored.length === 65, { what: 'all to be stored' });
  assert.equal(store.unsettled.mustWait, false);
  assert.deepEqual(
    store.stored.toSorted((a, b) => a - b),
    [...UP_TO_64, 100],
  );
  await store.unsettled.stop(0);
});

test('outcomes of one email that are refused because of its rows block nothing', async () => {
  const store = newStore();
  store.refuses = (items) => (items.some((item) => item % 10 === 1) ? 'P0004' : null);
  assert.deepEqual(await store.unsettled.settle([1]), ['kept']);
  assert.deepEqual(await store.unsettled.settle([11, 21]), ['kept', 'kept']);
  assert.equal(store.unsettled.mustWait, false);
  assert.deepEqual(await store.unsettled.settle([2]), ['stored 2']);
  await store.unsettled.stop(0);
});

test('refusals because of the rows of more than 3 emails in succession stall the store', async () => {
  const store = newStore();
  store.refuses = () => '23514';
  for (let item = 1; item <= 3; item += 1) {
    assert.deepEqual(await store.unsettled.settle([item]), ['kept']);
    assert.equal(store.unsettled.mustWait, false);
  }
  assert.deepEqual(await store.unsettled.settle([4]), ['kept']);
  assert.equal(store.unsettled.mustWait, true);
  await store.unsettled.stop(0);
});

test('refusals because of rows do not stall the store while others store outcomes', async () => {
  const store = newStore();
  store.refuses = () => '23514';
  for (let item = 1; item <= 5; item += 1) {
    assert.deepEqual(await store.unsettled.settle([item]), ['kept']);
    assert.equal(store.unsettled.mustWait, false);
    store.unsettled.noteOthersStored();
  }
  await store.unsettled.stop(0);
});

test('outcomes that wait for the same lock are kept without being tried', async () => {
  const store = newStore();
  store.refuses = (items) => (items.some((item) => item % 10 === 1) ? '55P03' : null);
  assert.deepEqual(await store.unsettled.settle([1, 2]), ['kept', 'stored 2']);
  const before = store.tried.length;
  assert.deepEqual(await store.unsettled.settle([11, 3]), ['kept', 'stored 3']);
  assert.equal(store.tried.length, before + 1);
  store.refuses = () => null;
  await waitFor(() => store.stored.length === 2, { what: 'both to be stored' });
  await store.unsettled.stop(0);
});

test('an outcome that fails because of its data is finally stored without details', async () => {
  const store = newStore();
  store.refuses = (_, extent) => (extent === 'all' ? '22P05' : null);
  assert.deepEqual(await store.unsettled.settle([1]), ['kept']);
  await waitFor(() => store.stored.length === 1, { what: 'it to be stored' });
  assert.deepEqual(
    store.tried.map(({ extent }) => extent),
    ['all', 'all', 'all', 'all', 'all', 'without_details'],
  );
  await store.unsettled.stop(0);
});

test('a stop retries every outcome once and reports those that could not be stored', async () => {
  const store = newStore();
  store.refuses = (items) => (items.includes(2) ? '42501' : null);
  assert.deepEqual(await store.unsettled.settle([1, 2]), ['stored 1', 'kept']);
  await store.unsettled.stop(50);
  assert.ok(store.tried.some(({ extent }) => extent === 'bare'));
  const last = store.logged.at(-1) as { unsettled: number; outcomes: object[] };
  assert.equal(last.unsettled, 1);
  assert.partialDeepStrictEqual(last.outcomes, [{ item: 2, sqlstate: '42501' }]);
});
