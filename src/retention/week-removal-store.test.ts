/**
 * Removal of whole weeks, which are partitions, in a real database: interrupted, blocked by readers, and after a clock
 * that jumped. retention-store.test.ts removes single emails.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { newEmail, newSender, type Sender } from '../../test/support/mail-store.ts';
import { asOwner, type TestDatabase, testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { connectAsOwner } from '../database/database.ts';
import { findEmail } from '../emails/email-store.ts';
import { newId } from '../database/ids.ts';
import { confirmRemoval, beginRun, readRetentionState } from './clock-store.ts';
import { ensurePartitions, WEEK_MS } from '../database/partitions.ts';
import { removeOldPartitions } from './week-removal-store.ts';

const DAYS_45_AND_90 = { contentH: 45 * 24, metadataH: 90 * 24 };
const TABLES = ['contents', 'emails', 'events', 'recipients', 'webhook_deliveries'];

async function tablesOf(database: TestDatabase, weeks: number): Promise<string[]> {
  const day = new Date(Math.floor(Date.now() / WEEK_MS - weeks) * WEEK_MS);
  const suffix = day.toISOString().slice(0, 10).replaceAll('-', '');
  const rows = await database.db.query<{ name: string }>(
    `select relname as name from pg_class
      where relname like '%\\_${suffix}' and relkind = 'r' order by 1`,
  );
  return rows.map(({ name }) => name.slice(0, -suffix.length - 1));
}

const makeWeek = (database: TestDatabase, weeks: number) =>
  asOwner(database.address, (db) => ensurePartitions(db, Date.now() - weeks * WEEK_MS));

/** Stores an email as if it was accepted this many weeks ago, with an id of that time. */
async function storeOld(database: TestDatabase, sender: Sender, weeks: number): Promise<string> {
  const { db } = database;
  const at = Date.now() - weeks * WEEK_MS;
  const id = at
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})(.{4})$/, '$1-$2-7000-8000-000000000001');
  await db.query(
    `insert into emails (project_id, environment, id, created_at, expires_at, domain_id, dual_signed,
                         from_address, to_list, cc_list, bcc_list, reply_to, subject, tags, metadata,
                         open_count, worst, event_count, last_event)
     values ($1, 'live', $2, now() - $4::int * interval '1 week', now(), $3, false, 'a@acme.com',
             '{jo@example.net}', '{}', '{}', '{}', 'Hello', '[]', '{}', 0, 2, 1, 'email.delivered')`,
    [sender.projectId, id, sender.domainId, weeks],
  );
  await db.query(`insert into contents (project_id, email_id, html) values ($1, $2, 'hello')`, [
    sender.projectId,
    id,
  ]);
  await db.query(
    `insert into events (project_id, environment, subject_id, seq, id, type, created_at, data)
     values ($1, 'live', $2, 1, $2, 'email.queued', now(), '{}')`,
    [sender.projectId, id],
  );
  return id;
}

test('content is removed after its retention, the rest of the week after the longer one', async () => {
  await using database = await testDatabase();
  const sender = await newSender(database.db);
  for (const weeks of [7, 8, 14]) await makeWeek(database, weeks);
  const young = await storeOld(database, sender, 7);
  const middle = await storeOld(database, sender, 8);
  await storeOld(database, sender, 14);
  await confirmRemoval(database.db);
  await removeOldPartitions(database.address, DAYS_45_AND_90);
  assert.deepEqual(await tablesOf(database, 14), []);
  const withoutContent = TABLES.filter((table) => table !== 'contents');
  assert.deepEqual(await tablesOf(database, 8), withoutContent);
  const find = (id: string) => findEmail(database.db, { ...sender, id, keyId: null, domain: null });
  assert.deepEqual([(await find(middle))?.subject, (await find(middle))?.html], ['Hello', null]);
  assert.equal((await find(young))?.subject, 'Hello');
});

test('nothing is removed without retention, and the last week never', async () => {
  await using database = await testDatabase();
  await makeWeek(database, 60);
  const never = { contentH: null, metadataH: null };
  assert.deepEqual((await removeOldPartitions(database.address, never))?.removed, []);
  const aDay = { contentH: 24, metadataH: 24 };
  await removeOldPartitions(database.address, aDay);
  assert.deepEqual(await tablesOf(database, 60), []);
  assert.deepEqual(await tablesOf(database, 1), TABLES);
  assert.deepEqual(await tablesOf(database, 0), TABLES);
});

