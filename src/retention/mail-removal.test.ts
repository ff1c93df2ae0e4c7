/** One run of the retention with both kinds of removal, and with a clock that is a year ahead for a while. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { acceptAll, newEmail, newSender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { MailRemoval } from './mail-removal.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { clientQueries, connectAsOwner } from '../database/database.ts';
import { ensurePartitions, WEEK_MS } from '../database/partitions.ts';
import { confirmRemoval } from './clock-store.ts';
import { setRetention } from './retention-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db, address } = database;

const log = {
  entries: [] as object[],
  warnings: [] as string[],
  info: (facts: object) => log.entries.push(facts),
  warn: ({ remedy }: { remedy?: string }, text: string) => log.warnings.push(`${text} ${remedy}`),
};
const retention = { contentH: 45 * 24, metadataH: 90 * 24 };
const newTask = () => new MailRemoval(database, { retention, log: log as never, pauseMs: 0 });

/** Returns the partitions of a table that are older than the last week. */
async function oldWeeks(table: string): Promise<number> {
  const day = new Date(Date.now() - 2 * WEEK_MS).toISOString().slice(0, 10).replaceAll('-', '');
  const rows = await db.query(
    `select from pg_inherits join pg_class on pg_class.oid = pg_inherits.inhrelid
      where relname like $1 || '\\_2%' and relname < $1 || '_' || $2`,
    [table, day],
  );
  return rows.length;
}

test('one run removes weeks past every retention, and mail past the retention of its project', async () => {
  const owner = await connectAsOwner(address, 'test');
  for (const weeks of [9, 20]) {
    await ensurePartitions(clientQueries(owner), Date.now() - weeks * WEEK_MS);
  }
  await owner.end();
  const before = { contents: await oldWeeks('contents'), emails: await oldWeeks('emails') };
  assert.ok(before.emails > 10);

  const accepting = new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const sender = await newSender(db);
  await acceptAll(accepting, [newEmail(sender)]);
  await db.query('delete from queue');
  await db.query('update emails set open_count = 0');
  await setRetention(db, { projectId: sender.projectId, contentH: 24, metadataH: null });
  await db.query(`update clock set skew = interval '25 hours'`);

  await newTask().run(() => false);
  const contents = await oldWeeks('contents');
  const emails = await oldWeeks('emails');
  assert.ok(contents < emails && emails < before.emails, `${contents} ${emails}`);
  assert.equal((await db.query('select from contents')).length, 0);
  assert.equal((await db.query('select from emails')).length, 1);
  assert.deepEqual(log.entries.at(-1), { project_id: sender.projectId, contents: 1 });

  await newTask().run(() => false);
  assert.equal(log.entries.length, 2, 'nothing is left to remove');
});

test('a clock that is a year ahead for a while removes nothing, which is logged once for each jump', async () => {
  const sender = await newSender(db);
  const accepting = new AcceptStore(db.accepting, {
    limit: { max: 1_000, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  await acceptAll(accepting, [newEmail(sender)]);
  await db.query('delete from queue');
  await db.query('update emails set open_count = 0');
  const stored = async () => [
    (await db.query('select from emails')).length,
    (await db.query('select from contents')).length,
    (await db.query('select from events')).length,
  ];
  const before = await stored();
  const task = newTask();
  await db.query(`update clock set skew = skew + interval '365 days'`);
  for (let run = 0; run < 3; run += 1) await task.run(() => false);
  assert.deepEqual(await stored(), before);
  assert.equal(log.warnings.length, 1);
  assert.match(log.warnings[0]!, /moved by more than a day.*letterhaus retention confirm/);
  await db.query(`update clock set skew = skew - interval '365 days'`);
  for (let run = 0; run < 2; run += 1) await task.run(() => false);
  assert.deepEqual(await stored(), before);
  assert.equal(log.warnings.length, 2);

  await db.query(`update clock set skew = skew + interval '365 days'`);
  await task.run(() => false);
  assert.deepEqual(await stored(), before);
  await confirmRemoval(db);
  await task.run(() => false);
  assert.deepEqual((await stored()).slice(0, 2), [0, 0], 'the clock is right after all');
});
