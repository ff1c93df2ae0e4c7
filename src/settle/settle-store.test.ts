/**
 * Settling on a real database: each outcome counts once, whatever workers race. settle-fast-path.test.ts shows that
 * both paths store the same, outcome-batches.test.ts and unsettled.test.ts what happens to refused outcomes.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { FINAL_STATUSES, STATUS_RANK, TRANSITIONS } from '../core/statuses.ts';
import { SETTLING, newEmail, newSender, settlement } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { waitFor } from '../../test/support/wait.ts';
import { AcceptStore } from '../accept/store/accept-store.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { APP_ROLE, Database } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import { expireWorker, registerWorker, releaseOrphans } from '../delivery/queue/worker-store.ts';
import { claimOldest } from '../delivery/queue/claim-store.ts';
import { SettleStore } from './settle-store.ts';
import type { Settlement } from './settlement.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

type Worker = { leaseId: string; accept: AcceptStore; settle: SettleStore };

function newWorker(own: Pick<Database, 'accepting' | 'settling'> = db): Worker {
  const leaseId = newId();
  return {
    leaseId,
    accept: new AcceptStore(own.accepting, {
      limit: { max: 1_000_000, windowS: 60 },
      leaseId: () => leaseId,
      onWebhooksQueued: () => {},
      onUnknown: () => {},
    }),
    settle: new SettleStore(own.settling, { ...SETTLING, leaseId: () => leaseId }),
  };
}

async function accepted(worker: Worker, to?: readonly string[]): Promise<NewEmail> {
  const sender = await newSender(db);
  const email = newEmail(sender, to ? { to } : {});
  assert.equal((await worker.accept.accept(email)).outcome, 'accepted');
  return email;
}

async function emailRow(id: string) {
  const [row] = await db.query<{ open_count: number; worst: number; event_count: number }>(
    'select open_count, worst, event_count from emails where id = $1',
    [id],
  );
  return row;
}

test('a delivered recipient leaves the queue, and its event and status commit together', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  assert.equal(await worker.settle.settle(settlement(email)), 'counted');
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst: 1, event_count: 2 });
  const [recipient] = await db.query(
    'select status, attempts, completed_at is not null as completed from recipients where email_id = $1',
    [email.id],
  );
  assert.deepEqual(recipient, { status: 'delivered', attempts: 1, completed: true });
  assert.deepEqual(await db.query('select * from queue where email_id = $1', [email.id]), []);
});

test('an outcome that is settled twice counts once', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  const outcomes = [
    worker.settle.settle(settlement(email)),
    worker.settle.settle(settlement(email)),
  ];
  assert.deepEqual((await Promise.all(outcomes)).toSorted(), ['counted', 'fenced']);
  assert.equal((await emailRow(email.id))?.event_count, 2);
});

test('a counter of an email never goes below zero: the outcome is kept until it can be counted', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  const setOpen = (count: number) =>
    db.query('update emails set open_count = $2 where id = $1', [email.id, count]);
  await setOpen(0);
  assert.equal(await worker.settle.settle(settlement(email)), 'kept');
  assert.equal((await emailRow(email.id))?.open_count, 0);
  await setOpen(1);
  await waitFor(async () => worker.settle.keptCount === 0, { what: 'the outcome to be stored' });
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst: 1, event_count: 2 });
  await worker.settle.stop(0);
});

test('an outcome of a leased recipient that cannot be stored is kept, not treated as fenced off', async () => {
  const worker = newWorker();
  const emails = await Promise.all([0, 1, 2, 3].map(() => accepted(worker)));
  const broken = emails[1]!;
  const setStatus = (status: string) =>
    db.query('update recipients set status = $2 where email_id = $1', [broken.id, status]);
  // A final status, which no outcome may change.
  await setStatus('failed');
  const results = await Promise.all(emails.map((email) => worker.settle.settle(settlement(email))));
  assert.deepEqual(results, ['counted', 'kept', 'counted', 'counted']);
  assert.deepEqual(await emailRow(broken.id), { open_count: 1, worst: 0, event_count: 1 });
  const [row] = await db.query('select holder as "leaseId" from queue where email_id = $1', [
    broken.id,
  ]);
  assert.deepEqual(row, { leaseId: worker.leaseId }, 'no other worker sends it again');
  await setStatus('queued');
  await waitFor(() => worker.settle.keptCount === 0, { what: 'the outcome to be stored' });
  assert.deepEqual(await emailRow(broken.id), { open_count: 0, worst: 1, event_count: 2 });
});

test('outcomes on the fast path are stored although another of their batch is refused', async () => {
  const worker = newWorker();
  const sender = await newSender(db);
  const emails = Array.from({ length: 40 }, () => newEmail(sender));
  await Promise.all(emails.map((email) => worker.accept.accept(email)));
  const [bounced, ...delivered] = emails;
  await db.query(`update recipients set status = 'failed' where email_id = $1`, [bounced!.id]);
  const bounce = { status: 'bounced', eventType: 'email.bounced' } as const;
  const results = await Promise.all([
    worker.settle.settle(settlement(bounced!, bounce)),
    ...delivered.map((email) => worker.settle.settle(settlement(email))),
  ]);
  assert.deepEqual(results, ['kept', ...delivered.map(() => 'counted')]);
  assert.equal(worker.settle.mustWait, false);
  await worker.settle.stop(0);
});

test('an outcome that would break the event count of its email is kept', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  await change(
    `create function skip_one() returns trigger language plpgsql as $$
     begin new.event_count := new.event_count + 1; return new; end $$`,
    `create trigger skip_one before update on emails for each row when (old.id = '${email.id}')
     execute function skip_one()`,
  );
  assert.equal(await worker.settle.settle(settlement(email)), 'kept');
  assert.deepEqual(await emailRow(email.id), { open_count: 1, worst: 0, event_count: 1 });
  await change('drop trigger skip_one on emails', 'drop function skip_one()');
  await waitFor(() => worker.settle.keptCount === 0, { what: 'the outcome to be stored' });
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst: 1, event_count: 2 });
});

test('an outcome of a worker that lost the recipient does nothing', async () => {
  const [first, second] = [newWorker(), newWorker()];
  const email = await accepted(first);
  await registerWorker(db, { id: first.leaseId, instance: newId(), host: 'a', pid: 1 });
  assert.equal(await expireWorker(db, { id: first.leaseId, beat: null }), 1);
  assert.equal(await first.settle.settle(settlement(email)), 'fenced');
  const { claimed } = await claimOldest(db, {
    leaseId: second.leaseId,
    max: 100,
    readMax: 1_000,
    from: new Date(0),
    fullProjects: [],
    fullQueues: [],
  });
  const mine = claimed.find((one) => one.emailId === email.id);
  assert.equal(mine?.claim, 2);
  assert.equal(await second.settle.settle(settlement(email, { claim: 1 })), 'fenced');
  assert.equal(await second.settle.settle(settlement(email, { claim: 2 })), 'counted');
});

test('emails that a worker accepted with its last statement are released after its death', async () => {
  const [dead, alive] = [newWorker(), newWorker()];
  await registerWorker(db, { id: alive.leaseId, instance: newId(), host: 'a', pid: 1 });
  // Its lease has expired before the server commits its statement.
  const orphan = await accepted(dead);
  const kept = await accepted(alive);
  await releaseOrphans(db);
  const leaseIdOf = async ({ id }: NewEmail) =>
    (
      await db.query<{ leaseId: string | null }>(
        'select holder as "leaseId" from queue where email_id = $1',
        [id],
      )
    )[0];
  assert.deepEqual(await leaseIdOf(orphan), { leaseId: null });
  assert.deepEqual(await leaseIdOf(kept), { leaseId: alive.leaseId });
});

test('a deferred recipient waits in the queue, but never beyond its expiry', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  const deferred = { status: 'deferred', eventType: 'email.delivery_delayed' } as const;
  await worker.settle.settle(settlement(email, { ...deferred, retryMs: 5 * 3600_000 }));
  const [row] = await db.query<{ leaseId: null; attempts: number; waits: number }>(
    `select queue.holder as "leaseId", queue.attempts,
            extract(epoch from queue.due_at - emails.created_at)::int as waits
       from queue join emails on emails.id = queue.email_id where queue.email_id = $1`,
    [email.id],
  );
  assert.deepEqual(row, { leaseId: null, attempts: 1, waits: 3600 });
});

test('two workers that settle recipients of one email concurrently leave the right status', async () => {
  const second = new Database(database.address, { role: APP_ROLE, name: 'second' });
  try {
    const worker = newWorker();
    const twin = new SettleStore(second.settling, { ...SETTLING, leaseId: () => worker.leaseId });
    const to = Array.from({ length: 10 }, (_, index) => `jo${index}@example.net`);
    for (let round = 0; round < 10; round += 1) {
      const email = await accepted(worker, to);
      await Promise.all(
        to.map((_, position) =>
          (position % 2 === 0 ? worker.settle : twin).settle(
            settlement(email, position === 3 ? { position, status: 'bounced' } : { position }),
          ),
        ),
      );
      const row = await emailRow(email.id);
      assert.deepEqual(row, { open_count: 0, worst: STATUS_RANK.bounced, event_count: 11 });
      const seqs = await db.query<{ seq: number }>(
        'select seq from events where subject_id = $1 order by seq',
        [email.id],
      );
      assert.deepEqual(
        seqs.map(({ seq }) => seq),
        Array.from({ length: 11 }, (_, index) => index + 1),
      );
    }
  } finally {
    await second.close();
  }
});

test('a hard bounce suppresses the address, with one event', async () => {
  const worker = newWorker();
  const email = await accepted(worker, ['Gone@example.net']);
  const suppress = { address: 'Gone@example.net', reason: 'hard_bounce', days: 7 } as const;
  await worker.settle.settle(
    settlement(email, { status: 'bounced', suppress: { ...suppress, eventId: newId() } }),
  );
  const rows = await db.query(
    `select address, reason, source_email_id, extract(day from expires_at - created_at)::int as days
       from suppressions where project_id = $1`,
    [email.projectId],
  );
  const { id } = email;
  assert.deepEqual(rows, [
    { address: 'Gone@example.net', reason: 'hard_bounce', source_email_id: id, days: 7 },
  ]);
  const added = await db.query(
    `select data->>'address' as address from events
      where project_id = $1 and type = 'suppression.added'`,
    [email.projectId],
  );
  assert.deepEqual(added, [{ address: 'Gone@example.net' }]);
});

test('a complaint about delivered mail counts once and does not reopen it', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  await worker.settle.settle(settlement(email));
  const late = { status: 'complained', eventType: 'email.complained', late: true } as const;
  assert.equal(await worker.settle.settle(settlement(email, late)), 'counted');
  assert.equal(await worker.settle.settle(settlement(email, late)), 'fenced');
  const worst = STATUS_RANK.complained;
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst, event_count: 3 });
});

test('a report about a recipient that is still open changes nothing', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  const late = { status: 'bounced', eventType: 'email.bounced', late: true } as const;
  assert.equal(await worker.settle.settle(settlement(email, late)), 'fenced');
  assert.deepEqual(await emailRow(email.id), { open_count: 1, worst: 0, event_count: 1 });
  assert.equal(await worker.settle.settle(settlement(email)), 'counted');
  assert.equal(await worker.settle.settle(settlement(email, late)), 'counted');
  const worst = STATUS_RANK.bounced;
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst, event_count: 3 });
});

test('the database and the code allow the same status transitions', async () => {
  const allowed = await db.query<{ move: string }>(
    `select from_status || ' ' || to_status as move from status_transitions order by 1`,
  );
  assert.deepEqual(
    allowed.map(({ move }) => move),
    TRANSITIONS.map((pair) => pair.join(' ')).toSorted(),
  );
  for (const status of FINAL_STATUSES) assert.ok(STATUS_RANK[status] >= 1);
});

test('a locked email does not block the settling of others, and is settled once', async () => {
  const { accept, leaseId } = newWorker();
  const stored: string[] = [];
  const onSettled = ({ emailId }: Settlement): void => void stored.push(emailId);
  const settle = new SettleStore(db.settling, { ...SETTLING, leaseId: () => leaseId, onSettled });
  const emails = await Promise.all(
    Array.from({ length: 8 }, async () => accepted({ leaseId, accept, settle })),
  );
  const locked = emails[3]!;
  const results = await db.transaction(async (tx) => {
    await tx.query('select from emails where id = $1 for update', [locked.id]);
    return Promise.all(emails.map((email) => settle.settle(settlement(email))));
  });
  assert.deepEqual(
    results,
    emails.map((email) => (email === locked ? 'kept' : 'counted')),
  );
  await waitFor(() => stored.includes(locked.id), { what: 'the locked email to be settled' });
  assert.equal(stored.length, 8);
  assert.equal((await emailRow(locked.id))?.event_count, 2);
  assert.equal(settle.mustWait, false);
});

/** Runs statements as the owner of the tables. */
async function change(...statements: string[]): Promise<void> {
  const owner = new Database(database.address, { role: null, name: 'owner' });
  for (const statement of statements) await owner.query(statement);
  await owner.close();
}

