/**
 * Compares the fast path with the full path: each generated batch is stored by both, from the same state at the same
 * time, and must give the same results and rows.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { newEmail, newSender, type Sender, settlement } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { EVENT_OF_STATUS } from '../core/events.ts';
import type { NewEmail } from '../accept/store/new-email.ts';
import { storeEmails } from '../accept/store/full-path.ts';
import { newId } from '../database/ids.ts';
import { type Queryable, sqlStateOf } from '../database/database.ts';
import { storeFull } from './settle-full-path.ts';
import type { Settlement } from './settlement.ts';
import { fastOutcomesOf, storeFast } from './settle-fast-path.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const RUNS = 40;
const EMAILS_MAX = 8;
const [HOLDER, OTHER] = [newId(), newId()];

/** Picks one of `others` once in `of` times, so that the fast path stores part of most batches. */
const either = <Value>(common: Value, others: readonly Value[], of = 20): fc.Arbitrary<Value> =>
  fc.oneof(
    { weight: of - 1, arbitrary: fc.constant(common) },
    { weight: 1, arbitrary: fc.constantFrom(...others) },
  );
const RARELY = 120;

const RECIPIENT = fc.record({
  status: either('queued', ['failed', 'delivered'], RARELY).chain((status) =>
    status === 'queued' ? fc.constantFrom('queued', 'deferred', 'scheduled') : fc.constant(status),
  ),
  isCompleted: either(false, [true], RARELY),
  attempts: fc.constantFrom(0, 3),
  smtp: fc.constantFrom(null, '{"code": 450}'),
  reason: fc.constantFrom(null, '{"category": "greylisted"}'),
  leaseId: either<string | null>(HOLDER, [OTHER, null]),
  claim: either(1, [2]),
});

const EMAIL = fc.record({
  scope: fc.constantFrom(0, 0, 1, 2),
  from: fc.constantFrom('hello@acme.com', '"a@b"@acme.com'),
  tags: fc.constantFrom<(readonly string[])[]>([], ['receipt']),
  recipients: fc.oneof(
    { weight: 4, arbitrary: fc.tuple(RECIPIENT) },
    fc.array(RECIPIENT, { minLength: 2, maxLength: 3 }),
  ),
  /** An email accepted by SMTP has no key, for example. */
  hasKey: fc.boolean(),
  ageS: fc.constantFrom(0, 4, 90, 100_000),
  wasScheduled: fc.boolean(),
  wasSent: fc.boolean(),
  worst: fc.constantFrom(0, 1, 6),
  /** Breaks the counter, like a bug would. */
  openMissing: either(0, [5], RARELY),
});

const TEXT = fc.oneof(
  { weight: RARELY, arbitrary: fc.constantFrom('250 OK', 'a "quoted" \\ ü {}', 'escape \u001b') },
  { weight: 1, arbitrary: fc.constantFrom('zero \0', 'half \ud800') },
);

const OUTCOME = fc.record({
  email: fc.nat({ max: EMAILS_MAX - 1 }),
  position: either(0, [1, 2], 10),
  claim: either(1, [2]),
  status: either<Settlement['status']>('delivered', ['deferred', 'bounced', 'sent', 'complained']),
  late: either(false, [true]),
  isAttempt: either(true, [false]),
  text: TEXT,
  hasSmtp: fc.boolean(),
  reason: either<string | null>(null, ['greylisted']),
  provider: fc.constantFrom('example.net', 'a "b" \\,{c}'),
  suppresses: either(false, [true]),
});
type Wanted = typeof OUTCOME extends fc.Arbitrary<infer Value> ? Value : never;

const HISTORY = fc.record({
  /** Swaps `sent` and `delivered`, so that most outcomes are `sent`. */
  hasRelay: fc.boolean(),
  emails: fc.array(EMAIL, { minLength: 4, maxLength: EMAILS_MAX, size: 'max' }),
  endpoint: fc.constantFrom(null, [], ['email.delivered', 'email.sent'], ['email.bounced']),
  batches: fc.array(
    fc.uniqueArray(OUTCOME, {
      minLength: 1,
      maxLength: EMAILS_MAX,
      size: 'max',
      // A recipient has one outcome in a batch.
      selector: ({ email, position }) => `${email} ${position}`,
    }),
    { minLength: 2, maxLength: 4, size: 'max' },
  ),
});
type History = typeof HISTORY extends fc.Arbitrary<infer Value> ? Value : never;
type StoredEmail = History['emails'][number];

