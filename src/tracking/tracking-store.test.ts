/** Opens and clicks in a real database. visits.test.ts has what waits in memory before. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  acceptAll,
  newEmail,
  newSender,
  SETTLING,
  settlement,
} from '../../test/support/mail-store.ts';
import { type TestDatabase, testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import { listTimeline } from '../emails/email-store.ts';
import { newId } from '../database/ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { recordVisits, type TrackedVisit, VISITS_STORED_MAX } from './tracking-store.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';

/** Creates an email to two recipients. The first got it a minute ago. */
async function newMail({ db }: TestDatabase) {
  const sender = await newSender(db);
  const leaseId = newId();
  await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
  const accepting = new AcceptStore(db.accepting, {
    limit: { max: 1_000_000, windowS: 60 },
    leaseId: () => leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const email = newEmail(sender, { to: ['jo@example.net', 'kim@example.net'] });
  await acceptAll(accepting, [email]);
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  await settling.settle(settlement(email));
  await db.query(`update clock set skew = skew + interval '1 minute'`);
  const { projectId, environment } = sender;
  const visit = (change: Partial<TrackedVisit> = {}): TrackedVisit => ({
    projectId,
    environment,
    emailId: email.id,
    position: 0,
    eventId: newId(),
    type: 'email.clicked',
    agoMs: 0,
    botReason: null,
    facts: { link: 'https://a.test/', ip: '203.0.113.0', user_agent: 'x' },
    ...change,
  });
  const ref = { projectId, environment, id: email.id, keyId: null, domain: null };
  const timeline = () => listTimeline(db, ref, { after: 0, limit: 1_000 });
  return { sender, email, visit, timeline };
}

test('an open and a click are events of their recipient, and webhooks are queued', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { sender, email, visit, timeline } = await newMail(database);
  const url = 'https://hooks.test/';
  await createEndpoint(db, sender, { id: newId(), url, events: null, secret: Buffer.from('x') });
  const open = visit({ type: 'email.opened', facts: { ip: '203.0.113.0', user_agent: null } });
  assert.deepEqual(await recordVisits(db, [open, visit()]), { stored: 2, queuedWebhooks: 2 });
  const events = await timeline();
  assert.deepEqual(
    events.map(({ number, type }) => `${number} ${type}`),
    ['1 email.queued', '2 email.delivered', '3 email.opened', '4 email.clicked'],
  );
  const [, , opened, clicked] = events;
  assert.equal(opened!.recipient, 'jo@example.net');
  assert.deepEqual(opened!.data, {
    ...email.eventData,
    recipient: 'jo@example.net',
    status: 'delivered',
    open: { ip: '203.0.113.0', user_agent: null, is_bot: false, bot_reason: null },
  });
  assert.deepEqual(clicked!.data['click'], {
    link: 'https://a.test/',
    ip: '203.0.113.0',
    user_agent: 'x',
    is_bot: false,
    bot_reason: null,
  });
});

test('a visit before or right after the delivery counts as a machine', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { visit, timeline } = await newMail(database);
  await recordVisits(db, [
    visit({ agoMs: 50_000 }),
    visit({ agoMs: 59_500 }),
    visit({ agoMs: 70_000 }),
    visit({ position: 1 }),
    visit({ agoMs: 50_000, botReason: 'head' }),
  ]);
  const clicks = (await timeline()).slice(2);
  assert.deepEqual(
    clicks.map(({ data }) => (data['click'] as { bot_reason: string }).bot_reason),
    [null, 'too_soon', 'before_delivery', 'before_delivery', 'head'],
  );
  const agoMs = Number(clicks[0]!.createdAt) - Number(clicks[2]!.createdAt);
  assert.equal(agoMs, 20_000);
});

test('the events of a recipient are limited, also when batches are stored at once', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { visit, timeline } = await newMail(database);
  const type = 'email.opened';
  const opens = () => Array.from({ length: 15 }, () => visit({ type }));
  const results = await Promise.all([1, 2, 3, 4].map(() => recordVisits(db, opens())));
  const max = VISITS_STORED_MAX[type];
  assert.equal(
    results.reduce((sum, { stored }) => sum + stored, 0),
    max,
  );
  await recordVisits(db, [visit(), visit({ type, position: 1 }), visit({ type })]);
  const events = await timeline();
  assert.deepEqual(
    events.map(({ number }) => number),
    Array.from({ length: 2 + max + 2 }, (_, index) => index + 1),
  );
  const [row] = await db.query<{ opens: number; clicks: number; count: number }>(
    `select recipients.opens, recipients.clicks, emails.event_count as count
       from recipients join emails on emails.id = recipients.email_id where recipients.position = 0`,
  );
  assert.deepEqual(row, { opens: max, clicks: 1, count: max + 4 });
});

test('nothing is stored for a missing email, or for one of another project', async () => {
  await using database = await testDatabase();
  const { db } = database;
  const { visit, timeline } = await newMail(database);
  const other = await newSender(db);
  const result = await recordVisits(db, [
    visit({ emailId: newId() }),
    visit({ projectId: other.projectId }),
    visit({ environment: 'test' }),
    visit({ position: 7 }),
  ]);
  assert.deepEqual(result, { stored: 0, queuedWebhooks: 0 });
  assert.equal((await timeline()).length, 2);
});
