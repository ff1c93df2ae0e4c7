/** The sending limit over several workers, with most emails counted in its blocks. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { address } from '../../../../test/support/deliveries.ts';
import {
  acceptAll,
  emailBatch,
  newEmail,
  newSender,
  type Sender,
} from '../../../../test/support/mail-store.ts';
import { asOwner, testDatabase } from '../../../../test/support/postgres.ts';
import { waitFor } from '../../../../test/support/wait.ts';
import { AcceptStore } from '../accept-store.ts';
import type { EmailResult, NewEmail } from '../new-email.ts';
import { shareLimits } from './limit-blocks.ts';
import { peekLimit, setLimit } from '../../../accounts/limits/limit-store.ts';
import { APP_ROLE, Database, type Queryable, type Statement } from '../../../database/database.ts';
import { addSuppression } from '../../../suppressions/suppression-store.ts';

const WORKERS = 4;
const RUNS = 25;
/** Long enough that no window ends in a test that does not move the clock. */
const WINDOW_S = 3_600;
const LIMIT = { max: 100, windowS: WINDOW_S };
const SUPPRESSED = 'gone@example.net';

const database = await testDatabase();
const { db } = database;
const connections = Array.from(
  { length: WORKERS },
  (_, index) => new Database(database.address, { role: APP_ROLE, name: `worker ${index}` }),
);
const workers = connections.map(
  ({ accepting }) =>
    new AcceptStore(accepting, {
      limit: LIMIT,
      leaseId: () => null,
      onWebhooksQueued: () => {},
      onUnknown: () => {},
    }),
);
after(async () => {
  for (const connection of connections) await connection.close();
  await database[Symbol.asyncDispose]();
});

const workerOf = (number: number): AcceptStore => workers[number % WORKERS]!;
const sending = (sender: Sender) => ({ ...sender, category: 'sending' as const });

async function passSeconds(seconds: number): Promise<void> {
  await db.query(`update clock set skew = skew + $1 * interval '1 second'`, [seconds]);
}

type Counts = { used: number; recipients: number; permits: number; stored: number };

/** The counts without the remaining permits of blocks, and the number of stored emails. */
async function countsOf({ projectId }: Sender): Promise<Counts> {
  const [row] = await db.query<Counts>(
    `select used - blocks.permits as used, recipients_used - blocks.recipients_permits as recipients,
            blocks.permits, (select count(*)::int from emails where project_id = $1) as stored
       from limit_windows,
            lateral (select coalesce(sum(permits) filter (
                              where started_at = limit_windows.started_at), 0)::int as permits,
                            coalesce(sum(permits) filter (
                              where recipients_started_at = limit_windows.recipients_started_at), 0)::int
                              as recipients_permits
                       from limit_blocks where project_id = $1 and environment = 'live') blocks
      where project_id = $1 and environment = 'live' and category = 'sending'`,
    [projectId],
  );
  assert.ok(row);
  return row;
}

function emailsOf(sender: Sender, count: number): NewEmail[] {
  return Array.from({ length: count }, () => newEmail(sender));
}

/** Sends emails at all workers at once. @returns the number of each outcome */
async function sendAtAll(sender: Sender, count: number): Promise<Record<string, number>> {
  const emails = emailsOf(sender, count);
  const rows = await Promise.all(
    emails.map((email, index) =>
      workerOf(index)
        .accept(email)
        .catch(() => null),
    ),
  );
  return Object.fromEntries(
    [...Map.groupBy(rows, (row) => row?.outcome ?? 'failed')].map(([outcome, group]) => [
      outcome,
      group.length,
    ]),
  );
}

async function blocksOf({ projectId }: Sender): Promise<number> {
  const count = 'select count(*)::int as count from limit_blocks where project_id = $1';
  const [row] = await db.query<{ count: number }>(count, [projectId]);
  return row?.count ?? 0;
}

