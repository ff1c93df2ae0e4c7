/**
 * Counts that accepting and settling write, in a real database. stats-generated.test.ts compares them with the stored
 * mail after generated actions.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import {
  acceptAll,
  newEmail,
  newSender,
  type Sender,
  SETTLING,
  settlement,
} from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { counted } from '../../test/support/stats.ts';
import { EVENT_OF_STATUS } from '../core/events.ts';
import {
  LATENCY_BOUNDS_S,
  NO_COUNTS,
  STATS_VALUES_MAX,
  type StatsDimension,
  type StatsGranularity,
  TAG_VALUES_MAX,
} from './counts.ts';
import type { StoredStatus } from '../core/statuses.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { storeEmails } from '../accept/store/full-path.ts';
import { newId } from '../database/ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { deleteExpired } from '../retention/retention-store.ts';
import { storeFull } from '../settle/settle-full-path.ts';
import { SettleStore } from '../settle/settle-store.ts';
import type { Settlement } from '../settle/settlement.ts';
import { foldStats, readStats, type StatsRow } from './stats-store.ts';
import { recordVisits, type TrackedVisit } from '../tracking/tracking-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const LIMIT = { max: 1_000_000, windowS: 60 };
const ALWAYS = { from: new Date(0), to: new Date('2200-01-01') };
const leaseId = newId();
await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });

const accepting = new AcceptStore(db.accepting, {
  limit: LIMIT,
  leaseId: () => leaseId,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });

const read = (
  sender: Sender,
  {
    by = null,
    granularity = 'day',
    domain = null,
  }: {
    by?: StatsDimension | null;
    granularity?: StatsGranularity;
    domain?: string | null;
  } = {},
) => readStats(db, sender, { ...ALWAYS, granularity, by, domain });

async function only(sender: Sender): Promise<StatsRow> {
  const rows = await read(sender);
  assert.equal(rows?.length, 1);
  return rows[0]!;
}

const to = (status: StoredStatus, changes: Partial<Settlement> = {}): Partial<Settlement> => ({
  status,
  eventType: EVENT_OF_STATUS[status],
  ...changes,
});

test('an email and its outcome are counted at once, and not again by folding', async () => {
  const sender = await newSender(db);
  const email = newEmail(sender, { to: ['jo@example.net', 'kim@example.net'] });
  await acceptAll(accepting, [email]);
  await settling.settle(settlement(email));
  await settling.settle(settlement(email, to('bounced', { position: 1 })));
  const expected = { emails: 1, recipients: 2, delivered: 1, bounced: 1 };
  assert.deepEqual(counted(await only(sender)), expected);
  while ((await foldStats(db, 2)) > 0);
  assert.deepEqual(counted(await only(sender)), expected);
  const [deltas] = await db.query('select from stats_deltas');
  assert.equal(deltas, undefined);
});

test('without new deltas folding costs one look-up', async () => {
  while ((await foldStats(db, 10_000)) > 0);
  const statements: string[] = [];
  const counting: Parameters<typeof foldStats>[0] = {
    transaction: (work) =>
      db.transaction((tx) =>
        work({
          query: (statement, values) => {
            statements.push(typeof statement === 'string' ? statement : statement.text);
            return tx.query(statement, values);
          },
        }),
      ),
  };
  assert.equal(await foldStats(counting, 10_000), 0);
  assert.equal(statements.length, 1);
});

test('rolled-back changes do not count, and neither do outcomes of recipients that another worker has leased', async () => {
  const sender = await newSender(db);
  const [kept, lost] = [newEmail(sender), newEmail(sender)];
  await acceptAll(accepting, [kept]);
  const options = { limit: LIMIT, leaseId, onWebhooksQueued: () => {} };
  const died = new Error('the process dies here');
  const dying = db.transaction(async (tx) => {
    await storeEmails(tx, [lost], options);
    await storeFull(tx, [settlement(kept)], { leaseId, extent: 'all' });
    throw died;
  });
  await assert.rejects(dying, died);
  assert.equal(await settling.settle(settlement(kept, { claim: 7 })), 'fenced');
  assert.deepEqual(counted(await only(sender)), { emails: 1, recipients: 1 });
});

test('the time to delivery is counted from the time for which an email was scheduled', async () => {
  const sender = await newSender(db);
  const soon = new Date(Date.now() + 3600_000);
  const [first, second] = [newEmail(sender), newEmail(sender, { scheduledAt: soon })];
  await acceptAll(accepting, [first, second]);
  await db.query(`update clock set skew = skew + interval '1 hour 20 seconds'`);
  for (const email of [first, second]) await settling.settle(settlement(email));
  const rows = (await read(sender, { granularity: 'hour' }))!;
  const latencies = rows.reduce(
    (sum, row) => sum.map((count, at) => count + row.latencies[at]!),
    [...NO_COUNTS.latencies],
  );
  const atMostS = latencies.flatMap((count, at) => (count > 0 ? [LATENCY_BOUNDS_S[at]] : []));
  assert.deepEqual(atMostS, [30, 14_400]);
});

test('opens and clicks of people are counted once for a recipient', async () => {
  const sender = await newSender(db);
  const email = newEmail(sender, { to: ['jo@example.net', 'kim@example.net'] });
  await acceptAll(accepting, [email]);
  for (const position of [0, 1]) await settling.settle(settlement(email, { position }));
  await db.query(`update clock set skew = skew + interval '10 seconds'`);
  const { projectId, environment } = sender;
  const visit = (type: TrackedVisit['type'], position: number, botReason: string | null) => ({
    projectId,
    environment,
    emailId: email.id,
    position,
    type,
    botReason,
    eventId: newId(),
    agoMs: 0,
    facts: {},
  });
  await recordVisits(db, [visit('email.opened', 0, 'scanner'), visit('email.opened', 0, null)]);
  await recordVisits(db, [visit('email.opened', 0, null), visit('email.clicked', 1, null)]);
  await recordVisits(db, [visit('email.opened', 1, 'scanner'), visit('email.clicked', 1, null)]);
  const { opened, clicked } = await only(sender);
  assert.deepEqual({ opened, clicked }, { opened: 1, clicked: 1 });
});

test('generated tags and domains beyond the limit are counted together', async () => {
  const sender = await newSender(db);
  const tagged = (tags: NewEmail['tags']) => newEmail(sender, { tags });
  const value = (index: number) => String(index).padStart(4, '0');
  const orders = Array.from({ length: TAG_VALUES_MAX + 9 }, (_, index) =>
    tagged([{ name: 'order', value: value(index) }]),
  );
  await acceptAll(accepting, orders);
  await foldStats(db, 10_000);
  const kinds = Array.from({ length: STATS_VALUES_MAX.tag + 5 }, (_, index) =>
    tagged([{ name: `kind${value(index)}`, value: 'x' }]),
  );
  await acceptAll(accepting, [...orders.slice(0, 1).map(anew), ...kinds]);
  await foldStats(db, 10_000);
  const rows = (await read(sender, { by: 'tag' }))!;
  const emails = (tag: string) => rows.find((row) => row.value === tag)?.emails;
  assert.equal(rows.length, STATS_VALUES_MAX.tag + 2);
  assert.equal(emails('order:0000'), 2);
  assert.equal(emails('order:*'), 9);
  assert.equal(emails('kind0000:x'), 1);
  assert.equal(emails('*'), TAG_VALUES_MAX + 5);
  const all = rows.reduce((sum, row) => sum + row.emails, 0);
  assert.equal(all, orders.length + 1 + kinds.length);
});

function anew(email: NewEmail): NewEmail {
  return { ...email, id: newId(), eventId: newId() };
}

test('hours are kept for a month, days for more than a year', async () => {
  const sender = await newSender(db);
  await acceptAll(accepting, [newEmail(sender)]);
  await foldStats(db, 10_000);
  const left = async () => [
    (await read(sender, { granularity: 'hour' }))!.length,
    (await read(sender, { granularity: 'day' }))!.length,
  ];
  const later = async (days: number) => {
    await db.query(`update clock set skew = skew + $1 * interval '1 day'`, [days]);
    await deleteExpired(db);
  };
  await later(30);
  assert.deepEqual(await left(), [1, 1]);
  await later(2);
  assert.deepEqual(await left(), [0, 1]);
  await later(366);
  assert.deepEqual(await left(), [0, 1]);
  await later(4);
  assert.deepEqual(await left(), [0, 0]);
});
