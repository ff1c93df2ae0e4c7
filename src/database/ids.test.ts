/** Ids sort by time even when a clock is set back, and partitions keep accepting them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { acceptAll, newEmail, newSender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { firstUuidAt, createIdSource, isId, newId } from './ids.ts';
import { createPartitions } from '../migration/migrate.ts';
import { WEEK_MS } from './partitions.ts';

const UUID_V7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

test('ids sort in the order of creation, also within a millisecond', () => {
  const ids = Array.from({ length: 50_000 }, newId);
  assert.deepEqual(ids.toSorted(), ids);
  assert.equal(new Set(ids).size, ids.length);
});

test('an id is a UUIDv7 with the current time in it', () => {
  const before = Date.now();
  const id = newId();
  assert.match(id, UUID_V7);
  const ms = Number.parseInt(id.slice(0, 13).replace('-', ''), 16);
  // Ids of the test before may be ahead of the clock.
  assert.ok(ms >= before && ms <= Date.now() + 100);
});

test('a text that is not in the format of an id is not an id', () => {
  assert.equal(isId(newId()), true);
  for (const text of ['', 'x', newId().toUpperCase(), `${newId()}0`])
    assert.equal(isId(text), false);
});

function clockedIds() {
  const clock = { ms: Date.now() };
  return {
    clock,
    id: createIdSource(() => firstUuidAt(clock.ms).slice(0, 18) + newId().slice(18)),
  };
}

test('ids keep their order when the clock is set back by seconds', () => {
  const { clock, id } = clockedIds();
  const before = id();
  clock.ms -= 9_000;
  assert.ok(id() > before);
});

test('emails are accepted again after a clock that was months ahead is corrected', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const limit = { max: 1_000, windowS: 60 };
  const nobody = { leaseId: () => null, onWebhooksQueued: () => {}, onUnknown: () => {} };
  const store = new AcceptStore(db.accepting, { limit, ...nobody });
  const { clock, id } = clockedIds();
  const accept = async () => {
    const { rows } = await acceptAll(store, [newEmail(sender, { id: id(), eventId: id() })]);
    return rows[0]?.outcome;
  };
  assert.equal(await accept(), 'accepted');
  const currentMs = clock.ms;
  clock.ms += 20 * WEEK_MS;
  await assert.rejects(accept(), /no partition/);
  clock.ms = currentMs;
  assert.equal(await accept(), 'accepted');
  assert.equal(await accept(), 'accepted');
  // Should it stay ahead, the next check of service/maintenance/maintenance-tasks.ts creates the missing partitions.
  clock.ms += 20 * WEEK_MS;
  await createPartitions(database.address, clock.ms);
  assert.equal(await accept(), 'accepted');
});