/** Returns a sender whose limit has filled blocks, and the number of emails it has sent. */
async function senderWithBlocks(max: number): Promise<{ sender: Sender; sent: number }> {
  const sender = await newSender(db, max);
  await sendAtAll(sender, 1_200);
  const isMade = async () => {
    await sendAtAll(sender, 1);
    return (await blocksOf(sender)) > 0;
  };
  await waitFor(isMade, { what: 'blocks' });
  // Blocks are filled once they are a minute old.
  await passSeconds(61);
  await sendAtAll(sender, 10);
  const { permits, used } = await countsOf(sender);
  assert.ok(permits > 0, 'the blocks are empty');
  return { sender, sent: used };
}

type Block = { permits: number; of: 'present' | 'earlier window' | 'earlier limit' };

/** Sets the state of the window: partly used, partly in blocks, some of them of an earlier window or limit. */
async function enter(
  sender: Sender,
  state: { max: number; recipientsMax: number | null; used: number; blocks: readonly Block[] },
): Promise<void> {
  const { max, recipientsMax, used, blocks } = state;
  const setAside = blocks
    .filter(({ of }) => of !== 'earlier window')
    .reduce((sum, { permits }) => sum + permits, 0);
  await db.query(
    `update limit_windows
        set max = $2, recipients_max = $3, used = $4, recipients_used = $4, started_at = app_now(),
            has_blocks = true, recipients_started_at = app_now()
      where project_id = $1 and category = 'sending'`,
    [sender.projectId, max, recipientsMax, used + setAside],
  );
  const limits = [max, WINDOW_S, recipientsMax ?? max * 50, WINDOW_S];
  for (const [slot, { permits, of }] of blocks.entries()) {
    await db.query(
      `insert into limit_blocks (project_id, environment, slot, made_at, started_at,
                                 recipients_started_at, limits, permits)
       select project_id, environment, $2, app_now() - interval '1 hour',
              started_at - $3 * interval '1 s', recipients_started_at - $3 * interval '1 s', $4, $5
         from limit_windows
        where project_id = $1 and environment = 'live' and category = 'sending'`,
      [
        sender.projectId,
        slot,
        of === 'earlier window' ? 100 : 0,
        of === 'earlier limit' ? [max + 1, WINDOW_S, max * 50, WINDOW_S] : limits,
        permits,
      ],
    );
  }
}

const REQUEST = fc.record({
  worker: fc.nat(WORKERS - 1),
  kind: fc.oneof(
    { weight: 8, arbitrary: fc.constant('to one' as const) },
    fc.constantFrom('to three', 'to nobody', 'strict batch', 'permissive batch'),
  ),
  emails: fc.integer({ min: 1, max: 12 }),
});
type Request = typeof REQUEST extends fc.Arbitrary<infer Value> ? Value : never;

const SITUATION = fc.record({
  max: fc.integer({ min: 20, max: 150 }),
  recipientsMax: fc.option(fc.integer({ min: 20, max: 200 })),
  used: fc.integer({ min: 0, max: 15 }),
  /** Percentages of the remaining permits, together at most 100. */
  blocks: fc.array(
    fc.record({
      part: fc.integer({ min: 0, max: 12 }),
      of: fc.constantFrom('present', 'present', 'present', 'earlier window', 'earlier limit'),
    }),
    { maxLength: 8 },
  ),
  requests: fc.array(REQUEST, { minLength: 30, maxLength: 120 }),
});

type Answered = {
  rows: readonly EmailResult[];
  emails: readonly NewEmail[];
  kind: Request['kind'];
};

async function ask(sender: Sender, { worker, kind, emails: count }: Request): Promise<Answered> {
  const store = workerOf(worker);
  if (kind === 'strict batch' || kind === 'permissive batch') {
    const emails = emailsOf(sender, count);
    const batch = emailBatch(emails, { permissive: kind === 'permissive batch' });
    return { rows: await store.acceptBatch(batch), emails, kind };
  }
  const to = {
    'to one': ['jo@example.net'],
    'to three': ['a@example.net', 'b@example.net', 'c@example.net'],
    'to nobody': [SUPPRESSED],
  }[kind];
  const email = newEmail(sender, { to });
  return { rows: [await store.accept(email)], emails: [email], kind };
}

