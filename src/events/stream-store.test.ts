/** The event stream: its order, its completeness under concurrent writers, and its cursors. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { newSender, type Sender } from '../../test/support/mail-store.ts';
import { asOwner, testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import type { EventType } from '../core/events.ts';
import { beginEpochOfNewSystem, findBlockingTransaction } from './order-store.ts';
import {
  BEGINNING,
  findNewer,
  latestPoint,
  readStream,
  type StreamFilter,
  type StreamPage,
  type StreamPoint,
} from './stream-store.ts';
import { recordEvent } from './event-store.ts';
import { newId } from '../database/ids.ts';
import { NO_ID } from '../retention/retention-store.ts';
import { clientQueries, connectAsOwner, type Queryable } from '../database/database.ts';

const database = await testDatabase();
const { db } = database;
after(() => database[Symbol.asyncDispose]());

const ALL: StreamFilter = { types: null, emailId: null, domain: null };

async function read(
  scope: Sender,
  options: { after?: StreamPoint; limit?: number; filter?: Partial<StreamFilter> } = {},
): Promise<StreamPage> {
  const { after: point = BEGINNING, limit = 100, filter = {} } = options;
  const request = { after: point, limit, filter: { ...ALL, ...filter }, retentionH: null };
  const page = await readStream(db, scope, request);
  if (typeof page === 'string') assert.fail(page);
  return page;
}

const namesIn = ({ events }: StreamPage): string[] =>
  events.map(({ data }) => data['name'] as string);

const record = (tx: Queryable, scope: Sender, name: string, type: EventType = 'domain.created') =>
  recordEvent(tx, { scope, type, data: { name } });

/**
 * Reads the page until it has these events. A transaction in another database of the server that ends during a read
 * may delay that page, but not the next one.
 */
async function readNames(
  names: readonly string[],
  scope: Sender,
  options: Parameters<typeof read>[1] & { hasMore?: boolean } = {},
): Promise<StreamPage> {
  const { hasMore = false, ...request } = options;
  const isThere = async () => {
    const page = await read(scope, request);
    return page.events.length >= names.length && page.hasMore === hasMore && page;
  };
  const found = await waitFor(isThere, { what: `the events ${names.join(', ')}` });
  assert.deepEqual(namesIn(found), names);
  return found;
}

/** Opens a transaction that stays open until `commit`. */
async function openTransaction(scope: Sender, name: string) {
  const client = await connectAsOwner(database.address, 'late');
  const tx = clientQueries(client);
  await tx.query('begin');
  await record(tx, scope, name);
  return {
    tx,
    commit: async () => {
      await tx.query('commit');
      await client.end();
    },
  };
}

test('an event whose transaction commits late is not skipped, and a reader by id skips it', async () => {
  const scope = await newSender(db);
  await waitFor(async () => (await findBlockingTransaction(db)) === null, {
    what: 'no transaction',
  });
  const late = await openTransaction(scope, 'late');
  await record(db, scope, 'early');
  const [own] = await late.tx.query<{ id: string }>('select pg_current_xact_id()::text as id');
  await waitFor(async () => (await findBlockingTransaction(db)) === own!.id, {
    what: 'the late one',
  });
  const before = await read(scope);
  assert.deepEqual(namesIn(before), [], 'what is not complete is not read');
  assert.equal(before.hasMore, false);

  const byId = `select id, data ->> 'name' as name from events
                 where project_id = $1 and id > $2 order by id`;
  const [newest] = await db.query<{ id: string }>(byId, [scope.projectId, NO_ID]);
  await late.commit();
  const naive = await db.query(byId, [scope.projectId, newest!.id]);
  assert.deepEqual(naive, [], 'after the newest id there is nothing: the late event would be lost');

  const page = await readNames(['late', 'early'], scope, { after: before.next });
  assert.deepEqual(namesIn(await read(scope, { after: page.next })), []);
});

test('a transaction that is rolled back delays the stream only while it runs', async () => {
  const scope = await newSender(db);
  const late = await openTransaction(scope, 'never');
  await record(db, scope, 'early');
  await late.tx.query('rollback');
  await late.commit();
  await readNames(['early'], scope);
});

test('a long transaction in another database of the server does not delay the stream', async () => {
  await using other = await testDatabase();
  const scope = await newSender(db);
  const client = await connectAsOwner(other.address, 'long');
  await client.query('begin');
  await client.query('select pg_current_xact_id()');
  await record(db, scope, 'here');
  await readNames(['here'], scope);
  await client.end();
});

test('with many concurrent writers a reader gets every event exactly once', async () => {
  const scope = await newSender(db);
  const writers = 6;
  const each = 60;
  const write = async (writer: number): Promise<void> => {
    const client = await connectAsOwner(database.address, 'writer');
    const tx = clientQueries(client);
    for (let n = 0; n < each; n += 1) {
      await tx.query('begin');
      await record(tx, scope, `${writer}.${n}`);
      // Some commit at once, some after later ones, some never.
      if (n % 3 === writer % 3) await record(db, scope, `${writer}.${n} beside`);
      await tx.query(n % 10 === 9 ? 'rollback' : 'commit');
    }
    await client.end();
  };
  const writing = Promise.all(Array.from({ length: writers }, (_, writer) => write(writer)));
  const seen: string[] = [];
  let point = BEGINNING;
  const follow = async (): Promise<void> => {
    // Reads to the end each time, because the writers are faster than one page per pause.
    for (let hasMore = true; hasMore;) {
      const page = await read(scope, { after: point, limit: 7 });
      seen.push(...namesIn(page));
      ({ next: point, hasMore } = page);
    }
  };
  let isDone = false;
  void writing.then(() => (isDone = true));
  await waitFor(async () => follow().then(() => isDone), {
    what: 'the writers',
    timeoutMs: 60_000,
  });
  const rows = await db.query<{ name: string }>(
    `select data ->> 'name' as name from events where project_id = $1`,
    [scope.projectId],
  );
  await waitFor(async () => follow().then(() => seen.length >= rows.length), { what: 'the rest' });
  assert.deepEqual(seen.toSorted(), rows.map(({ name }) => name).toSorted());
  assert.equal(new Set(seen).size, seen.length);
});

