/**
 * The dispatcher with a real queue table. Attempts end with the results that a test sets, and some statements lose
 * their reply.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino, { type Logger } from 'pino';
import { newEmail, newSender } from '../../../test/support/mail-store.ts';
import { asOwner, testDatabase } from '../../../test/support/postgres.ts';
import { waitFor } from '../../../test/support/wait.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import type { NewEmail } from '../../accept/store/new-email.ts';
import {
  DatabaseUnavailable,
  isLockTimeout,
  type Queryable,
  type Statement,
} from '../../database/database.ts';
import { newId } from '../../database/ids.ts';
import { systemWorld } from '../../service/machine/system-world.ts';
import type { Deliver, DeliverResult } from '../attempt/deliver.ts';
import { Dispatcher } from './dispatcher.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

type Scene = AsyncDisposable & {
  dispatcher: Dispatcher;
  leaseId: string;
  taken: string[];
  /** Number of requests to compare claims with memory. */
  checks: { asked: number };
};

/** A dispatcher whose deliveries end with the result of `deliver` and are recorded in `taken`. */
function newScene(
  options: {
    queries?: Queryable;
    deliver?: Deliver;
    unknownFateMs?: number;
    window?: number;
    log?: Logger;
  } = {},
): Scene {
  const leaseId = newId();
  const taken: string[] = [];
  const checks = { asked: 0 };
  const deliver: Deliver = (delivery, cutoff) => {
    taken.push(delivery.address);
    return options.deliver?.(delivery, cutoff) ?? Promise.resolve({ kind: 'settled' });
  };
  const dispatcher = new Dispatcher({
    db: options.queries ?? db,
    world: systemWorld,
    log: options.log ?? pino({ level: 'silent' }),
    lease: { leaseId: () => leaseId, isFresh: () => true, checksRequested: () => checks.asked },
    deliver,
    contents: { keep: () => {} },
    connections: {
      windowOf: () => options.window ?? 100,
      suspendedForMs: () => 0,
      onChange: () => {},
      onPrompt: () => {},
      notifyPromptChange: () => {},
    },
    mailRouting: {
      providerOf: (destination) => destination,
      isProviderKnown: () => true,
      lookUpProvider: () => null,
    },
    earlyRetries: { noteDelayed: () => {} },
    unsettled: { mustWait: false, kept: () => [] },
    unknownFateMs: options.unknownFateMs ?? 30_000,
  });
  return {
    dispatcher,
    leaseId,
    taken,
    checks,
    [Symbol.asyncDispose]: () => dispatcher.stop(),
  };
}