const QUEUED: StoredEmail['recipients'][number] = {
  status: 'queued',
  isCompleted: false,
  attempts: 0,
  smtp: null,
  reason: null,
  leaseId: HOLDER,
  claim: 1,
};
const STORED: StoredEmail = {
  scope: 0,
  from: 'hello@acme.com',
  tags: [],
  recipients: [QUEUED],
  hasKey: true,
  ageS: 4,
  wasScheduled: false,
  wasSent: false,
  worst: 0,
  openMissing: 0,
};
const DELIVERED: Wanted = {
  email: 0,
  position: 0,
  claim: 1,
  status: 'delivered',
  late: false,
  isAttempt: true,
  text: '250 OK',
  hasSmtp: true,
  reason: null,
  provider: 'example.net',
  suppresses: false,
};
const ENDED: StoredEmail = {
  ...STORED,
  recipients: [{ ...QUEUED, status: 'delivered', isCompleted: true }],
};
/** Makes the fast path fail: a recipient that has ended but is still queued. Not every run generates one. */
const FAILING: History = {
  hasRelay: false,
  emails: [STORED, ENDED],
  endpoint: null,
  batches: [[DELIVERED, { ...DELIVERED, email: 1 }]],
};
type Scoped = Omit<Sender, 'environment'> & { environment: NewEmail['environment'] };

async function newScopes(endpoint: History['endpoint']): Promise<Scoped[]> {
  const [one, other] = [await newSender(db), await newSender(db)];
  if (endpoint !== null) {
    const events = endpoint.length === 0 ? null : (endpoint as ['email.delivered', 'email.sent']);
    const rest = { url: 'https://x.test', events, secret: Buffer.from('x') };
    await createEndpoint(db, one, { id: newId(), ...rest });
    await createEndpoint(db, one, { id: newId(), ...rest });
  }
  return [one, { ...one, environment: 'test' }, other];
}

async function store(tx: Queryable, wanted: StoredEmail, scope: Scoped): Promise<NewEmail> {
  const to = wanted.recipients.map((_, index) => `jo${index}@example.net`);
  const email: NewEmail = {
    ...newEmail(scope as Sender, { to }),
    environment: 'live',
    tags: wanted.tags.map((value) => ({ name: 'kind', value })),
  };
  const options = {
    limit: { max: 1_000, windowS: 60 },
    leaseId: HOLDER,
    onWebhooksQueued: () => {},
  };
  const [row] = await storeEmails(tx, [email], options);
  assert.equal(row?.outcome, 'accepted');
  await tx.query(
    `update emails set created_at = created_at - $2::int * interval '1 second', from_address = $3,
            scheduled_at = case when $4 then created_at - interval '2 seconds' end,
            sent_at = case when $5 then created_at end, worst = $6, open_count = open_count - $7,
            key_id = case when $8 then key_id end, environment = $9
      where id = $1`,
    [
      email.id,
      wanted.ageS,
      wanted.from,
      wanted.wasScheduled,
      wanted.wasSent,
      wanted.worst,
      Math.min(wanted.openMissing, to.length),
      wanted.hasKey,
      scope.environment,
    ],
  );
  for (const [position, one] of wanted.recipients.entries()) {
    await tx.query(
      `update recipients set status = $3, attempts = $4, smtp = $5, reason = $6,
              completed_at = case when $7 then app_now() end
        where email_id = $1 and position = $2`,
      [email.id, position, one.status, one.attempts, one.smtp, one.reason, one.isCompleted],
    );
    await tx.query(
      `update queue set holder = $3, claim = $4, environment = $5
        where email_id = $1 and position = $2`,
      [email.id, position, one.leaseId, one.claim, scope.environment],
    );
  }
  return { ...email, environment: scope.environment };
}

function throughRelay(wanted: Wanted): Wanted {
  const swapped = { delivered: 'sent', sent: 'delivered' } as const;
  const { status } = wanted;
  return status === 'delivered' || status === 'sent'
    ? { ...wanted, status: swapped[status] }
    : wanted;
}

function settlementOf(wanted: Wanted, email: NewEmail): Settlement {
  const { status, text, late } = wanted;
  const suppress = { reason: 'hard_bounce', days: 7, eventId: newId() } as const;
  return settlement(email, {
    position: wanted.position,
    claim: wanted.claim,
    status,
    eventType: EVENT_OF_STATUS[status],
    data: { email_id: email.id, subject: text, status },
    attempt: wanted.isAttempt ? { number: 1, transcript: [text] } : null,
    smtp: wanted.hasSmtp ? { code: 250, message: text } : null,
    reason: wanted.reason === null ? null : { category: wanted.reason },
    retryMs: status === 'deferred' ? 60_000 : null,
    provider: wanted.provider,
    suppress: wanted.suppresses ? { ...suppress, address: email.to[0]!.address } : null,
    late,
  });
}

const TABLES = [
  'emails',
  'recipients',
  'queue',
  'events',
  'suppressions',
  'suppression_history',
  'webhook_deliveries',
  'webhook_queue',
  'stats_deltas',
];

const ROWS = TABLES.map(
  (table) => `select '${table}' as name, to_jsonb(stored)::text as row from ${table} stored
               where project_id = any($1)`,
).join(' union all ');