test('racing emails never exceed the limit, and none is refused while capacity is left', async () => {
  await fc.assert(
    fc.asyncProperty(SITUATION, async ({ max, recipientsMax, used, blocks, requests }) => {
      const sender = await newSender(db, max);
      await setLimit(db, sending(sender), { max, windowS: WINDOW_S });
      const entry = { reason: 'manual', sourceEmailId: null, expiresAt: null, by: 'api' } as const;
      await addSuppression(db, sender, { address: address(SUPPRESSED), ...entry });
      const room = Math.min(max, recipientsMax ?? max) - used;
      await enter(sender, {
        max,
        recipientsMax,
        used,
        blocks: blocks.map(({ part, of }) => ({ of, permits: Math.floor((room * part) / 100) })),
      });
      const answers = await Promise.all(requests.map((request) => ask(sender, request)));
      const counts = await countsOf(sender);
      const accepted = answers.flatMap(({ rows, emails }) =>
        emails.filter((_, index) => rows[index]?.outcome === 'accepted'),
      );
      const recipients = accepted.reduce((sum, email) => sum + email.recipients.length, 0);
      assert.equal(counts.stored, accepted.length);
      assert.equal(counts.used, used + accepted.length);
      assert.equal(counts.recipients, used + recipients);
      const left = max - counts.used;
      const leftRecipients = (recipientsMax ?? max * 50) - counts.recipients;
      assert.ok(left >= 0 && leftRecipients >= 0, `${left} and ${leftRecipients} are left`);
      assert.equal((await peekLimit(db, sending(sender), LIMIT)).remaining, left);
      for (const { rows, emails, kind } of answers) {
        const isRefused = rows.some(({ outcome }) => outcome === 'limited');
        // The remaining number never grows, so a refused email has no capacity now.
        const size = kind === 'strict batch' ? emails.length : 1;
        const needed = size * emails[0]!.recipients.length;
        assert.ok(!isRefused || size > left || needed > leftRecipients, `${kind} had capacity`);
        for (const { limit } of rows) assert.ok(limit!.remaining >= 0);
      }
    }),
    { numRuns: RUNS },
  );
});

test('blocks are filled, used up by all workers and taken back for the last email', async () => {
  const { sender, sent } = await senderWithBlocks(4_000);
  const first = await sendAtAll(sender, 1_500);
  assert.deepEqual(first, { accepted: 1_500 });
  const state = await peekLimit(db, sending(sender), LIMIT);
  assert.equal(state.remaining, 4_000 - sent - 1_500);
  const rest = await sendAtAll(sender, 4_000 - sent - 1_500 + 50);
  assert.deepEqual(rest, { accepted: 4_000 - sent - 1_500, limited: 50 });
  assert.deepEqual(await countsOf(sender), {
    used: 4_000,
    recipients: 4_000,
    permits: 0,
    stored: 4_000,
  });
});

test('a batch stays within the limit when another statement refills blocks between taking them back and the insert', async () => {
  const sender = await newSender(db, 100_000);
  const filled = Array.from({ length: 8 }, () => ({ permits: 300, of: 'present' as const }));
  const limit = { max: 100_000, recipientsMax: 4_000 };
  await enter(sender, { ...limit, used: 0, blocks: filled });
  const wanted = { projectId: sender.projectId, environment: 'live' as const };
  let refills = 0;
  const queries: Queryable = {
    async query<Row extends object>(statement: Statement | string, values?: readonly unknown[]) {
      const name = typeof statement === 'string' ? '' : statement.name;
      const rows = await db.accepting.query<Row>(statement, values);
      if (name !== 'share_limits' || refills > 0) return rows;
      refills += 1;
      assert.equal((await countsOf(sender)).permits, 0);
      await shareLimits(db, [{ ...wanted, emails: 1, recipients: 1 }], { limit: LIMIT });
      assert.equal((await countsOf(sender)).permits, 8 * 250);
      return rows;
    },
  };
  const store = new AcceptStore(queries, {
    limit: LIMIT,
    leaseId: () => null,
    onWebhooksQueued: () => {},
    onUnknown: () => {},
  });
  // More than half of what is left: 2,100 recipients of 4,000.
  const to = Array.from({ length: 21 }, (_, index) => `jo${index}@example.net`);
  const batch = () =>
    emailBatch(Array.from({ length: 100 }, () => newEmail(sender, { to, mayHandOver: false })));
  const outcomesOf = async () => {
    const rows = await store.acceptBatch(batch());
    return [...new Set(rows.map(({ outcome }) => outcome))].toSorted();
  };
  assert.deepEqual(await outcomesOf(), ['accepted']);
  assert.equal(refills, 1);
  assert.deepEqual(await outcomesOf(), ['batch_refused', 'limited']);
  const { recipients, stored } = await countsOf(sender);
  assert.deepEqual([recipients, stored], [2_100, 100]);
});