/** Stores an email that waits in the queue table. */
async function queued(to: string): Promise<NewEmail> {
  const email = newEmail(await newSender(db), { to: [to], mayHandOver: false });
  const store = new AcceptStore(db.accepting, {
    limit: { max: 100, windowS: 60 },
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  assert.equal((await store.accept(email)).outcome, 'accepted');
  return email;
}

async function claimOf({ id }: NewEmail): Promise<number | undefined> {
  const text = 'select claim from queue where email_id = $1';
  const [row] = await db.query<{ claim: number }>(text, [id]);
  return row?.claim;
}

async function leaseIdOf({ id }: NewEmail): Promise<string | null | undefined> {
  const rows = await db.query<{ leaseId: string | null }>(
    'select holder as "leaseId" from queue where email_id = $1',
    [id],
  );
  return rows[0]?.leaseId;
}

function nameOf(statement: Statement | string): string | undefined {
  return typeof statement === 'string' ? undefined : statement.name;
}

/** Returns whether the statement finds rows under this lease that are not in memory. */
function isComparison(statement: Statement | string): boolean {
  return typeof statement === 'string' && statement.includes('where queue.holder = $1');
}

test('due rows of the table are claimed and delivered', async () => {
  await using scene = newScene();
  await queued('due@example.net');
  scene.dispatcher.start();
  await waitFor(() => scene.taken.includes('due@example.net'), { what: 'the delivery' });
});

test('a delivery that could not be tried is released and due again', async () => {
  await using scene = newScene({
    deliver: () => Promise.resolve({ kind: 'release', delayMs: 3_600_000 }),
  });
  const email = await queued('later@example.net');
  scene.dispatcher.start();
  await waitFor(async () => scene.taken.length > 0 && (await leaseIdOf(email)) === null, {
    what: 'the recipient to be released',
  });
});

test('an email without content delays no other, and its delivery is marked', async () => {
  const delivered = new Map<string, boolean>();
  await using scene = newScene({
    deliver: ({ address, contentMissing = false }) => {
      delivered.set(address, contentMissing);
      return Promise.resolve({ kind: 'settled' });
    },
  });
  const broken = await queued('broken@contents.test');
  await queued('whole@contents.test');
  await db.query('delete from contents where email_id = $1', [broken.id]);
  scene.dispatcher.start();
  const both = ['broken@contents.test', 'whole@contents.test'];
  await waitFor(() => both.every((one) => delivered.has(one)), { what: 'both deliveries' });
  assert.deepEqual(
    both.map((one) => delivered.get(one)),
    [true, false],
  );
});

test('an email with a mailbox that cannot be parsed delays no other, and is marked like one without content', async () => {
  const delivered = new Map<string, boolean>();
  await using scene = newScene({
    deliver: ({ address, contentMissing = false }) => {
      delivered.set(address, contentMissing);
      return Promise.resolve({ kind: 'settled' });
    },
  });
  const senders = await queued('sender@mailboxes.test');
  const recipients = await queued('recipient@mailboxes.test');
  await queued('intact@mailboxes.test');
  await db.query(`update emails set from_address = 'no address' where id = $1`, [senders.id]);
  await db.query(`update emails set to_list = '{no address}' where id = $1`, [recipients.id]);
  scene.dispatcher.start();
  const all = ['sender', 'recipient', 'intact'].map((name) => `${name}@mailboxes.test`);
  await waitFor(() => all.every((address) => delivered.has(address)), { what: 'all deliveries' });
  assert.deepEqual(
    all.map((address) => delivered.get(address)),
    [true, true, false],
  );
});

test('an error in an attempt keeps the mail', async () => {
  await using scene = newScene({ deliver: () => Promise.reject(new Error('a bug')) });
  const email = await queued('bug@example.net');
  scene.dispatcher.start();
  await waitFor(async () => scene.taken.length > 0 && (await leaseIdOf(email)) === null, {
    what: 'the recipient to be released',
  });
});

test('a stop releases queued deliveries and waits for running ones', async () => {
  const finish = Promise.withResolvers<DeliverResult>();
  const scene = newScene({ deliver: () => finish.promise, window: 1 });
  const emails = [await queued('first@turn.example.net'), await queued('next@turn.example.net')];
  scene.dispatcher.start();
  await waitFor(() => scene.dispatcher.runningCount === 1 && scene.dispatcher.queuedCount === 1, {
    what: 'one delivery to run and one to be queued',
  });
  let hasStopped = false;
  const stopped = scene.dispatcher.stop().then(() => (hasStopped = true));
  await waitFor(async () => (await leaseIdOf(emails[1]!)) === null, { what: 'the second back' });
  assert.equal(hasStopped, false);
  finish.resolve({ kind: 'settled' });
  await stopped;
  assert.deepEqual(scene.taken, ['first@turn.example.net']);
});

test('a provider starts its next attempt before the outcome of the last one is settled', async () => {
  const settled = Promise.withResolvers<DeliverResult>();
  await using scene = newScene({
    window: 1,
    deliver: (delivery) => {
      scene.dispatcher.endAttempt(delivery);
      return settled.promise;
    },
  });
  await queued('one@settling.test');
  await queued('two@settling.test');
  scene.dispatcher.start();
  const both = ['one@settling.test', 'two@settling.test'];
  await waitFor(() => both.every((one) => scene.taken.includes(one)), { what: 'both attempts' });
  assert.equal(scene.dispatcher.runningCount, scene.taken.length);
  settled.resolve({ kind: 'settled' });
});

test('a claim whose reply was lost is released and delivered', async () => {
  let lost = 0;
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      const rows = await db.settling.query<Row>(statement, values);
      const isClaim = typeof statement === 'object' && statement.name === 'claim_oldest';
      const hasTaken = rows.some((row) => 'emailId' in row && row.emailId !== null);
      if (!isClaim || !hasTaken || lost > 0) return rows;
      lost += 1;
      throw new DatabaseUnavailable('connection terminated unexpectedly');
    },
  };
  await using scene = newScene({ queries, unknownFateMs: 300 });
  await queued('unknown@example.net');
  scene.dispatcher.start();
  await waitFor(() => scene.taken.includes('unknown@example.net'), {
    what: 'the unknown claim to be delivered',
  });
  assert.equal(lost, 1);
});

test("claims that are not in the worker's memory are released on request", async () => {
  await using scene = newScene({ unknownFateMs: 300 });
  const [accepted, claimed] = [await queued('once@lost.test'), await queued('again@lost.test')];
  // Like after a fail-over that lost the settlements of both: one was handed over, one was claimed before.
  const hold = `update queue set holder = $1, claim = $2 where email_id = $3`;
  await db.query(hold, [scene.leaseId, 1, accepted.id]);
  await db.query(hold, [scene.leaseId, 2, claimed.id]);
  scene.dispatcher.start();
  scene.checks.asked += 1;
  await waitFor(() => scene.taken.length === 2, { what: 'both deliveries' });
});