test("an outcome that is refused because of a server's reply is settled without the reply", async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  await change(`alter table events add constraint odd check (attempt::text not like '%odd%')`);
  const attempt = { number: 1, transcript: ['S: 250 odd'] };
  assert.equal(await worker.settle.settle(settlement(email, { attempt })), 'kept');
  const isSettled = async (): Promise<boolean> => (await emailRow(email.id))?.open_count === 0;
  await waitFor(isSettled, { what: 'it to be settled' });
  await change('alter table events drop constraint odd');
  const events = await db.query<{ type: string; attempt: object }>(
    'select type, attempt from events where subject_id = $1 and seq = 2',
    [email.id],
  );
  assert.deepEqual(events, [{ type: 'email.delivered', attempt: { number: 1, transcript: [] } }]);
});

test('at a stop an outcome that cannot be settled with its webhooks is settled without them', async () => {
  const worker = newWorker();
  const email = await accepted(worker);
  const endpoint = { id: newId(), url: 'https://x.test', events: null, secret: Buffer.from('x') };
  await createEndpoint(db, email, endpoint);
  await change(`alter table webhook_deliveries add constraint odd check (type like '%.queued')`);
  assert.equal(await worker.settle.settle(settlement(email)), 'kept');
  await worker.settle.stop(5_000);
  await change('alter table webhook_deliveries drop constraint odd');
  assert.equal(worker.settle.keptCount, 0);
  assert.deepEqual(await emailRow(email.id), { open_count: 0, worst: 1, event_count: 2 });
});