test('the remaining number counts down by one with each email, whichever worker accepts it', async () => {
  const { sender, sent } = await senderWithBlocks(4_000);
  for (let number = 1; number <= 20; number += 1) {
    const { limit } = await workerOf(number).accept(newEmail(sender));
    assert.equal(limit?.remaining, 4_000 - sent - number);
    assert.equal(limit?.limit, 4_000);
  }
});

test('emails are accepted while another transaction locks the limit row', async () => {
  const { sender } = await senderWithBlocks(4_000);
  await db.accepting.transaction(async (tx) => {
    await tx.query('select from limit_windows where project_id = $1 for update', [
      sender.projectId,
    ]);
    const { count } = await acceptAll(workerOf(0), emailsOf(sender, 3));
    assert.equal(count('accepted'), 3);
  });
});

test('permits of a worker that dies are not lost', async () => {
  const { sender } = await senderWithBlocks(4_000);
  const wave = sendAtAll(sender, 1_200);
  await asOwner(database.address, async (owner) => {
    await owner.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
        where application_name in ('letterhaus worker 1 accept', 'letterhaus worker 2 accept')`,
    );
  });
  await wave;
  let outcomes = await sendAtAll(sender, 1_000);
  while (!outcomes['limited']) outcomes = await sendAtAll(sender, 1_000);
  assert.deepEqual(await countsOf(sender), {
    used: 4_000,
    recipients: 4_000,
    permits: 0,
    stored: 4_000,
  });
});

test('blocks are void when the next window begins', async () => {
  const { sender } = await senderWithBlocks(4_000);
  for (const seconds of [WINDOW_S + 1, -90]) {
    await passSeconds(seconds);
    const row = await workerOf(1).accept(newEmail(sender));
    assert.equal(row.limit?.remaining, 3_999);
    const { used, permits } = await countsOf(sender);
    assert.deepEqual({ used, permits }, { used: 1, permits: 0 });
    await sendAtAll(sender, 100);
  }
});

test('a limit lowered below the used number refuses at once; raised again, it has all remaining permits', async () => {
  const { sender, sent } = await senderWithBlocks(4_000);
  await setLimit(db, sending(sender), { max: sent, windowS: WINDOW_S });
  const refused = await workerOf(0).accept(newEmail(sender));
  assert.equal(refused.outcome, 'limited');
  assert.equal(refused.limit?.remaining, 0);
  await setLimit(db, sending(sender), { max: sent + 30, windowS: WINDOW_S });
  assert.deepEqual(await sendAtAll(sender, 40), { accepted: 30, limited: 10 });
});

test('requests with one idempotency key at several workers make one email', async () => {
  const { sender } = await senderWithBlocks(4_000);
  const idempotency = { key: 'order 1', fingerprint: '00' };
  const rows = await Promise.all(
    workers.map((worker) => worker.accept(newEmail(sender, { idempotency }))),
  );
  const outcomes = rows.map(({ outcome }) => outcome).toSorted();
  assert.deepEqual(outcomes, ['accepted', 'repeated', 'repeated', 'repeated']);
});
