/**
 * Batches of emails in one commit, strict and permissive, on a real database. One connection commits and then loses the
 * reply, as when the network ends around a commit.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import { address } from '../../../test/support/deliveries.ts';
import { emailBatch, newEmail, newSender, type Sender } from '../../../test/support/mail-store.ts';
import { AcceptStore } from './accept-store.ts';
import { AcceptedUnknown } from './lost-commits.ts';
import type { EmailResult } from './new-email.ts';
import { newId } from '../../database/ids.ts';
import {
  APP_ROLE,
  Database,
  DatabaseUnavailable,
  type Queryable,
} from '../../database/database.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const ELSEWHERE = { name: null, address: address('hello@other.com') };

function newStore(accepting: Queryable = db.accepting, unknown: string[] = []): AcceptStore {
  const leaseId = newId();
  return new AcceptStore(accepting, {
    limit: { max: 100, windowS: 60 },
    leaseId: () => leaseId,
    onWebhooksQueued: () => {},
    onUnknown: (emails) => unknown.push(...emails.map(({ id }) => id)),
  });
}

const emailsOf = (sender: Sender, count: number) =>
  Array.from({ length: count }, () => newEmail(sender));

const outcomes = (rows: readonly EmailResult[]) => rows.map(({ outcome }) => outcome);

async function countOf(table: string, { projectId }: Sender): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from ${table} where project_id = $1`,
    [projectId],
  );
  return row?.count ?? -1;
}

async function usedBy({ projectId }: Sender): Promise<number | undefined> {
  const [row] = await db.query<{ used: number }>(
    `select used from limit_windows where project_id = $1 and category = 'sending'`,
    [projectId],
  );
  return row?.used;
}

test('a strict batch is stored as a whole, with one idempotency key', async () => {
  const sender = await newSender(db);
  const idempotency = { key: 'invoices', fingerprint: 'aa' };
  const batch = emailBatch(emailsOf(sender, 100), { idempotency });
  const rows = await newStore().acceptBatch(batch);
  assert.deepEqual(new Set(outcomes(rows)), new Set(['accepted']));
  assert.ok(rows.every(({ leaseId }) => leaseId !== null));
  assert.equal(rows[0]?.response, batch.respond(rows.map(() => 'accepted')));
  for (const table of ['emails', 'recipients', 'queue', 'events', 'contents']) {
    assert.equal(await countOf(table, sender), 100, table);
  }
  assert.equal(await countOf('idempotency', sender), 1);
  assert.equal(await usedBy(sender), 100);
});

test('a strict batch with one refused email stores nothing and does not count to limits', async () => {
  const sender = await newSender(db);
  const emails = [...emailsOf(sender, 2), newEmail(sender, { from: ELSEWHERE })];
  const idempotency = { key: 'refused', fingerprint: 'aa' };
  const rows = await newStore().acceptBatch(emailBatch(emails, { idempotency }));
  assert.deepEqual(outcomes(rows), ['batch_refused', 'batch_refused', 'domain_refused']);
  assert.ok(rows.every(({ leaseId }) => leaseId === null));
  assert.equal(await countOf('emails', sender), 0);
  assert.equal(await countOf('idempotency', sender), 0);
  assert.equal(await usedBy(sender), 0);
});

test('a strict batch beyond the limit does not count to it', async () => {
  const sender = await newSender(db, 3);
  const store = newStore();
  const rows = await store.acceptBatch(emailBatch(emailsOf(sender, 4)));
  assert.deepEqual(outcomes(rows), ['batch_refused', 'batch_refused', 'batch_refused', 'limited']);
  assert.equal(rows[3]?.limit?.remaining, 3);
  assert.equal(await usedBy(sender), 0);
  const fitting = await store.acceptBatch(emailBatch(emailsOf(sender, 3)));
  assert.deepEqual(new Set(outcomes(fitting)), new Set(['accepted']));
});

test('a permissive batch stores the valid emails and responds with the outcome of each', async () => {
  const sender = await newSender(db, 2);
  const emails = [
    newEmail(sender, { from: ELSEWHERE }),
    ...emailsOf(sender, 2),
    newEmail(sender, { to: ['jo@example.net', 'flo@example.net'] }),
  ];
  const batch = emailBatch(emails, { permissive: true });
  const rows = await newStore().acceptBatch(batch);
  assert.deepEqual(outcomes(rows), ['domain_refused', 'accepted', 'accepted', 'limited']);
  assert.equal(rows[0]?.response, batch.respond(rows.map(({ outcome }) => outcome as 'accepted')));
  assert.equal(await countOf('emails', sender), 2);
  assert.equal(await usedBy(sender), 2);
});

test('a permissive batch without a valid email does not use up its key', async () => {
  const sender = await newSender(db);
  const idempotency = { key: 'nothing', fingerprint: 'aa' };
  const none = emailBatch([newEmail(sender, { from: ELSEWHERE })], {
    idempotency,
    permissive: true,
  });
  assert.deepEqual(outcomes(await newStore().acceptBatch(none)), ['domain_refused']);
  assert.equal(await countOf('idempotency', sender), 0);
});

for (const [name, limit] of [
  ['with room to spare', 1_000],
  ['with room for one batch', 10],
] as const) {
  test(`twenty concurrent batches with one key over two workers are one batch, ${name}`, async () => {
    const sender = await newSender(db, limit);
    const own = new Database(database.address, { role: APP_ROLE, name: 'second' });
    const stores = [newStore(), newStore(own.accepting)];
    const idempotency = { key: 'once', fingerprint: 'aa' };
    const results = await Promise.all(
      Array.from({ length: 20 }, (_, index) =>
        stores[index % 2]!.acceptBatch(
          emailBatch(emailsOf(sender, 10), { idempotency, permissive: index % 4 > 1 }),
        ),
      ),
    );
    await own.close();
    const first = results.map(([row]) => row?.outcome);
    assert.equal(first.filter((outcome) => outcome === 'accepted').length, 1);
    assert.equal(first.filter((outcome) => outcome === 'repeated').length, 19);
    assert.equal(new Set(results.map(([row]) => row?.response)).size, 1);
    assert.equal(await countOf('emails', sender), 10);
    assert.equal(await usedBy(sender), 10);
  });
}

test('batches and single emails share idempotency keys', async () => {
  const sender = await newSender(db);
  const store = newStore();
  const [one, two] = ['one', 'two'].map((key) => ({ key, fingerprint: 'aa' }));
  const other = (key: string) => ({ key, fingerprint: 'bb' });
  await store.acceptBatch(emailBatch(emailsOf(sender, 2), { idempotency: one! }));
  const single = await store.accept(newEmail(sender, { idempotency: other('one') }));
  assert.deepEqual([single.outcome, single.fingerprint], ['repeated', 'aa']);
  await store.accept(newEmail(sender, { idempotency: two! }));
  const rows = await store.acceptBatch(
    emailBatch(emailsOf(sender, 2), { idempotency: other('two') }),
  );
  assert.deepEqual(outcomes(rows), ['repeated', 'repeated']);
  assert.equal(rows[0]?.fingerprint, 'aa');
  assert.equal(await countOf('emails', sender), 3);
});

test('a key expires after 24 hours and can then be used for a new batch', async () => {
  const sender = await newSender(db);
  const idempotency = { key: 'daily', fingerprint: 'aa' };
  const send = () => newStore().acceptBatch(emailBatch(emailsOf(sender, 2), { idempotency }));
  await send();
  await db.query(
    `update idempotency set expires_at = app_now() - interval '1 s' where project_id = $1`,
    [sender.projectId],
  );
  const later = await send();
  assert.deepEqual(outcomes(later), ['accepted', 'accepted']);
  const repetition = await send();
  assert.deepEqual(outcomes(repetition), ['repeated', 'repeated']);
  assert.equal(repetition[0]?.response, later[0]?.response);
});

test('a batch and concurrent single emails are all stored', async () => {
  const sender = await newSender(db);
  const store = newStore();
  const singles = emailsOf(sender, 100).map((email) => store.accept(email));
  const batches = [1, 2, 3].map(() => store.acceptBatch(emailBatch(emailsOf(sender, 100))));
  const more = emailsOf(sender, 100).map((email) => store.accept(email));
  const rows = [
    ...(await Promise.all([...singles, ...more])),
    ...(await Promise.all(batches)).flat(),
  ];
  assert.deepEqual(new Set(outcomes(rows)), new Set(['accepted']));
  assert.equal(await countOf('emails', sender), 500);
});

/** A connection that commits the first statement and then loses its result. */
function losingTheResult(): Queryable {
  let isLost = false;
  return {
    async query<Row extends object>(...args: Parameters<Database['query']>): Promise<Row[]> {
      const rows = await db.accepting.query<Row>(...args);
      if (isLost) return rows;
      isLost = true;
      throw new DatabaseUnavailable('connection terminated unexpectedly');
    },
  };
}

