/**
 * The daily reconciliation on a database of its own: comparisons, changes that are not differences, and
 * interruptions.
 */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  acceptAll,
  newEmail,
  newSender,
  SETTLING,
  settlement,
} from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import type { EndedCondition, NewCondition } from '../core/operator-events.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { newId } from '../database/ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { removeOldPartitions } from '../retention/week-removal-store.ts';
import { claimDay } from './reconciliation-store.ts';
import { acknowledgeDay, listReconciledDays, readReconciliation } from './day-store.ts';
import { setRetention, trimProject } from '../retention/retention-store.ts';
import { confirmRemoval } from '../retention/clock-store.ts';
import { cancelEmail } from '../emails/schedule-store.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { foldStats } from '../stats/stats-store.ts';
import { reconcile, reportProject } from './reconcile.ts';

const ALL = { from: '2000-01-01', to: '9999-12-31', projectId: null };
const A_DAY_S = 26 * 3_600;

/** A project with its own worker, and the operator's notifications. */
async function start() {
  const database = await testDatabase();
  const { db } = database;
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
  const open = new Map<string, NewCondition>();
  const operatorEvents = {
    raise: (one: NewCondition) => void open.set(one.subject, one),
    clear: (one: EndedCondition) => void open.delete(one.subject),
  };
  const context = { db, operatorEvents, pauseBetweenSteps: () => Promise.resolve(true) };
  return {
    database,
    sender,
    open,
    context,
    settle: (email: NewEmail, position = 0) => settling.settle(settlement(email, { position })),
    accept: async (count: number, to?: string[]) => {
      const emails = Array.from({ length: count }, () => newEmail(sender, to && { to }));
      await acceptAll(accepting, emails);
      return emails;
    },
    check: () => reconcile(context, { walksQueue: true }),
    days: () => listReconciledDays(db, ALL, 100),
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
    },
  };
}

type Started = Awaited<ReturnType<typeof start>>;

const pass = ({ database }: Started, seconds: number) =>
  database.sql(`update clock set skew = skew + $1 * interval '1 second'`, [seconds]);

/** Changes the database as the owner, to simulate damage. */
const damage = ({ database }: Started, text: string, values: unknown[] = []) =>
  database.sql(text, values);

const kindsOf = async (started: Started): Promise<string[]> =>
  (await started.days()).flatMap(({ differences }) => differences.map(({ kind }) => kind));

test('a day is checked once it has been over for an hour, even with several steps of emails', async () => {
  await using started = await start();
  const { accept, settle, check, days } = started;
  const emails = await accept(300, ['jo@example.net', 'kim@example.net']);
  for (const email of emails.slice(0, 100)) await settle(email);
  await check();
  assert.deepEqual(await days(), [], 'the day is not over');
  await pass(started, A_DAY_S);
  await check();
  const found = await days();
  const sum = (of: 'emails' | 'recipients') => found.reduce((total, one) => total + one[of], 0);
  assert.deepEqual([sum('emails'), sum('recipients')], [300, 600]);
  assert.equal(
    found.reduce((total, one) => total + (one.statuses.delivered ?? 0), 0),
    100,
  );
  assert.equal(
    found.reduce((total, one) => total + (one.statuses.open ?? 0), 0),
    500,
  );
  assert.ok(found.every(({ differences, isWaiting }) => differences.length === 0 && isWaiting));
  const { finishedAt, differing, waiting } = await readReconciliation(started.database.db);
  assert.ok(finishedAt !== null);
  assert.deepEqual([differing, waiting], [0, 0]);
});

test('a day whose mail has ended is not counted again', async () => {
  await using started = await start();
  const { accept, settle, check, days, database } = started;
  const [email] = await accept(1);
  await settle(email!);
  await pass(started, A_DAY_S);
  await check();
  const [proven] = await days();
  assert.equal(proven?.isWaiting, false);
  await pass(started, A_DAY_S);
  await check();
  assert.deepEqual((await days())[0]?.checkedAt, proven?.checkedAt);
  assert.equal(await claimDay(database.db), null);
});