function rowsOf(tx: Queryable, scopes: readonly Scoped[]): Promise<object[]> {
  const projects = scopes.map(({ projectId }) => projectId);
  return tx.query(`select * from (${ROWS}) order by name, row`, [projects]);
}

type Stored = { counted: boolean[]; hasQueuedWebhooks: boolean };

/** Runs `write`. @returns the SQLSTATE if it fails and is rolled back */
async function orUndone<Result>(
  tx: Queryable,
  write: () => Promise<Result>,
): Promise<Result | string> {
  await tx.query('savepoint stored');
  try {
    const result = await write();
    await tx.query('release savepoint stored');
    return result;
  } catch (error) {
    await tx.query('rollback to savepoint stored');
    return sqlStateOf(error) ?? 'none';
  }
}

async function full(tx: Queryable, batch: readonly Settlement[]): Promise<Stored> {
  const { counted, queuedWebhooks } = await storeFull(tx, batch, {
    leaseId: HOLDER,
    extent: 'all',
  });
  return { counted, hasQueuedWebhooks: queuedWebhooks > 0 };
}

const seen = { stored: 0, left: 0, failed: 0, refused: 0, queuedWebhooks: 0 };

/** Tries the fast path first, and the full path for skipped outcomes, like the store. */
async function shortThenFull(tx: Queryable, batch: readonly Settlement[]): Promise<Stored> {
  const fast = fastOutcomesOf(batch);
  const short = fast.length > 0 && (await orUndone(tx, () => storeFast(tx, fast, HOLDER)));
  const { stored, queuedWebhooks } =
    typeof short === 'object' ? short : { stored: [], queuedWebhooks: 0 };
  if (typeof short === 'string') seen.failed += 1;
  const left = batch.filter((one) => !stored.includes(one));
  const rest = left.length > 0 ? await full(tx, left) : { counted: [], hasQueuedWebhooks: false };
  seen.stored += stored.length;
  seen.left += fast.length - stored.length;
  if (queuedWebhooks > 0) seen.queuedWebhooks += 1;
  return {
    counted: batch.map((one) => stored.includes(one) || rest.counted[left.indexOf(one)]!),
    hasQueuedWebhooks: queuedWebhooks > 0 || rest.hasQueuedWebhooks,
  };
}

test('both paths give the same results and leave the same rows', async () => {
  await fc.assert(
    fc.asyncProperty(HISTORY, async ({ emails: wanted, endpoint, hasRelay, batches }) => {
      const scopes = await newScopes(endpoint);
      const emails = await db.accepting.transaction(async (tx) => {
        const stored: NewEmail[] = [];
        for (const one of wanted) stored.push(await store(tx, one, scopes[one.scope]!));
        return stored;
      });
      for (const outcomes of batches) {
        const batch = outcomes
          .filter(({ email }) => email < emails.length)
          .map((one) => (hasRelay ? throughRelay(one) : one))
          .map((one) => settlementOf(one, emails[one.email]!));
        if (batch.length === 0) continue;
        await db.accepting.transaction(async (tx) => {
          const tried = async (write: typeof full): Promise<object> => {
            await tx.query('savepoint tried');
            const result = await orUndone(tx, () => write(tx, batch));
            const rows = await rowsOf(tx, scopes);
            await tx.query('rollback to savepoint tried');
            return { result, rows };
          };
          assert.deepEqual(await tried(shortThenFull), await tried(full));
          const result = await orUndone(tx, () => full(tx, batch));
          if (typeof result === 'string') seen.refused += 1;
        });
      }
    }),
    { numRuns: RUNS, examples: [[FAILING]] },
  );
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `nothing ${what}`);
});

test('the fast path stores outcomes of a relay, in separate batches', async () => {
  const sender = await newSender(db);
  const emails = [0, 1, 2].map(() => newEmail(sender));
  const sent = emails.map((email) =>
    settlement(email, { status: 'sent', eventType: EVENT_OF_STATUS.sent }),
  );
  assert.equal(fastOutcomesOf(sent).length, 3);
  assert.deepEqual(
    fastOutcomesOf([...sent, settlement(newEmail(sender))]).map(({ status }) => status),
    ['sent', 'sent', 'sent'],
  );
});

test('a locked email is skipped without waiting for its lock', async () => {
  const sender = await newSender(db);
  const emails = [0, 1, 2].map(() => newEmail(sender));
  const options = {
    limit: { max: 1_000, windowS: 60 },
    leaseId: HOLDER,
    onWebhooksQueued: () => {},
  };
  await storeEmails(db.accepting, emails, options);
  const [, locked] = emails;
  const fast = fastOutcomesOf(emails.map((email) => settlement(email)));
  const { stored } = await db.transaction(async (tx) => {
    await tx.query('select from emails where id = $1 for update', [locked!.id]);
    return storeFast(db.settling, fast, HOLDER);
  });
  assert.deepEqual(
    stored.map(({ emailId }) => emailId).toSorted(),
    emails.filter((email) => email !== locked).map(({ id }) => id),
  );
});
