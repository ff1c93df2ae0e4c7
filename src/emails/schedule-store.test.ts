/**
 * Cancels and new times while workers claim and settle the same email, over several connections. After each race the
 * email is compared with its recipients, events and queue rows.
 */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { newEmail, newSender, SETTLING, settlement } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { newId } from '../database/ids.ts';
import { expireWorker, registerWorker, releaseOrphans } from '../delivery/queue/worker-store.ts';
import type { Queryable } from '../database/database.ts';
import {
  changeQueueStep,
  QUEUE_START,
  WHOLE_QUEUE,
} from '../delivery/queue-control/change-store.ts';
import { claimOldest } from '../delivery/queue/claim-store.ts';
import { RECIPIENTS } from '../delivery/queue/queue-store.ts';
import { cancelEmail, cancelIfAhead, rescheduleEmail } from './schedule-store.ts';
import { SettleStore } from '../settle/settle-store.ts';
import { DAY_MS } from '../lib/units.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
beforeEach(() => db.query('delete from queue'));
const sender = await newSender(db);

const fromNow = (ms: number) => new Date(Math.floor(Date.now()) + ms);

async function accepted(
  changes: Partial<Omit<NewEmail, 'to'>> & { to?: readonly string[]; leaseId?: string } = {},
): Promise<NewEmail> {
  const { leaseId = null, ...fields } = changes;
  const store = new AcceptStore(db.accepting, {
    limit: { max: 1_000_000, windowS: 60 },
    leaseId: () => leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  const email = newEmail(sender, { mayHandOver: leaseId !== null, ...fields });
  assert.equal((await store.accept(email)).outcome, 'accepted');
  return email;
}

async function newLeaseId(): Promise<string> {
  const id = newId();
  await registerWorker(db, { id, instance: newId(), host: 'here', pid: 1 });
  return id;
}

const refOf = ({ id }: NewEmail) => ({ ...sender, id, keyId: null, domain: null });
const cancel = (email: NewEmail) => cancelEmail(db, refOf(email));
const move = (email: NewEmail, at: Date) => rescheduleEmail(db, refOf(email), at);

const claim = (leaseId: string) =>
  claimOldest(db.settling, {
    leaseId,
    max: 1_000,
    readMax: 1_001,
    from: new Date(0),
    fullProjects: [],
    fullQueues: [],
  });

/** The release of an email that was handed over when it was accepted. */
const released = ({ projectId, id }: NewEmail) => ({
  projectId,
  emailId: id,
  claim: 1,
  provider: 'x',
  delayMs: 0,
});

/** Checks the email's row against its recipients, events and queue rows. */
async function checked(email: NewEmail) {
  const [row] = await db.query<{
    open: number;
    is_open: number;
    queued: number;
    events: number;
    last_seq: number;
    event_count: number;
    worst: number;
    statuses: string[];
    is_complete: boolean;
    last_event: string;
  }>(
    `select emails.open_count::int as open, emails.event_count, emails.worst, emails.last_event,
            emails.completed_at is not null as is_complete,
            (select count(*)::int from recipients
              where recipients.email_id = emails.id and recipients.completed_at is null) as is_open,
            (select array_agg(recipients.status order by recipients.position) from recipients
              where recipients.email_id = emails.id) as statuses,
            (select count(*)::int from queue where queue.email_id = emails.id) as queued,
            (select count(*)::int from events where events.subject_id = emails.id) as events,
            (select max(events.seq) from events where events.subject_id = emails.id) as last_seq
       from emails where emails.id = $1`,
    [email.id],
  );
  assert.ok(row);
  assert.deepEqual([row.is_open, row.queued], [row.open, row.open]);
  assert.deepEqual([row.events, row.last_seq], [row.event_count, row.event_count]);
  assert.equal(row.is_complete, row.open === 0);
  return row;
}

test('a canceled email has ended, with one event that names its canceled recipients', async () => {
  const email = await accepted({ to: ['jo@example.net', 'flo@example.org'] });
  assert.deepEqual(await cancel(email), { canceled: 2, sending: 0, inDoubt: 0 });
  const row = await checked(email);
  assert.deepEqual(row.statuses, ['canceled', 'canceled']);
  assert.deepEqual([row.open, row.worst, row.last_event], [0, 3, 'email.canceled']);
  const [event] = await db.query<{ data: object; position: number | null }>(
    'select data, position from events where subject_id = $1 and seq = 2',
    [email.id],
  );
  assert.deepEqual(event, {
    data: {
      email_id: email.id,
      status: 'canceled',
      recipients: ['jo@example.net', 'flo@example.org'],
    },
    position: null,
  });
  assert.deepEqual(await cancel(email), { canceled: 0, sending: 0, inDoubt: 0 });
  await checked(email);
});

test('a cancel of what is ahead leaves an email whose time has come, also one that was deferred', async () => {
  const [ahead, due, deferred] = [await accepted(), await accepted(), await accepted()];
  for (const email of [ahead, due]) await move(email, fromNow(DAY_MS));
  assert.equal((await move(due, fromNow(-DAY_MS)))?.kind, 'moved');
  await db.query(`update recipients set status = 'deferred', attempts = 1 where email_id = $1`, [
    deferred.id,
  ]);
  assert.equal((await cancelIfAhead(db, refOf(ahead)))?.canceled, 1);
  for (const email of [due, deferred]) {
    assert.equal(await cancelIfAhead(db, refOf(email)), null);
    assert.equal((await checked(email)).open, 1);
  }
});

test('of two concurrent cancels one succeeds, with one event', async () => {
  for (let round = 0; round < 10; round += 1) {
    const email = await accepted({ to: ['jo@example.net', 'flo@example.org'] });
    const both = await Promise.all([cancel(email), cancel(email)]);
    assert.deepEqual(new Set(both.map((one) => one?.canceled)), new Set([0, 2]));
    assert.equal((await checked(email)).event_count, 2);
  }
});

test('while two workers claim, each recipient is either claimed or canceled', async () => {
  const workers = [await newLeaseId(), await newLeaseId()];
  const emails = await Promise.all(
    Array.from({ length: 60 }, () => accepted({ to: ['a@b.net', 'c@d.net'] })),
  );
  const [cancellations, ...claims] = await Promise.all([
    Promise.all(emails.map((email) => cancel(email))),
    ...[0, 1, 2, 3].map((index) => claim(workers[index % 2]!)),
  ]);
  const claimed = claims.flatMap((one) => one.claimed);
  for (const [index, email] of emails.entries()) {
    const own = claimed.filter(({ emailId }) => emailId === email.id).length;
    assert.equal((cancellations[index]?.canceled ?? 0) + own, 2);
    assert.equal((await checked(email)).open, own);
  }
});

test('a recipient that a worker has leased is not canceled; the others of the email are', async () => {
  const leaseId = await newLeaseId();
  const email = await accepted({ to: ['jo@example.net', 'flo@example.org'], leaseId });
  await RECIPIENTS.release(db.settling, [{ ...released(email), position: 1, leaseId }]);
  assert.deepEqual(await cancel(email), { canceled: 1, sending: 1, inDoubt: 0 });
  assert.deepEqual((await checked(email)).statuses, ['queued', 'canceled']);
  assert.deepEqual(await cancel(email), { canceled: 0, sending: 1, inDoubt: 0 });
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  assert.equal(await settling.settle(settlement(email)), 'counted');
  assert.deepEqual((await checked(email)).statuses, ['delivered', 'canceled']);
});

test('a deferral that is settled while a cancel waits for the email is canceled', async () => {
  const leaseId = await newLeaseId();
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  const deferred = {
    status: 'deferred',
    eventType: 'email.delivery_delayed',
    retryMs: 60_000,
  } as const;
  for (let round = 0; round < 10; round += 1) {
    const email = await accepted({ leaseId });
    const [settled, canceled] = await Promise.all([
      settling.settle(settlement(email, deferred)),
      cancel(email),
    ]);
    assert.equal(settled, 'counted');
    const { open, statuses } = await checked(email);
    const expected = canceled?.canceled === 1 ? [0, 'canceled'] : [1, 'deferred'];
    assert.deepEqual([open, statuses[0]], expected);
    if (open === 1) assert.equal((await cancel(email))?.canceled, 1);
  }
});

test('a recipient that a dead worker may have delivered is not canceled', async () => {
  const dead = await newLeaseId();
  const [expired, orphaned, retried] = [
    await accepted({ leaseId: dead }),
    await accepted({ leaseId: newId() }),
    await accepted({ leaseId: newId(), to: ['jo@retried.test'] }),
  ];
  const selector = { ...WHOLE_QUEUE, domain: 'retried.test' };
  await changeQueueStep(db, 'retry', { selector, from: QUEUE_START });
  await expireWorker(db, { id: dead, beat: null });
  await releaseOrphans(db);
  for (const email of [expired, orphaned, retried]) {
    assert.deepEqual(await cancel(email), { canceled: 0, sending: 0, inDoubt: 1 });
    assert.equal((await move(email, fromNow(DAY_MS)))?.kind, 'left');
    await checked(email);
  }
  const { claimed } = await claim(await newLeaseId());
  assert.equal(claimed.length, 3, 'it is tried again');
});

test('a recipient released without an attempt can be canceled', async () => {
  const leaseId = await newLeaseId();
  const email = await accepted({ leaseId });
  await RECIPIENTS.release(db.settling, [{ ...released(email), position: 0, leaseId }]);
  assert.equal((await cancel(email))?.canceled, 1);
});

test('a cancel that is killed before its commit changes nothing', async () => {
  const email = await accepted();
  const dying = {
    transaction: <Result>(work: (tx: Queryable) => Promise<Result>) =>
      db.transaction((tx) => {
        let statements = 0;
        const query: Queryable['query'] = async (...given) => {
          const rows = await tx.query(...given);
          statements += 1;
          if (statements === 2) await tx.query('select pg_terminate_backend(pg_backend_pid())');
          return rows as never;
        };
        return work({ query });
      }),
  };
  await assert.rejects(cancelEmail(dying, refOf(email)));
  assert.deepEqual((await checked(email)).statuses, ['queued']);
  assert.equal((await cancel(email))?.canceled, 1);
});

test('an email can be changed only by keys that may read it', async () => {
  const email = await accepted();
  const ref = refOf(email);
  for (const other of [
    { ...ref, keyId: newId() },
    { ...ref, domain: 'other.com' },
    { ...ref, environment: 'test' as const },
    { ...ref, projectId: newId() },
    { ...ref, id: newId() },
  ]) {
    assert.equal(await cancelEmail(db, other), null);
    assert.equal(await rescheduleEmail(db, other, fromNow(DAY_MS)), null);
  }
  assert.deepEqual((await checked(email)).statuses, ['queued']);
  const own = { ...ref, keyId: sender.keyId, domain: 'acme.com' };
  assert.equal((await cancelEmail(db, own))?.canceled, 1);
});

async function timesOf(email: NewEmail) {
  const [row] = await db.query<{ scheduled: Date; lifetimeS: number; due: Date; next: Date }>(
    `select emails.scheduled_at as scheduled, queue.due_at as due, recipients.next_attempt_at as next,
            extract(epoch from emails.expires_at - emails.scheduled_at)::int as "lifetimeS"
       from emails join queue on queue.email_id = emails.id join recipients on recipients.email_id = emails.id
      where emails.id = $1`,
    [email.id],
  );
  return row;
}

test('rescheduling moves the due time and the expiry', async () => {
  const email = await accepted({ scheduledAt: fromNow(DAY_MS) });
  for (const at of [fromNow(3 * DAY_MS), fromNow(DAY_MS / 2)]) {
    assert.equal((await move(email, at))?.kind, 'moved');
    const expected = { scheduled: at, due: at, next: at, lifetimeS: email.lifetimeS };
    assert.deepEqual(await timesOf(email), expected);
    assert.equal((await checked(email)).last_event, 'email.scheduled');
    assert.equal((await move(email, at))?.kind, 'same');
  }
  assert.equal((await checked(email)).event_count, 3);
  assert.equal((await claim(await newLeaseId())).claimed.length, 0);
  assert.equal((await move(email, fromNow(-DAY_MS)))?.kind, 'moved');
  const row = await checked(email);
  assert.deepEqual([row.statuses, row.last_event], [['queued'], 'email.queued']);
  assert.equal((await claim(await newLeaseId())).claimed.length, 1);
});

test('an email that waits in the queue can be scheduled', async () => {
  const email = await accepted();
  const at = fromNow(DAY_MS);
  assert.equal((await move(email, at))?.kind, 'moved');
  assert.deepEqual((await checked(email)).statuses, ['scheduled']);
  assert.deepEqual((await timesOf(email))?.due, at);
});

test('a time more than 30 days ahead is refused', async () => {
  const email = await accepted({ scheduledAt: fromNow(DAY_MS) });
  assert.equal((await move(email, fromNow(30 * DAY_MS + 60_000)))?.kind, 'too_far');
  assert.equal((await checked(email)).event_count, 1);
});

test('while a worker claims, an email is rescheduled as a whole or stays unchanged', async () => {
  const leaseId = await newLeaseId();
  const emails = await Promise.all(
    Array.from({ length: 40 }, () => accepted({ to: ['a@b.net', 'c@d.net', 'e@f.net'] })),
  );
  const [moves, ...claims] = await Promise.all([
    Promise.all(emails.map((email) => move(email, fromNow(DAY_MS)))),
    claim(leaseId),
    claim(leaseId),
  ]);
  const claimed = new Set(claims.flatMap((one) => one.claimed).map(({ emailId }) => emailId));
  for (const [index, email] of emails.entries()) {
    const { statuses } = await checked(email);
    const isMoved = moves[index]?.kind === 'moved';
    assert.deepEqual(new Set(statuses), new Set([isMoved ? 'scheduled' : 'queued']));
    assert.ok(!isMoved || !claimed.has(email.id));
  }
});

test('an email with an attempt cannot be rescheduled', async () => {
  const leaseId = await newLeaseId();
  const settling = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId });
  const email = await accepted({ to: ['a@b.net', 'c@d.net'], leaseId });
  assert.deepEqual(await move(email, fromNow(DAY_MS)), { kind: 'left', sending: 2, inDoubt: 0 });
  const retry = { status: 'deferred', eventType: 'email.delivery_delayed', retryMs: 1 } as const;
  await settling.settle(settlement(email, retry));
  await RECIPIENTS.release(db.settling, [{ ...released(email), position: 1, leaseId }]);
  assert.deepEqual(await move(email, fromNow(DAY_MS)), { kind: 'left', sending: 0, inDoubt: 0 });
  assert.equal((await cancel(email))?.canceled, 2);
  assert.equal((await move(email, fromNow(DAY_MS)))?.kind, 'left');
});