test('a week is kept while one of its emails waits for delivery, with the reason', async () => {
  await using database = await testDatabase();
  const sender = await newSender(database.db);
  await makeWeek(database, 30);
  const id = await storeOld(database, sender, 30);
  await database.db.query('update emails set open_count = 1 where id = $1', [id]);
  const kept = async () => (await removeOldPartitions(database.address, DAYS_45_AND_90))?.kept;
  assert.match((await kept())?.join() ?? '', /emails_.*it has mail that has not ended/);
  assert.deepEqual(await tablesOf(database, 30), TABLES);
  await database.db.query('update emails set open_count = 0 where id = $1', [id]);
  assert.deepEqual(await kept(), []);
  assert.deepEqual(await tablesOf(database, 30), []);
});

test('a week is kept while a webhook about one of its emails is pending', async () => {
  await using database = await testDatabase();
  const sender = await newSender(database.db);
  await makeWeek(database, 30);
  const id = await storeOld(database, sender, 30);
  const { db } = database;
  // A complaint of this week about an email of that week.
  await db.query(
    `insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                     type, created_at)
     values ($1, 'live', $1, $3, $2, 2, 'email.complained', now())`,
    [sender.projectId, id, newId()],
  );
  await db.query(
    `insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
     select project_id, endpoint_id, event_id, now() from webhook_deliveries`,
  );
  const kept = async () => (await removeOldPartitions(database.address, DAYS_45_AND_90))?.kept;
  assert.match((await kept())?.join() ?? '', /it has pending webhooks/);
  assert.equal((await tablesOf(database, 30)).includes('events'), true);
  await db.query('delete from webhook_queue');
  assert.deepEqual(await kept(), []);
});

