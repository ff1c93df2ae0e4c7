/**
 * Removal of single emails in a real database, for projects with a retention of their own. week-removal-store.test.ts
 * removes whole weeks.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  SETTLING,
  acceptAll,
  newEmail,
  newSender,
  type Sender,
  settlement,
} from '../../test/support/mail-store.ts';
import { type TestDatabase, testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { recordEvent } from '../events/event-store.ts';
import { newId } from '../database/ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { listProjectsToTrim, setRetention, trimLogs, trimProject } from './retention-store.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';
import { SettleStore } from '../settle/settle-store.ts';

const INSTALLATION = { contentH: 45 * 24, metadataH: 90 * 24 };
const TABLES = ['emails', 'contents', 'recipients', 'events'];

/** Creates a project with `count` emails, all delivered but the last. */
async function newMail({ db }: TestDatabase, count: number) {
  const sender = await newSender(db);
  const leaseId = newId();
  await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
  const accepting = new AcceptStore(db.accepting, {
    limit: { max: 1_000_000, windowS: 60 },
    leaseId: () => leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  const emails = Array.from({ length: count }, () => newEmail(sender));
  await acceptAll(accepting, emails);
  const settle = (index: number) => settling.settle(settlement(emails[index]!));
  await Promise.all(emails.slice(0, -1).map((_, index) => settle(index)));
  return { sender, settleLast: () => settle(count - 1) };
}

const setOwn = ({ db }: TestDatabase, sender: Sender, hours: [number | null, number | null]) =>
  setRetention(db, { projectId: sender.projectId, contentH: hours[0], metadataH: hours[1] });

const passDays = ({ db }: TestDatabase, days: number) =>
  db.query(`update clock set skew = skew + $1::float8 * interval '1 day'`, [days]);

async function rowsOf({ db }: TestDatabase, { projectId }: Sender): Promise<number[]> {
  const counts = TABLES.map((table) =>
    db.query<{ count: number }>(`select count(*)::int from ${table} where project_id = $1`, [
      projectId,
    ]),
  );
  return (await Promise.all(counts)).map(([row]) => row?.count ?? -1);
}

/** @returns the number of removed rows by kind */
async function trimAll({ db }: TestDatabase): Promise<Record<string, number>> {
  const removed: Record<string, number> = {};
  for (const project of await listProjectsToTrim(db, INSTALLATION)) {
    for await (const batch of trimProject(db, project)) {
      removed[batch.table] = (removed[batch.table] ?? 0) + batch.removed;
    }
  }
  return removed;
}

test('mail of a project with a shorter retention is removed, and other mail is kept', async () => {
  await using database = await testDatabase();
  const { sender, settleLast } = await newMail(database, 3);
  const neighbour = (await newMail(database, 3)).sender;
  await settleLast();
  await setOwn(database, sender, [24, 48]);
  await trimAll(database);
  assert.deepEqual(await rowsOf(database, sender), [3, 3, 3, 6]);
  await passDays(database, 1.1);
  assert.deepEqual(await trimAll(database), { contents: 3 });
  assert.deepEqual(await rowsOf(database, sender), [3, 0, 3, 6]);
  await passDays(database, 1);
  assert.equal((await trimAll(database)).emails, 3);
  assert.deepEqual(await rowsOf(database, sender), [0, 0, 0, 0]);
  assert.deepEqual(await rowsOf(database, neighbour), [3, 3, 3, 5]);
});

test('mail that has not ended is kept with all its rows', async () => {
  await using database = await testDatabase();
  const { sender, settleLast } = await newMail(database, 3);
  await setOwn(database, sender, [24, 24]);
  await passDays(database, 3);
  await trimAll(database);
  assert.deepEqual(await rowsOf(database, sender), [1, 1, 1, 1]);
  assert.equal(await settleLast(), 'counted');
  await trimAll(database);
  assert.deepEqual(await rowsOf(database, sender), [0, 0, 0, 0]);
});

test('mail with a pending webhook is kept, and its deliveries are removed after it', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { sender, settleLast } = await newMail(database, 2);
  await settleLast();
  await db.query(
    `insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                     type, created_at)
     select project_id, environment, gen_random_uuid(), id, subject_id, seq, type, created_at
       from events where seq = 2`,
  );
  const unsentWebhook = `insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
     select project_id, endpoint_id, event_id, now() from webhook_deliveries limit 1`;
  await db.query(unsentWebhook);
  await setOwn(database, sender, [24, 24]);
  await passDays(database, 3);
  await trimAll(database);
  // Webhooks do not need the content.
  assert.deepEqual(await rowsOf(database, sender), [1, 0, 1, 2]);
  assert.equal((await db.query('select from webhook_deliveries')).length, 1);
  await db.query('delete from webhook_queue');
  await trimAll(database);
  assert.deepEqual(await rowsOf(database, sender), [0, 0, 0, 0]);
  assert.equal((await db.query('select from webhook_deliveries')).length, 0);
});

test('events that are not about an email are removed with the metadata', async () => {
  await using database = await testDatabase();
  const { sender } = await newMail(database, 1);
  await recordEvent(database.db, { scope: sender, type: 'domain.created', data: {} });
  await setOwn(database, sender, [24, 24]);
  await passDays(database, 3);
  assert.deepEqual(await trimAll(database), { contents: 0, emails: 0, events: 1 });
  assert.deepEqual(await rowsOf(database, sender), [1, 1, 1, 1]);
});

test('mail is removed in batches, by several machines at once, each row once', async () => {
  await using database = await testDatabase();
  const { sender, settleLast } = await newMail(database, 1_200);
  await settleLast();
  await setOwn(database, sender, [24, 24]);
  await passDays(database, 3);
  const [project] = await listProjectsToTrim(database.db, INSTALLATION);
  for await (const { removed } of trimProject(database.db, project!)) {
    assert.equal(removed, 500);
    break;
  }
  const both = await Promise.all([1, 2].map(() => trimAll(database)));
  assert.equal(
    both.reduce((sum, removed) => sum + (removed.contents ?? 0), 0),
    700,
  );
  await trimAll(database);
  assert.deepEqual(await rowsOf(database, sender), [0, 0, 0, 0]);
});

test('a short retention of the installation is applied in batches', async () => {
  await using database = await testDatabase();
  const { sender } = await newMail(database, 1);
  const trimmed = (contentH: number | null, metadataH: number | null) =>
    listProjectsToTrim(database.db, { contentH, metadataH });
  assert.deepEqual(await trimmed(45 * 24, null), []);
  assert.deepEqual(await trimmed(48, null), [
    { projectId: sender.projectId, contentH: 48, metadataH: null },
  ]);
});

test('the log of a webhook keeps its newest deliveries and all pending ones', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const sender = await newSender(db);
  const logs = Array.from({ length: 12 }, newId);
  for (const id of logs) {
    const secret = Buffer.from('x');
    await createEndpoint(db, sender, { id, url: 'https://x.test', events: null, secret });
  }
  for (let event = 0; event < 5; event += 1) {
    await recordEvent(db, { scope: sender, type: 'domain.created', data: {} });
  }
  const [oldest, ...newer] = (
    await db.query<{ id: string }>('select id from events where type = $1 order by id', [
      'domain.created',
    ])
  ).map(({ id }) => id);
  await db.query('delete from webhook_queue where event_id <> $1 or endpoint_id <> $2', [
    oldest,
    logs[11],
  ]);
  let removed = 0;
  for await (const batch of trimLogs(db, 2)) removed += batch.removed;
  assert.equal(removed, 12 * 3 - 1);
  const kept = async (endpointId: string | undefined) =>
    (
      await db.query<{ id: string }>(
        'select event_id as id from webhook_deliveries where endpoint_id = $1 order by event_id',
        [endpointId],
      )
    ).map(({ id }) => id);
  assert.deepEqual(await kept(logs[0]), newer.slice(-2));
  assert.deepEqual(await kept(logs[11]), [oldest, ...newer.slice(-2)]);
});