test('when the connection is lost after the commit of a strict batch, the outcome is looked up', async () => {
  const sender = await newSender(db);
  const batch = emailBatch(emailsOf(sender, 5));
  const rows = await newStore(losingTheResult()).acceptBatch(batch);
  assert.deepEqual(new Set(outcomes(rows)), new Set(['accepted']));
  assert.equal(rows[0]?.response, batch.respond(rows.map(() => 'accepted')));
});

test('when the connection is lost after the commit of a permissive batch, a repetition gets the result', async () => {
  const sender = await newSender(db);
  const idempotency = { key: 'lost', fingerprint: 'aa' };
  const unknown: string[] = [];
  const store = newStore(losingTheResult(), unknown);
  const emails = emailsOf(sender, 3);
  const lost = store.acceptBatch(emailBatch(emails, { idempotency, permissive: true }));
  await assert.rejects(lost, AcceptedUnknown);
  assert.deepEqual(
    unknown,
    emails.map(({ id }) => id),
  );
  const again = emailBatch(emailsOf(sender, 3), { idempotency, permissive: true });
  const rows = await store.acceptBatch(again);
  assert.deepEqual(outcomes(rows), ['repeated', 'repeated', 'repeated']);
  assert.deepEqual(
    JSON.parse(rows[0]?.response ?? ''),
    emails.map(({ id }) => ({ id, outcome: 'accepted' })),
  );
});