test('a removal interrupted between two steps is completed by the next run', async () => {
  await using database = await testDatabase();
  await makeWeek(database, 30);
  const [name] = await asOwner(database.address, async (db) => {
    const rows = await db.query<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits
        where inhparent = 'emails'::regclass order by 1 limit 1`,
    );
    await db.query(
      `comment on table ${rows[0]!.name} is 'letterhaus: past its retention, to be removed'`,
    );
    await db.query(`alter table emails detach partition ${rows[0]!.name} concurrently`);
    return rows.map((row) => row.name);
  });
  assert.deepEqual((await tablesOf(database, 30)).includes('emails'), true);
  const removal = await removeOldPartitions(database.address, DAYS_45_AND_90);
  assert.equal(removal?.removed[0], name);
  assert.deepEqual(await tablesOf(database, 30), []);
});

test('detaching that a long reader blocked is completed when the reader ends', async () => {
  await using database = await testDatabase();
  await makeWeek(database, 30);
  const reader = await connectAsOwner(database.address, 'test');
  await reader.query('begin isolation level repeatable read');
  await reader.query('select count(*) from emails');
  await assert.rejects(removeOldPartitions(database.address, DAYS_45_AND_90), /lock timeout/);
  await reader.query('commit');
  await reader.end();
  await removeOldPartitions(database.address, DAYS_45_AND_90);
  assert.deepEqual(await tablesOf(database, 30), []);
});

test('a partition that the operator detached is not dropped', async () => {
  await using database = await testDatabase();
  await makeWeek(database, 30);
  await asOwner(database.address, async (db) => {
    const [row] = await db.query<{ name: string }>(
      `select inhrelid::regclass::text as name from pg_inherits
        where inhparent = 'events'::regclass order by 1 limit 1`,
    );
    await db.query(`alter table events detach partition ${row!.name}`);
  });
  await removeOldPartitions(database.address, DAYS_45_AND_90);
  // The oldest week that exists: `ensurePartitions` also makes the week before.
  assert.deepEqual(await tablesOf(database, 31), ['events']);
});

test('emails are accepted during a removal, and several machines may remove at the same time', async () => {
  await using database = await testDatabase();
  const { db, address } = database;
  const sender = await newSender(db);
  for (const weeks of [40, 30, 20]) await makeWeek(database, weeks);
  const store = new AcceptStore(db.accepting, {
    limit: { max: 1_000_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const removed = { all: false };
  let accepted = 0;
  const load = (async () => {
    while (!removed.all || accepted < 20) {
      const row = await store.accept(newEmail(sender));
      assert.equal(row.outcome, 'accepted');
      accepted += 1;
    }
  })();
  await Promise.all([1, 2].map(() => removeOldPartitions(address, DAYS_45_AND_90)));
  await waitFor(
    async () => {
      await removeOldPartitions(address, DAYS_45_AND_90);
      const weeks = await Promise.all([40, 30, 20].map((week) => tablesOf(database, week)));
      return weeks.flat().length === 0;
    },
    { what: 'all three weeks to go', timeoutMs: 60_000 },
  );
  removed.all = true;
  await load;
});

const moveClock = (database: TestDatabase, interval: string) =>
  database.db.query('update clock set skew = skew + $1::interval', [interval]);

test('in a day at most a tenth of the stored weeks is removed, and all of them after a confirmation', async () => {
  await using database = await testDatabase();
  const { db, address } = database;
  const sender = await newSender(db);
  const weeks = Array.from({ length: 25 }, (_, index) => index + 2);
  for (const week of weeks) {
    await makeWeek(database, week);
    await storeOld(database, sender, week);
  }
  const retention = { contentH: null, metadataH: 90 * 24 };
  const left = async () =>
    (await Promise.all(weeks.map((week) => tablesOf(database, week)))).filter(
      (tables) => tables.length > 0,
    ).length;
  const first = await removeOldPartitions(address, retention);
  assert.equal(await left(), 23, 'two of twenty-five');
  assert.ok((first?.waiting.length ?? 0) >= 10);
  assert.deepEqual((await readRetentionState(db)).waiting, first?.waiting);
  assert.deepEqual((await removeOldPartitions(address, retention))?.removed, [], 'the same day');
  await moveClock(database, '25 hours');
  await removeOldPartitions(address, retention);
  assert.equal(await left(), 21, 'two of twenty-three on the next day');
  await confirmRemoval(db);
  const last = await removeOldPartitions(address, retention);
  assert.deepEqual(last?.waiting, []);
  assert.ok((await left()) <= 13, 'all that is due');
  assert.deepEqual((await readRetentionState(db)).waiting, []);
});

test('with few weeks stored, one a day is removed without a confirmation', async () => {
  await using database = await testDatabase();
  const sender = await newSender(database.db);
  for (const week of [15, 16]) {
    await makeWeek(database, week);
    await storeOld(database, sender, week);
  }
  const retention = { contentH: null, metadataH: 90 * 24 };
  await removeOldPartitions(database.address, retention);
  assert.deepEqual(await tablesOf(database, 16), []);
  assert.deepEqual(await tablesOf(database, 15), TABLES);
  await moveClock(database, '25 hours');
  await removeOldPartitions(database.address, retention);
  assert.deepEqual(await tablesOf(database, 15), []);
});

test('nothing is removed until the clock has been steady for a day after a jump', async () => {
  await using database = await testDatabase();
  const { db } = database;
  assert.equal(await beginRun(db), null, 'the first run');
  await moveClock(database, '23 hours');
  assert.equal(await beginRun(db), null, 'a service that was stopped over night');
  await moveClock(database, '365 days');
  assert.equal(Math.round(((await beginRun(db))?.movedS ?? 0) / 3600), 365 * 24);
  await moveClock(database, '10 minutes');
  assert.notEqual(await beginRun(db), null, 'ten minutes later');
  await moveClock(database, '-365 days');
  assert.equal(Math.round(((await beginRun(db))?.movedS ?? 0) / 3600), -365 * 24);
  await moveClock(database, '23 hours');
  assert.notEqual(await beginRun(db), null);
  await moveClock(database, '2 hours');
  assert.equal(await beginRun(db), null, 'steady for a day');
  await moveClock(database, '2 days');
  assert.notEqual(await beginRun(db), null);
  await confirmRemoval(db);
  assert.equal(await beginRun(db), null, 'confirmed');
});