test('mail that is accepted, sent and canceled during the check is no difference', async () => {
  await using started = await start();
  const { accept, settle, database, sender, context, open, days } = started;
  const earlier = await accept(300, ['jo@example.net', 'kim@example.net']);
  await pass(started, A_DAY_S);
  let isChecking = true;
  const disturb = async (): Promise<void> => {
    for (const email of earlier) {
      if (!isChecking) return;
      const { projectId, environment, id } = email;
      await Promise.all([
        settle(email, 0),
        accept(2),
        cancelEmail(database.db, { projectId, environment, id, keyId: null, domain: null }),
        foldStats(database.db, 50),
      ]);
    }
  };
  const disturbing = disturb();
  for (let times = 0; times < 3; times += 1) {
    await damage(started, 'update reconciled_days set next_check_at = app_now()');
    await reconcile(context, { walksQueue: true });
  }
  isChecking = false;
  await disturbing;
  assert.deepEqual(await kindsOf(started), []);
  assert.equal(open.size, 0);
  assert.ok((await days()).every(({ projectId }) => projectId === sender.projectId));
});

test('each loss is found and named', async () => {
  await using started = await start();
  const { accept, settle, check, days, open, sender } = started;
  const emails = await accept(12, ['jo@example.net', 'kim@example.net']);
  for (const email of emails) await settle(email);
  const id = (index: number): string => emails[index]!.id;
  await pass(started, A_DAY_S);
  await check();
  assert.deepEqual(await kindsOf(started), []);
  await damage(started, 'delete from recipients where email_id = $1 and position = 0', [id(0)]);
  await damage(started, 'delete from queue where email_id = $1', [id(1)]);
  await damage(
    started,
    `insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
     select project_id, email_id, 0, environment, destination, provider, due_at + interval '9 days'
       from queue where email_id = $1`,
    [id(2)],
  );
  await damage(started, 'delete from events where subject_id = $1 and seq = 2', [id(3)]);
  await damage(started, 'delete from emails where id = $1', [id(4)]);
  await damage(
    started,
    `update recipients set status = 'bounced' where email_id = $1 and position = 0`,
    [id(5)],
  );
  await damage(started, 'update emails set open_count = 2 where id = $1', [id(6)]);
  await damage(started, 'delete from recipients where email_id = $1', [id(7)]);
  await damage(started, 'delete from events where subject_id = $1 and seq = 1', [id(8)]);
  await check();
  const [{ differences } = { differences: [] }] = await days();
  const named = Object.fromEntries(
    differences.map(({ kind, examples, counter }) => [counter ?? kind, examples]),
  );
  assert.deepEqual(named, {
    recipients: [],
    emails: [],
    delivered: [],
    email_missing: [id(4)],
    recipient_missing: [id(0), id(7)],
    not_queued: [id(1)],
    queued_after_end: [id(2)],
    open_count_differs: [id(6), id(7)],
    event_missing: [id(3), id(8)],
    status_unexplained: [id(3), id(5)],
  });
  const condition = open.get(sender.projectId);
  assert.match(
    condition?.message ?? '',
    /^Mail of project Shop is not accounted for\. \d{4}-\d\d-\d\d: 24 recipients were accepted, and 19 are stored\./,
  );
  assert.match(condition?.remedy ?? '', /letterhaus reconcile/);
});

test('a changed counter is found, and its difference ends when the counter is right again', async () => {
  await using started = await start();
  const { accept, settle, check, days, open, database } = started;
  const [email] = await accept(1);
  await settle(email!);
  while ((await foldStats(database.db, 1_000)) > 0);
  await pass(started, A_DAY_S);
  const count = (change: number) =>
    damage(started, `update stats set recipients = recipients + $1 where granularity = 'day'`, [
      change,
    ]);
  await count(1);
  await check();
  const [found] = await days();
  assert.partialDeepStrictEqual(found?.differences, [
    { kind: 'accepted_differs', counter: 'recipients', counted: 2, stored: 1 },
  ]);
  assert.equal(open.size, 1);
  await count(-1);
  await pass(started, A_DAY_S);
  await check();
  assert.deepEqual(await kindsOf(started), []);
  assert.equal(open.size, 0, 'the condition has ended');
});