test('pages of any size give the same stream, and a filter advances past other events', async () => {
  const scope = await newSender(db);
  for (let n = 0; n < 10; n += 1) {
    await record(db, scope, `${n}`, n % 4 === 0 ? 'domain.verified' : 'domain.created');
  }
  const whole = Array.from({ length: 10 }, (_, n) => `${n}`);
  const all = await readNames(whole, scope);
  assert.deepEqual(await read(scope, { after: all.next, limit: 1 }).then(namesIn), []);
  for (const limit of [1, 3, 9, 10, 11]) {
    let point = BEGINNING;
    for (let n = 0; n < whole.length; n += limit) {
      const hasMore = n + limit < whole.length;
      const page = await readNames(whole.slice(n, n + limit), scope, {
        limit,
        after: point,
        hasMore,
      });
      point = page.next;
    }
  }
  const filter = { types: ['domain.verified'] as const };
  const first = await readNames(['0', '4'], scope, { filter, limit: 2, hasMore: true });
  const rest = await readNames(['8'], scope, { filter, limit: 2, after: first.next });
  await record(db, scope, '10');
  await readNames(['10'], scope, { after: rest.next });
});

test('each scope has its own stream, and its newest cursor is after all events', async () => {
  const [one, other] = [await newSender(db), await newSender(db)];
  await record(db, one, 'one');
  await record(db, other, 'other');
  await readNames(['one'], one);
  const readers = [one, other].map((scope) => ({ ...scope, at: BEGINNING }));
  await waitFor(async () => (await findNewer(db, readers)).length === 2, { what: 'both' });
  const isLatest = async () => {
    for (const reader of readers) reader.at = await latestPoint(db, reader);
    return readers.every(({ at }) => at.eventId !== null);
  };
  await waitFor(isLatest, { what: 'the newest events' });
  assert.deepEqual(await findNewer(db, readers), []);
  await record(db, other, 'another');
  const newer = await waitFor(
    async () => findNewer(db, readers).then((found) => found.length > 0 && found),
    { what: 'another' },
  );
  assert.deepEqual(newer, [readers[1]]);
  await readNames(['another'], other, { after: readers[1]!.at });
  const elsewhere = readers.map((reader) => ({ ...reader, at: { ...reader.at, history: '42' } }));
  assert.equal((await findNewer(db, elsewhere)).length, 2, 'all of them after a fail-over');
});

/** Returns why the stream cannot continue there, or null. */
async function problemAt(
  scope: Sender,
  point: StreamPoint,
  retentionH: number | null = null,
): Promise<string | null> {
  const page = await readStream(db, scope, { after: point, limit: 1, filter: ALL, retentionH });
  return typeof page === 'string' ? page : null;
}

test('a cursor whose event was lost with the last commits is refused, even if another event replaced it', async () => {
  const scope = await newSender(db);
  await record(db, scope, 'kept');
  await record(db, scope, 'lost');
  const { next } = await readNames(['kept', 'lost'], scope);
  await asOwner(database.address, (owner) =>
    owner.query(`delete from events where project_id = $1 and data ->> 'name' = 'lost'`, [
      scope.projectId,
    ]),
  );
  assert.match((await problemAt(scope, next)) ?? '', /does not have its event/);
});

test('a cursor stays valid when its event has been removed by retention', async () => {
  const scope = await newSender(db);
  const { next } = await read(scope);
  const old = newId().replace(/^.{13}/, '01900000-0000');
  const removed = { ...next, eventId: old, subjectId: old, seq: 1, xactId: 3n };
  assert.equal(await problemAt(scope, removed, 240), null);
  const idle = { ...removed, asOfMs: removed.asOfMs - 11 * 24 * 3600_000 };
  assert.match((await problemAt(scope, idle, 240)) ?? '', /too old/);
  const elsewhere = { ...removed, history: '42' };
  assert.match((await problemAt(scope, elsewhere, 240)) ?? '', /restored or failed over/);
});

test('after a restore into another system, later events sort after earlier ones and cursors stay valid', async () => {
  await using restored = await testDatabase();
  const scope = await newSender(restored.db);
  const page = (point: StreamPoint) =>
    readStream(restored.db, scope, { after: point, limit: 100, filter: ALL, retentionH: null });
  const names = (result: StreamPage | string) => namesIn(result as StreamPage);
  await record(restored.db, scope, 'before');
  // Simulates a dump from a system with higher transaction numbers.
  await asOwner(restored.address, async (owner) => {
    await owner.query(`update events set xact_id = '9000000000000'`);
    await owner.query(`update installation set system_id = 'another'`);
    assert.deepEqual(names(await page(BEGINNING)), [], 'it is not below any transaction here');
    await owner.query('begin');
    await beginEpochOfNewSystem(owner);
    await owner.query('commit');
    await beginEpochOfNewSystem(owner);
  });
  await record(restored.db, scope, 'after');
  const whole = await waitFor(
    async () => {
      const result = await page(BEGINNING);
      return names(result).length === 2 && result;
    },
    { what: 'both events' },
  );
  assert.deepEqual(names(whole), ['before', 'after']);
  const [first] = (whole as StreamPage).events;
  const isAfter = async () => names(await page({ ...first!.point, history: '42' }))[0] === 'after';
  await waitFor(isAfter, { what: 'the event after the first' });
});