test("claims in the worker's memory are not released on request", async () => {
  const finish = Promise.withResolvers<DeliverResult>();
  await using scene = newScene({ unknownFateMs: 0, deliver: () => finish.promise, window: 1 });
  const emails = [await queued('one@known.test'), await queued('two@known.test')];
  scene.dispatcher.start();
  await waitFor(() => scene.dispatcher.runningCount + scene.dispatcher.queuedCount === 2, {
    what: 'both in memory',
  });
  const claims = await Promise.all(emails.map(claimOf));
  const unknown = await queued('unknown@known.test');
  const hold = 'update queue set holder = $1, claim = 2 where email_id = $2';
  await db.query(hold, [scene.leaseId, unknown.id]);
  scene.checks.asked += 1;
  await waitFor(async () => (await claimOf(unknown)) === 3, {
    what: 'the unknown claim to be taken again',
  });
  finish.resolve({ kind: 'settled' });
  for (const email of emails) assert.equal(await leaseIdOf(email), scene.leaseId);
  assert.deepEqual(await Promise.all(emails.map(claimOf)), claims);
});

test('mail that is released while the database is unavailable is not in doubt and keeps its delay', async () => {
  const releases = { refused: 0, isAway: true };
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      if (nameOf(statement) === 'recipients_release' && releases.isAway) {
        releases.refused += 1;
        // After an outage the lease requests a comparison, which precedes the retry of the release.
        scene.checks.asked += 1;
        throw new DatabaseUnavailable('connection refused');
      }
      const rows = await db.settling.query<Row>(statement, values);
      if (releases.refused > 0 && isComparison(statement)) releases.isAway = false;
      return rows;
    },
  };
  await using scene = newScene({
    queries,
    deliver: () => Promise.resolve({ kind: 'release', delayMs: 3_600_000 }),
  });
  const email = await queued('away@release.test');
  scene.dispatcher.start();
  await waitFor(() => releases.refused > 0 && !releases.isAway, { what: 'the comparison' });
  await waitFor(async () => (await leaseIdOf(email)) === null, { what: 'the release' });
  const text = `select in_doubt as "inDoubt", due_at > app_now() + interval '59 minutes' as "isLater"
                  from queue where email_id = $1`;
  assert.deepEqual(await db.query(text, [email.id]), [{ inDoubt: false, isLater: true }]);
});

test('mail whose row another session locks is released with its delay as soon as the row is free', async () => {
  const locked = await queued('locked@release.test');
  const other = await queued('other@release.test');
  const refused = { count: 0 };
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      return db.settling.query<Row>(statement, values).catch((error: unknown) => {
        if (nameOf(statement) === 'recipients_release' && isLockTimeout(error)) refused.count += 1;
        throw error;
      });
    },
  };
  await asOwner(database.address, async (owner) => {
    const lock = async (): Promise<void> => {
      await owner.query('begin');
      await owner.query('select from queue where email_id = $1 for update', [locked.id]);
    };
    await using scene = newScene({
      queries,
      deliver: async ({ address }) => {
        if (address === 'locked@release.test') await lock();
        return { kind: 'release', delayMs: 3_600_000 };
      },
    });
    scene.dispatcher.start();
    await waitFor(() => refused.count >= 3, {
      what: 'the release to be refused',
      timeoutMs: 60_000,
    });
    await waitFor(async () => (await leaseIdOf(other)) === null, { what: 'the other release' });
    await owner.query('rollback');
    await waitFor(async () => (await leaseIdOf(locked)) === null, { what: 'the release' });
  });
  const text = `select in_doubt as "inDoubt", due_at > app_now() + interval '50 minutes' as "isLater"
                  from queue where email_id = $1`;
  assert.deepEqual(await db.query(text, [locked.id]), [{ inDoubt: false, isLater: true }]);
});

const DAMAGED = `
create function damaged() returns trigger language plpgsql as $$
begin raise exception 'invalid page in block 7' using errcode = 'XX001'; end $$;
create trigger damaged before update on queue execute function damaged()`;

test('claims that a damaged table refuses are logged once, and mail leaves when it is repaired', async () => {
  const lines: { level: number; msg: string; err?: { code: string } }[] = [];
  const refused = { count: 0 };
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      return db.settling.query<Row>(statement, values).catch((error: unknown) => {
        refused.count += 1;
        throw error;
      });
    },
  };
  const log = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  await queued('jo@damaged.test');
  await asOwner(database.address, async (owner) => {
    await owner.query(DAMAGED);
    await using scene = newScene({ queries, log });
    scene.dispatcher.start();
    await waitFor(() => refused.count >= 4, { what: 'claims to be refused', timeoutMs: 60_000 });
    const [{ level, err } = { level: 0 }] = lines;
    assert.deepEqual([lines.length, level, err?.code], [1, 50, 'XX001']);
    await owner.query('drop function damaged cascade');
    await waitFor(() => scene.taken.includes('jo@damaged.test'), { what: 'the delivery' });
    await waitFor(() => lines.length === 2, { what: 'the line about the end' });
    assert.equal(lines.at(-1)?.msg, 'this worker can claim due work again');
  });
});

