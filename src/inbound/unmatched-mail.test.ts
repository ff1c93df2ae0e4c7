/** The ring of fixed size for mail that changes nothing, in a real database that several workers fill at once. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { after, test } from 'node:test';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { connectAsOwner, Database } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import type { NewInboundMessage } from './report-store.ts';
import {
  findInbound,
  deleteOldInbound,
  listInbound,
  InboundMessageStore,
} from './inbound-message-store.ts';
import { MIB } from '../lib/units.ts';

const RING = { ringBytesMax: 32 * MIB };

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

function message(contentBytes: number): NewInboundMessage {
  const id = newId();
  return {
    id,
    reportHash: randomBytes(32),
    remoteAddress: '192.0.2.1',
    sender: 'ann@else.test',
    recipient: 'postmaster@send.acme.test',
    kind: 'other',
    about: null,
    sizeBytes: contentBytes,
    // Random, so that PostgreSQL cannot compress it.
    content: randomBytes(contentBytes),
  };
}

async function diskBytes(): Promise<number> {
  const [row] = await db.query<{ bytes: number }>(
    `select sum(pg_total_relation_size(inhrelid))::bigint as bytes from pg_inherits
      where inhparent = 'inbound_unmatched'::regclass`,
  );
  return row?.bytes ?? 0;
}

async function storedIds(): Promise<string[]> {
  const rows = await db.query<{ id: string }>('select id from inbound_unmatched order by id');
  return rows.map(({ id }) => id);
}

/** Retries like a deferred sender: autovacuum may lock the segment that would be emptied. */
async function storeAtLast(store: InboundMessageStore, one: NewInboundMessage): Promise<void> {
  await waitFor(async () => (await store.add(one)) === 'stored', { what: 'space in the ring' });
}

/**
 * Stores from several workers at once.
 * @returns the ids in the order of arrival
 */
async function flood(messages: { count: number; contentBytes: number }): Promise<string[]> {
  const workers = [1, 2, 3].map(() => new Database(database.address, { role: null, name: 'test' }));
  const stores = workers.map(({ inbound }) => new InboundMessageStore(inbound, RING));
  const ids: string[] = [];
  const PER_ROUND = 180;
  for (let count = 0; count < messages.count; count += PER_ROUND) {
    const round = Array.from({ length: PER_ROUND }, () => message(messages.contentBytes));
    ids.push(...round.map(({ id }) => id));
    await Promise.all(round.map((one, index) => storeAtLast(stores[index % stores.length]!, one)));
  }
  await Promise.all(workers.map((worker) => worker.close()));
  return ids;
}

for (const [count, contentBytes] of [
  [900, 64 * 1024],
  [24_000, 1_000],
] as const) {
  test(`${count} messages of ${contentBytes} octets from three workers use no more disk than the ring has`, async () => {
    const ids = await flood({ count, contentBytes });
    const bytes = await diskBytes();
    assert.ok(bytes <= RING.ringBytesMax * 1.02, `${bytes / MIB} MB`);
    const stored = await storedIds();
    assert.ok(stored.length < ids.length, 'the oldest messages are gone');
    // The newest messages are stored. Of the eight segments, only the newest one may be small.
    const newest = new Set(stored);
    const oldest = ids.slice(0, Math.floor(ids.length / 10));
    assert.deepEqual(
      [ids.slice(-60).every((id) => newest.has(id)), oldest.some((id) => newest.has(id))],
      [true, false],
    );
  });
}

test('while a backup reads the table, no segment is emptied and the sender is deferred', async () => {
  const backup = await connectAsOwner(database.address, 'test');
  await backup.query('begin');
  await backup.query('select count(*) from inbound_unmatched');
  const store = new InboundMessageStore(db.inbound, RING);
  const [{ bytes: before } = { bytes: 0 }] = await db.query<{ bytes: number }>(
    'select bytes::float8 as bytes from unmatched_ring',
  );
  await db.query('update unmatched_ring set bytes = $1', [RING.ringBytesMax]);
  assert.equal(await store.add(message(100)), 'no_space');
  await backup.query('rollback');
  await backup.end();
  assert.equal(await store.add(message(100)), 'stored');
  assert.ok(before > 0);
});

test('unmatched mail is listed and shown with other mail, and removed after seven days', async () => {
  const store = new InboundMessageStore(db.inbound, RING);
  const one = message(500);
  await store.add(one);
  const [newest] = await listInbound(db, { limit: 1, kind: 'other', before: null });
  assert.deepEqual([newest?.id, newest?.change], [one.id, null]);
  assert.deepEqual((await findInbound(db, one.id))?.content, one.content);
  await deleteOldInbound(db, { contentH: null, projectId: null });
  assert.notEqual(await findInbound(db, one.id), null);

  const eightDaysAgo = newIdAt(Date.now() - 8 * 86_400_000);
  await db.query('update inbound_unmatched set id = $1 where id = $2', [eightDaysAgo, one.id]);
  await deleteOldInbound(db, { contentH: null, projectId: null });
  assert.equal(await findInbound(db, eightDaysAgo), null);
});

function newIdAt(ms: number): string {
  const time = ms.toString(16).padStart(12, '0');
  return newId().replace(/^.{13}/, `${time.slice(0, 8)}-${time.slice(8)}`);
}
