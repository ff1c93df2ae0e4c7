/**
 * Accepting on a real database, with two stores as two workers: what is stored, what repetitions and limits do, and
 * what happens when the connection is lost around the commit. decision.test.ts has the rules without a database,
 * email-batch.test.ts the batches.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import { address } from '../../../test/support/deliveries.ts';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { AcceptStore } from './accept-store.ts';
import {
  APP_ROLE,
  Database,
  DatabaseUnavailable,
  type Queryable,
} from '../../database/database.ts';
import { newId } from '../../database/ids.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const always = (id: string) => () => id;

/** Opens a second connection to the database, as another worker does. */
function newStore(
  own: { accepting: Queryable } = db,
  leaseId: () => string | null = always(newId()),
): AcceptStore {
  return new AcceptStore(own.accepting, {
    limit: { max: 100, windowS: 60 },
    leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
}

async function withSecondWorker<Result>(work: (own: Database) => Promise<Result>): Promise<Result> {
  const own = new Database(database.address, { role: APP_ROLE, name: 'second' });
  try {
    return await work(own);
  } finally {
    await own.close();
  }
}

async function countOf(table: string, projectId: string): Promise<number> {
  const [row] = await db.query<{ count: number }>(
    `select count(*)::int as count from ${table} where project_id = $1`,
    [projectId],
  );
  return row?.count ?? -1;
}

test('an accepted email is stored with content, recipients, queue rows and first event', async () => {
  const sender = await newSender(db);
  const email = newEmail(sender, { to: ['jo@example.net', 'flo@example.org'] });
  const row = await newStore().accept(email);
  assert.equal(row.outcome, 'accepted');
  assert.equal(row.domainId, sender.domainId);
  assert.match(row.response ?? '', /"created_at":"\d{4}-\d\d-\d\dT[\d:.]+Z"/);
  const [stored] = await db.query<{ open_count: number; last_event: string; html: string }>(
    `select emails.open_count, emails.last_event, contents.html from emails
       join contents on contents.project_id = emails.project_id and contents.email_id = emails.id
      where emails.id = $1`,
    [email.id],
  );
  assert.deepEqual(stored, { open_count: 2, last_event: 'email.queued', html: '<p>Hello</p>' });
  assert.equal(await countOf('recipients', sender.projectId), 2);
  assert.equal(await countOf('queue', sender.projectId), 2);
  assert.equal(await countOf('events', sender.projectId), 1);
});

test('the limit is exact over two workers', async () => {
  const sender = await newSender(db, 120);
  const emails = Array.from({ length: 300 }, () => newEmail(sender));
  await withSecondWorker(async (own) => {
    const [one, two] = await Promise.all([
      acceptAll(newStore(), emails.slice(0, 150)),
      acceptAll(newStore(own), emails.slice(150)),
    ]);
    assert.equal(one.count('accepted') + two.count('accepted'), 120);
    assert.equal(one.count('limited') + two.count('limited'), 180);
  });
  assert.equal(await countOf('emails', sender.projectId), 120);
});

test('a window ends after its time and starts with the next request', async () => {
  const sender = await newSender(db, 1);
  const store = newStore();
  assert.equal((await store.accept(newEmail(sender))).outcome, 'accepted');
  const refused = await store.accept(newEmail(sender));
  assert.equal(refused.outcome, 'limited');
  assert.equal(refused.limit!.remaining, 0);
  assert.ok(refused.limit!.resetS >= 1 && refused.limit!.resetS <= 60);
  await database.db.query(
    `update limit_windows set started_at = app_now() + interval '2 s' where project_id = $1`,
    [sender.projectId],
  );
  assert.equal((await store.accept(newEmail(sender))).limit?.resetS, 60);
  await database.db.query(
    `update limit_windows set started_at = started_at - interval '63 s' where project_id = $1`,
    [sender.projectId],
  );
  assert.equal((await store.accept(newEmail(sender))).outcome, 'accepted');
});

test('a window that starts in the future, because the clock was set back, is ignored', async () => {
  const sender = await newSender(db, 1);
  const store = newStore();
  assert.equal((await store.accept(newEmail(sender))).outcome, 'accepted');
  await db.query(
    `update limit_windows set started_at = app_now() + interval '1 hour' where project_id = $1`,
    [sender.projectId],
  );
  assert.equal((await store.accept(newEmail(sender))).outcome, 'accepted');
  assert.equal((await store.accept(newEmail(sender))).outcome, 'limited');
});

for (const [name, limit] of [
  ['with room to spare', 1_000],
  ['with one slot of the limit left', 1],
] as const) {
  test(`fifty concurrent requests with one idempotency key make one email, ${name}`, async () => {
    const sender = await newSender(db, limit);
    const idempotency = { key: 'order-1', fingerprint: 'aa' };
    const emails = Array.from({ length: 50 }, () => newEmail(sender, { idempotency }));
    await withSecondWorker(async (own) => {
      const results = await Promise.all([
        acceptAll(newStore(), emails.slice(0, 25)),
        acceptAll(newStore(own), emails.slice(25)),
      ]);
      const rows = results.flatMap((result) => result.rows);
      assert.equal(rows.filter((row) => row.outcome === 'accepted').length, 1);
      assert.equal(rows.filter((row) => row.outcome === 'repeated').length, 49);
      assert.equal(new Set(rows.map((row) => row.response)).size, 1);
    });
    assert.equal(await countOf('emails', sender.projectId), 1);
    assert.equal(await countOf('idempotency', sender.projectId), 1);
  });
}

test('a key that was used with another body is detected by its fingerprint', async () => {
  const sender = await newSender(db);
  const store = newStore();
  await store.accept(newEmail(sender, { idempotency: { key: 'k', fingerprint: 'aa' } }));
  const again = await store.accept(
    newEmail(sender, { idempotency: { key: 'k', fingerprint: 'bb' } }),
  );
  assert.equal(again.outcome, 'repeated');
  assert.equal(again.fingerprint, 'aa');
});

test('a key expires after 24 hours and then makes a new email', async () => {
  const sender = await newSender(db);
  const store = newStore();
  const idempotency = { key: 'daily', fingerprint: 'aa' };
  await store.accept(newEmail(sender, { idempotency }));
  await db.query(
    `update idempotency set expires_at = app_now() - interval '1 s' where project_id = $1`,
    [sender.projectId],
  );
  const later = await store.accept(newEmail(sender, { idempotency }));
  assert.equal(later.outcome, 'accepted');
  const repetition = await store.accept(newEmail(sender, { idempotency }));
  assert.equal(repetition.outcome, 'repeated');
  assert.equal(repetition.response, later.response);
});

test('a refused request consumes neither its key nor the limit', async () => {
  const sender = await newSender(db, 5);
  const store = newStore();
  const idempotency = { key: 'refused', fingerprint: 'aa' };
  const from = { name: null, address: address('hello@other.com') };
  const refused = await store.accept(newEmail(sender, { idempotency, from }));
  assert.equal(refused.outcome, 'domain_refused');
  assert.equal(refused.limit!.remaining, 5);
  assert.equal(await countOf('idempotency', sender.projectId), 0);
  assert.equal((await store.accept(newEmail(sender, { idempotency }))).outcome, 'accepted');
});

test('a key that was just revoked sends nothing', async () => {
  const sender = await newSender(db);
  await db.query('update api_keys set revoked_at = app_now() where id = $1', [sender.keyId]);
  assert.equal((await newStore().accept(newEmail(sender))).outcome, 'key_refused');
  assert.equal(await countOf('emails', sender.projectId), 0);
});

test('a request repeated with a new API key is not refused because the old key was revoked', async () => {
  const sender = await newSender(db);
  const idempotency = { key: 'order-7', fingerprint: 'cc' };
  const old = { ...newEmail(sender, { idempotency }), keyId: newId() };
  const store = newStore();
  const rows = await Promise.all([
    store.accept(old),
    store.accept(newEmail(sender, { idempotency })),
  ]);
  assert.deepEqual(
    rows.map(({ outcome }) => outcome),
    ['key_refused', 'accepted'],
  );
});

test('suppressed recipients end at once; an email with no other recipient is refused', async () => {
  const sender = await newSender(db);
  await db.query(
    `insert into suppressions (project_id, environment, address_key, address, reason, created_at)
     values ($1, 'live', 'gone@example.net', 'gone@example.net', 'manual', app_now())`,
    [sender.projectId],
  );
  const store = newStore();
  const refused = await store.accept(newEmail(sender, { to: ['Gone@example.net'] }));
  assert.equal(refused.outcome, 'suppressed');
  const email = newEmail(sender, { to: ['jo@example.net', 'Gone@example.net'] });
  const accepted = await store.accept(email);
  assert.equal(accepted.outcome, 'accepted');
  assert.deepEqual(accepted.suppressedPositions, [1]);
  const recipients = await db.query(
    'select position, status from recipients where email_id = $1 order by position',
    [email.id],
  );
  assert.deepEqual(recipients, [
    { position: 0, status: 'queued' },
    { position: 1, status: 'suppressed' },
  ]);
  const events = await db.query(
    'select seq, type, position from events where subject_id = $1 order by seq',
    [email.id],
  );
  assert.deepEqual(events, [
    { seq: 1, type: 'email.queued', position: null },
    { seq: 2, type: 'email.suppressed', position: 1 },
  ]);
});

test('one failing row among 63 others affects no other', async () => {
  const sender = await newSender(db);
  const emails = Array.from({ length: 64 }, (_, index) =>
    newEmail(sender, index === 17 ? { subject: 'a NUL: \u0000' } : {}),
  );
  const store = newStore();
  const settled = await Promise.allSettled(emails.map((email) => store.accept(email)));
  const rejected = settled.flatMap((one, index) => (one.status === 'rejected' ? [index] : []));
  assert.deepEqual(rejected, [17]);
  assert.equal(await countOf('emails', sender.projectId), 63);
});

test('requests of several projects share a batch without affecting each other', async () => {
  const [one, two] = [await newSender(db, 10), await newSender(db, 20)];
  const emails = Array.from({ length: 60 }, (_, index) => newEmail(index % 2 === 0 ? one : two));
  const { count } = await acceptAll(newStore(), emails);
  assert.equal(count('accepted'), 30);
  assert.equal(await countOf('emails', one.projectId), 10);
  assert.equal(await countOf('emails', two.projectId), 20);
});

test('with an unavailable database every email fails and nothing is accepted', async () => {
  const nowhere = new Database(
    { host: '127.0.0.1', port: 1, user: 'x', database: 'x' },
    { role: null, name: 'nowhere' },
  );
  const sender = { projectId: newId(), keyId: newId(), domainId: newId() };
  await assert.rejects(
    newStore(nowhere).accept(newEmail({ ...sender, environment: 'live' })),
    DatabaseUnavailable,
  );
  await nowhere.close();
});

test('when the connection is lost after the commit, the outcome is looked up', async () => {
  const sender = await newSender(db);
  let died = false;
  // The statement is committed; its result never arrives.
  const store = new AcceptStore(
    {
      async query<Row extends object>(...args: Parameters<Database['query']>): Promise<Row[]> {
        const rows = await db.accepting.query<Row>(...args);
        if (died) return rows;
        died = true;
        throw new DatabaseUnavailable('connection terminated unexpectedly');
      },
    },
    {
      limit: { max: 100, windowS: 60 },
      leaseId: newId,
      onWebhooksQueued: () => {},
      onUnknown: () => assert.fail('known'),
    },
  );
  const row = await store.accept(newEmail(sender));
  assert.equal(row.outcome, 'accepted');
  assert.match(row.response ?? '', /created_at":"\d{4}/);
  assert.equal(row.limit, null); // no headers with a limit of 0
  assert.equal(await countOf('emails', sender.projectId), 1);
});

test('a lock that is kept too long fails its request and delays no other', async () => {
  const own = new Database(database.address, { role: null, name: 'impatient' });
  await own.accepting.query(`set lock_timeout = '100ms'`);
  const sender = await newSender(db);
  const store = newStore(own);
  await db.transaction(async (tx) => {
    await tx.query('select from limit_windows where project_id = $1 for update', [
      sender.projectId,
    ]);
    const isUndone = (error: unknown) => error instanceof DatabaseUnavailable && error.isUndone;
    const underWay = assert.rejects(store.accept(newEmail(sender)), isUndone);
    await new Promise(setImmediate);
    const behind = Array.from({ length: 100 }, () => store.accept(newEmail(sender)));
    await underWay;
    for (const one of behind) await assert.rejects(one, isUndone);
  });
  assert.equal(await countOf('emails', sender.projectId), 0);
  assert.equal((await store.accept(newEmail(sender))).outcome, 'accepted');
  await own.close();
});

test('committed emails stay accepted when the database becomes unavailable just after', async () => {
  const sender = await newSender(db, 1);
  const lookFails: Queryable = {
    query: (statement, values) =>
      typeof statement === 'object'
        ? db.accepting.query(statement, values)
        : Promise.reject(new DatabaseUnavailable('connection refused', { isUndone: true })),
  };
  const emails = [1, 2].map((number) =>
    newEmail(sender, { idempotency: { key: `key ${number}`, fingerprint: '00' } }),
  );
  const { count } = await acceptAll(newStore({ accepting: lookFails }), emails);
  assert.deepEqual([count('accepted'), count('limited')], [1, 1]);
});

test('recipients are leased under the lease that the statement named, even if it has expired', async () => {
  const sender = await newSender(db);
  const [first, second] = [newId(), newId()];
  const answerAfter = (sentUnder: string | null, answeredUnder: string | null) => {
    let lease = sentUnder;
    const accepting: Queryable = {
      async query(statement, values) {
        const rows = await db.accepting.query<never>(statement, values);
        lease = answeredUnder;
        return rows;
      },
    };
    return newStore({ accepting }, () => lease).accept(newEmail(sender));
  };
  assert.equal((await answerAfter(first, second)).leaseId, first);
  assert.equal((await answerAfter(first, null)).leaseId, first);
  // Its recipients wait in the table. Handing them over as well would mail them twice.
  assert.equal((await answerAfter(null, second)).leaseId, null);
  const twice = newEmail(sender, { idempotency: { key: 'twice', fingerprint: '00' } });
  const { rows } = await acceptAll(newStore(), [twice, { ...twice, id: newId() }]);
  assert.deepEqual(
    rows.map(({ leaseId }) => leaseId !== null),
    [true, false],
  );
});

test('the service works in a role that cannot drop or alter tables', async () => {
  await assert.rejects(db.query('drop table queue'), /must be owner/);
  await assert.rejects(db.query('alter table emails add column x int'), /must be owner/);
  await assert.rejects(db.query('truncate emails'), /permission denied/);
});

test('an email that is retried apart from a failing one is stored once', async () => {
  const own = new Database(database.address, { role: null, name: 'apart' });
  await own.accepting.query(`set lock_timeout = '100ms'`);
  const [good, bad, before] = [await newSender(db), await newSender(db), await newSender(db)];
  const refused = newEmail(bad);
  const accepting: Queryable = {
    query: (statement, values = []) => {
      const text = JSON.stringify(values, (_, value: unknown) =>
        value instanceof Uint8Array ? null : value,
      );
      const isAlone = text.includes(refused.id) && !text.includes(good.projectId);
      if (isAlone) return Promise.reject(new Error('refused by the database'));
      return own.accepting.query(statement, values);
    },
  };
  const store = newStore({ accepting });
  await db.transaction(async (tx) => {
    await tx.query('select from limit_windows where project_id = $1 for update', [bad.projectId]);
    const first = store.accept(newEmail(before));
    const isRefused = assert.rejects(store.accept(refused), /refused by the database/);
    assert.equal((await store.accept(newEmail(good))).outcome, 'accepted');
    await isRefused;
    assert.equal((await first).outcome, 'accepted');
  });
  assert.equal(await countOf('emails', good.projectId), 1);
  assert.equal(await countOf('emails', bad.projectId), 0);
  await own.close();
});

test('a project whose limit is locked does not delay others, and sends after the lock is released', async () => {
  const own = new Database(database.address, { role: null, name: 'busy' });
  await own.accepting.query(`set lock_timeout = '300ms'`);
  const [locked, other] = [await newSender(db), await newSender(db)];
  const store = newStore(own);
  const send = (sender: typeof locked) =>
    store.accept(newEmail(sender)).then(
      ({ outcome }) => outcome,
      (error: unknown) => error instanceof DatabaseUnavailable && error.isUndone && 'unavailable',
    );
  await db.transaction(async (tx) => {
    const lock = 'select from limit_windows where project_id = $1 for update';
    await tx.query(lock, [locked.projectId]);
    for (let round = 0; round < 3; round += 1) {
      const mixed = Array.from({ length: 40 }, (_, n) => send(n % 4 === 0 ? locked : other));
      const outcomes = await Promise.all(mixed);
      const expected = outcomes.map((_, n) => (n % 4 === 0 ? 'unavailable' : 'accepted'));
      assert.deepEqual(outcomes, expected);
    }
  });
  assert.equal(await countOf('emails', other.projectId), 90);
  assert.equal(await send(locked), 'accepted');
  assert.equal(await send(locked), 'accepted');
  assert.equal(await countOf('emails', locked.projectId), 2);
  await own.close();
});

/** A connection of a worker that freezes before the named statement. */
function frozenBefore(statement: string): {
  own: Queryable;
  frozen: Promise<void>;
  thaw: () => void;
} {
  const frozen = Promise.withResolvers<void>();
  const thawed = Promise.withResolvers<void>();
  const own: Queryable = {
    async query<Row extends object>(...[asked, values]: Parameters<Queryable['query']>) {
      if (typeof asked === 'object' && asked.name === statement) {
        frozen.resolve();
        await thawed.promise;
      }
      return db.accepting.query<Row>(asked, values);
    },
  };
  return { own, frozen: frozen.promise, thaw: thawed.resolve };
}

test('a worker that freezes between reading the facts and storing delays no other worker', async () => {
  const sender = await newSender(db, 3);
  const idempotency = { key: 'frozen', fingerprint: 'aa' };
  // The full path decides emails to two recipients.
  const email = () => newEmail(sender, { to: ['a@example.net', 'b@example.net'], idempotency });
  const { own, frozen, thaw } = frozenBefore('accept_insert');
  const late = newStore({ accepting: own }).accept(email());
  await frozen;
  await withSecondWorker(async (second) => {
    await second.accepting.query(`set lock_timeout = '1ms'`);
    const store = newStore(second);
    const first = await store.accept(email());
    assert.equal(first.outcome, 'accepted');
    assert.deepEqual((await acceptAll(store, [newEmail(sender)])).count('accepted'), 1);
    thaw();
    const row = await late;
    assert.deepEqual([row.outcome, row.response], ['repeated', first.response]);
  });
  assert.equal(await countOf('emails', sender.projectId), 2);
});

test('emails are decided again when others took the capacity in between', async () => {
  const sender = await newSender(db, 3);
  const { own, frozen, thaw } = frozenBefore('accept_insert');
  const batch = Array.from({ length: 3 }, () => newEmail(sender, { scheduledAt: new Date(0) }));
  const late = acceptAll(newStore({ accepting: own }), batch);
  await frozen;
  await withSecondWorker((second) => newStore(second).accept(newEmail(sender)));
  thaw();
  const { count } = await late;
  assert.deepEqual([count('accepted'), count('limited')], [2, 1]);
  assert.equal(await countOf('emails', sender.projectId), 3);
});