test('a release whose reply was lost does not release a later claim', async () => {
  const finish = Promise.withResolvers<DeliverResult>();
  const claims: number[] = [];
  const releases = { lost: 0, retried: 0 };
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      const rows = await db.settling.query<Row>(statement, values);
      if (nameOf(statement) !== 'recipients_release') return rows;
      if (releases.lost > 0) {
        releases.retried += 1;
        return rows;
      }
      releases.lost += 1;
      throw new DatabaseUnavailable('connection terminated unexpectedly');
    },
  };
  await using scene = newScene({
    queries,
    deliver: ({ address, claim }) => {
      if (address !== 'twice@release.test') return Promise.resolve({ kind: 'settled' });
      claims.push(claim);
      return claims.length > 1 ? finish.promise : Promise.resolve({ kind: 'release', delayMs: 0 });
    },
  });
  const email = await queued('twice@release.test');
  scene.dispatcher.start();
  await waitFor(() => claims.length === 2 && releases.retried > 0, {
    what: 'the second claim and the retry of the release',
  });
  assert.deepEqual([await claimOf(email), await leaseIdOf(email)], [claims[1], scene.leaseId]);
  finish.resolve({ kind: 'settled' });
});

test('a short database outage delays an attempt by its duration', async () => {
  let tries = 0;
  const deliver = (): Promise<DeliverResult> => {
    tries += 1;
    if (tries === 1) return Promise.reject(new DatabaseUnavailable('connection refused'));
    return Promise.resolve({ kind: 'settled' });
  };
  await using scene = newScene({ deliver });
  await queued('patient@example.net');
  scene.dispatcher.start();
  await waitFor(() => tries === 2, { what: 'the second try' });
});

test('an email whose accept had no reply is released within seconds of its commit', async () => {
  await using scene = newScene();
  const email = newEmail(await newSender(db), { to: ['unheard@example.net'] });
  scene.dispatcher.releaseWhenStored([email]);
  const store = new AcceptStore(db.accepting, {
    limit: { max: 100, windowS: 60 },
    leaseId: () => scene.leaseId,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  await store.accept(email);
  assert.equal(await leaseIdOf(email), scene.leaseId);
  await waitFor(async () => (await leaseIdOf(email)) === null, { what: 'it to be free' });
  scene.dispatcher.start();
  await waitFor(() => scene.taken.includes('unheard@example.net'), { what: 'the delivery' });
});

const setClock = (seconds: number) =>
  db.query(`update clock set skew = skew + $1 * interval '1 second'`, [seconds]);

test("mail that is due after the database's clock went back is delivered at once, even in a backlog", async () => {
  await using scene = newScene();
  scene.dispatcher.start();
  await queued('before@clock.test');
  await waitFor(() => scene.taken.includes('before@clock.test'), { what: 'the first delivery' });
  await setClock(-300);
  const one = ['after@clock.test'];
  const many = Array.from({ length: 400 }, (_, index) => `n${index}@clock.test`);
  try {
    await queued(one[0]!);
    await waitFor(() => scene.taken.includes(one[0]!), { what: 'one' });
    await Promise.all(many.map(queued));
    const isTaken = () => many.every((address) => scene.taken.includes(address));
    await waitFor(isTaken, { what: 'the backlog' });
  } finally {
    await setClock(300);
  }
});

test("a backlog is delivered when the database's clock goes back while it waits", async () => {
  const from = await queued('first@step.test');
  const many = Array.from({ length: 400 }, (_, index) => `m${index}@step.test`);
  const open = Promise.withResolvers<void>();
  await using scene = newScene({
    window: 1,
    deliver: (delivery) =>
      delivery.destination === 'step.test' && delivery.message.id !== from.id
        ? open.promise.then(() => ({ kind: 'settled' }))
        : Promise.resolve({ kind: 'settled' }),
  });
  scene.dispatcher.start();
  await waitFor(() => scene.taken.includes('first@step.test'), { what: 'the first delivery' });
  await Promise.all(many.map(queued));
  await waitFor(() => scene.dispatcher.queuedCount > 0, {
    what: 'a part of the backlog in memory',
  });
  await setClock(-300);
  try {
    await db.query(
      `update queue set due_at = app_now() - interval '1 second' where holder is null`,
    );
    open.resolve();
    const isTaken = () => many.every((address) => scene.taken.includes(address));
    await waitFor(isTaken, { what: 'the backlog' });
  } finally {
    await setClock(300);
  }
});