test('outcomes are compared with their events on the day on which they happen', async () => {
  await using started = await start();
  const { accept, settle, check, open, database } = started;
  const [first, second] = await accept(2, ['jo@example.net', 'kim@example.net']);
  await settle(first!, 0);
  await pass(started, A_DAY_S);
  await check();
  await settle(first!, 1);
  await settle(second!, 0);
  while ((await foldStats(database.db, 1_000)) > 0);
  const { projectId, environment, id } = second!;
  await cancelEmail(database.db, { projectId, environment, id, keyId: null, domain: null });
  await pass(started, A_DAY_S);
  await check();
  assert.deepEqual(await kindsOf(started), []);
  const change = (by: number) =>
    damage(
      started,
      `update stats set delivered = delivered + $1 where granularity = 'day' and delivered > 0`,
      [by],
    );
  await change(1);
  await damage(started, 'update reconciled_days set next_check_at = app_now()');
  await check();
  const [condition] = [...open.values()];
  assert.match(
    condition?.message ?? '',
    /2 recipients were counted as delivered, and 1 have such an event/,
  );
  await change(-1);
  await damage(started, 'update reconciled_days set next_check_at = app_now()');
  await check();
  assert.deepEqual([...open.values()], []);
});

test('known differences can be acknowledged, and further ones are reported', async () => {
  await using started = await start();
  const { accept, settle, check, days, open, database, context, sender } = started;
  const emails = await accept(3);
  for (const email of emails) await settle(email);
  await pass(started, A_DAY_S);
  const lose = (index: number) =>
    damage(started, 'delete from events where subject_id = $1 and seq = 2', [emails[index]!.id]);
  await lose(0);
  await check();
  assert.equal(open.size, 1);
  const [{ day } = { day: '' }] = await days();
  const acknowledged = await acknowledgeDay(database.db, { day, projectId: null });
  assert.deepEqual(acknowledged, [sender.projectId]);
  await reportProject(context, sender.projectId);
  assert.equal(open.size, 0);
  await pass(started, A_DAY_S);
  await check();
  assert.equal(open.size, 0, 'the same difference is known');
  await lose(1);
  await pass(started, A_DAY_S);
  await check();
  assert.equal(open.size, 1);
});

test('mail that the retention removes, of one project or by whole weeks, is not a difference', async () => {
  await using started = await start();
  const { accept, settle, check, days, open, database, sender } = started;
  const { db, address } = database;
  const emails = await accept(3);
  for (const email of emails) await settle(email);
  await pass(started, A_DAY_S);
  await check();
  assert.equal((await days()).length > 0, true);
  const { projectId } = sender;
  // A longer retention afterwards does not bring mail back.
  await setRetention(db, { projectId, contentH: 24, metadataH: 24 });
  for await (const _ of trimProject(db, { projectId, contentH: 24, metadataH: 24 }));
  await setRetention(db, { projectId, contentH: null, metadataH: null });
  const [left] = await db.query<{ count: number }>('select count(*)::int from emails');
  assert.equal(left?.count, 0);
  await damage(started, 'update reconciled_days set next_check_at = app_now()');
  await check();
  assert.deepEqual(await kindsOf(started), []);
  assert.equal((await days())[0]?.emails, 3, 'what was counted before stays');

  await damage(started, 'update projects set mail_removed_before = null');
  await pass(started, 30 * 86_400);
  await confirmRemoval(db);
  const removal = await removeOldPartitions(address, { contentH: 48, metadataH: 48 });
  assert.ok((removal?.removed.length ?? 0) > 0);
  await damage(started, 'update reconciled_days set next_check_at = app_now()');
  await check();
  assert.deepEqual(await kindsOf(started), []);
  assert.equal(open.size, 0);
});

test('a stopped check leaves its day to the next run at once, a dead one after ten minutes', async () => {
  await using started = await start();
  const { accept, database, context, days, check } = started;
  await accept(300);
  await pass(started, A_DAY_S);
  await check();
  await damage(started, 'update reconciled_days set checked_at = null, next_check_at = app_now()');
  await reconcile({ ...context, pauseBetweenSteps: () => Promise.resolve(false) });
  assert.ok((await days()).every(({ checkedAt }) => checkedAt === null));
  assert.ok((await claimDay(database.db)) !== null, 'it was left at once');
  await check();
  assert.equal((await days())[0]?.checkedAt, null, 'the claim of what died lasts');
  await pass(started, 11 * 60);
  await check();
  assert.notEqual((await days())[0]?.checkedAt, null);
});
