/**
 * Compares the fast path with the full path: each generated batch is stored by both, from the same state at the same
 * time, and must give the same results and rows.
 */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { address } from '../../../test/support/deliveries.ts';
import { emailBatch, newEmail, newSender, type Sender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import type { EmailResult, NewEmail } from './new-email.ts';
import {
  type FastPathOptions,
  isForFastPath,
  storeEmailsFast,
  storeBatchFast,
} from './fast-path.ts';
import { storeEmails, storeBatch } from './full-path.ts';
import { insertDomain } from '../../domains/domain-store.ts';
import { ALLOW_ALL } from '../../core/scope.ts';
import { newId } from '../../database/ids.ts';
import { createKey } from '../../accounts/keys/key-store.ts';
import type { Queryable } from '../../database/database.ts';
import { addSuppression } from '../../suppressions/suppression-store.ts';
import { createEndpoint } from '../../webhooks/endpoint-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const RUNS = 40;
const HOLDER = newId();
const BASE = 'https://links.acme.com';
const KEYS = ['valid', 'revoked', 'expired', 'of enforced.com', 'with lists'] as const;
const LISTS = { ...ALLOW_ALL, allowedSenders: ['acme.com'], allowedRecipients: ['example.net'] };
const DOMAINS = {
  'enforced.com': `tls = 'enforced', ed25519_verified = true`,
  'tracked.com': 'track_opens = true, track_clicks = true',
  'paused.com': 'paused_at = app_now()',
  'pending.com': `status = 'pending'`,
  'removed.com': 'deleted_at = app_now()',
};
const SUPPRESSED = 'gone@example.net';
const SUPPRESSED_IN_OTHER_CASE = 'WEG-\u00d6@example.net';
const NO_LONGER_SUPPRESSED = 'back@example.net';

type Scoped = Omit<Sender, 'environment'> & { environment: NewEmail['environment'] };
type Keys = Record<(typeof KEYS)[number], string>;
type Stage = { scope: Scoped; keys: Keys }[];

/** Two projects, one of them with both environments. */
async function setStage(): Promise<Stage> {
  const [one, other] = [await newSender(db), await newSender(db)];
  const scopes: Scoped[] = [one, { ...one, environment: 'test' }, other];
  const stage: Stage = [];
  for (const scope of scopes) {
    const keys = {} as Keys;
    for (const name of KEYS) {
      const domain = name === 'of enforced.com' ? 'enforced.com' : null;
      const rights = { permission: 'full_access', domain, expiresAt: null } as const;
      const lists = name === 'with lists' ? LISTS : ALLOW_ALL;
      keys[name] = (await createKey(db, scope, { name, ...rights, ...lists })).key.id;
    }
    await db.query('update api_keys set revoked_at = app_now() where id = $1', [keys.revoked]);
    await db.query('update api_keys set expires_at = app_now() where id = $1', [keys.expired]);
    for (const [name, state] of Object.entries({ 'acme.com': 'tls = tls', ...DOMAINS })) {
      await addDomain(scope, name, state);
    }
    const past = new Date(Date.now() - 60_000);
    const entry = { reason: 'manual', sourceEmailId: null, by: 'api' } as const;
    for (const gone of [SUPPRESSED, SUPPRESSED_IN_OTHER_CASE.toLowerCase()]) {
      await addSuppression(db, scope, { ...entry, address: address(gone), expiresAt: null });
    }
    await addSuppression(db, scope, {
      ...entry,
      address: address(NO_LONGER_SUPPRESSED),
      expiresAt: past,
    });
    stage.push({ scope, keys });
  }
  return stage;
}

async function addDomain(scope: Scoped, name: string, state: string): Promise<void> {
  const sealed = Buffer.from('sealed');
  if (name !== 'acme.com' || scope.environment === 'test') {
    await insertDomain(db, {
      ...scope,
      id: newId(),
      name,
      status: 'verified',
      rsaSelector: 'one',
      rsaPublicKey: '',
      rsaPrivateKey: sealed,
      ed25519Selector: 'two',
      ed25519PublicKey: '',
      ed25519PrivateKey: sealed,
      ed25519Verified: false,
      records: [],
      advice: [],
    });
  }
  await db.query(
    `update domains set ${state} where project_id = $1 and environment = $2 and name = $3`,
    [scope.projectId, scope.environment, name],
  );
}

/** Picks the frequent value most of the time, so that the fast path stores part of most batches. */
const often = <Value>(frequent: Value, ...others: readonly Value[]): fc.Arbitrary<Value> =>
  fc.oneof({ weight: 8, arbitrary: fc.constant(frequent) }, fc.constantFrom(...others));

const EMAIL = fc.record({
  scope: often(0, 1, 2),
  key: fc.oneof(
    { weight: 2, arbitrary: fc.constant<(typeof KEYS)[number]>('with lists') },
    { weight: 8, arbitrary: often<(typeof KEYS)[number]>('valid', ...KEYS) },
  ),
  domain: often('acme.com', 'enforced.com', 'tracked.com', ...Object.keys(DOMAINS), 'no.com'),
  fromName: fc.constantFrom(null, 'The "Shop"', 'Zoë, 2'),
  to: often(
    'jo@example.net',
    'Kim@Example.net',
    'J\u00d6RG@example.net',
    SUPPRESSED,
    SUPPRESSED_IN_OTHER_CASE,
    NO_LONGER_SUPPRESSED,
  ),
  toName: fc.constantFrom(null, 'Jo {1}, "2"'),
  replyTo: often<readonly string[]>([], ['a@acme.com'], ['a@acme.com', 'b"\\{@acme.com']),
  tags: often<readonly string[]>([], ['receipt'], ['a', 'b']),
  metadata: fc.constantFrom({}, { order: '47"\\11' }),
  headers: fc.constantFrom<NewEmail['headers']>([], [['X-Order', '"4711"']]),
  attachment: fc.constantFrom(null, 'YWJj'),
  raw: often<Buffer | null>(null, Buffer.from([0, 255, 10])),
  text: fc.constantFrom(null, '', 'null', 'Hello, {"you"} \\ ü'),
  unsubscribeUrl: fc.constantFrom(null, 'https://acme.com/u'),
  tls: fc.constantFrom<NewEmail['tls']>(null, 'enforced', 'opportunistic'),
  tracking: fc.record({
    opens: fc.constantFrom(null, true, false),
    clicks: fc.constantFrom(null, true, false),
    base: fc.constantFrom(null, BASE),
  }),
  lifetimeS: fc.constantFrom(60, 3_600),
  mayHandOver: fc.boolean(),
  acceptsSuppressed: fc.constantFrom(undefined, false, true),
  /** False: this process does not know of the lists of the key yet. */
  knowsLists: fc.boolean(),
  idempotencyKey: fc.option(fc.integer({ min: 0, max: 30 })),
});
type Wanted = typeof EMAIL extends fc.Arbitrary<infer Value> ? Value : never;

const STATE = fc.record({
  max: often(100, 0, 3, 8),
  used: fc.constantFrom(0, 3, 98),
  recipientsMax: often<number | null>(null, 2, 8),
  /** The permits of each block. */
  blocks: fc.constantFrom<readonly number[]>([], [1, 20], [12, 0, 9]),
  /** Seconds since the start of the window. */
  startedS: fc.constantFrom(30, 30, 30, 120, -3_600),
  endpoint: fc.constantFrom(null, [], ['email.queued'], ['email.bounced']),
  leaseId: often<string | null>(HOLDER, null),
  recipientLimit: often<FastPathOptions['recipientLimit']>(null, { max: 5, windowS: 10 }),
  keysExpire: often(false, true),
});
type State = typeof STATE extends fc.Arbitrary<infer Value> ? Value : never;

const BATCH = fc.record({
  state: STATE,
  emails: fc.uniqueArray(EMAIL, {
    minLength: 1,
    maxLength: 12,
    // Equal keys never share a batch.
    selector: ({ scope, idempotencyKey: key }) => (key === null ? Symbol() : `${scope} ${key}`),
  }),
  together: fc.constantFrom(null, null, null, 'strict', 'permissive'),
});

function emailOf(wanted: Wanted, stage: Stage): NewEmail {
  const { scope, keys } = stage[wanted.scope]!;
  const { idempotencyKey: key } = wanted;
  const id = newId();
  const mayUseLists = wanted.key === 'with lists' && wanted.domain === 'acme.com';
  return {
    ...newEmail(scope as Sender, { to: [wanted.to] }),
    ...wanted,
    id,
    environment: scope.environment,
    keyId: keys[wanted.key],
    from: { name: wanted.fromName, address: address(`hello@${wanted.domain}`) },
    to: [{ name: wanted.toName, address: address(wanted.to) }],
    replyTo: wanted.replyTo.map((one) => ({
      name: null,
      address: one as NewEmail['from']['address'],
    })),
    tags: wanted.tags.map((value) => ({ name: 'kind', value })),
    attachments: wanted.attachment === null ? [] : [attachmentOf(wanted.attachment)],
    submitted: wanted.raw && { raw: wanted.raw, messageId: `<${id}@acme.com>` },
    eventData: { email_id: id, subject: 'quote " and \\ and ü', status: 'queued' },
    response: JSON.stringify({ id, status: '@status', created_at: '@created_at' }),
    acceptsSuppressed: wanted.acceptsSuppressed ?? false,
    allowLists: wanted.knowsLists && mayUseLists ? LISTS : ALLOW_ALL,
    idempotency: key === null ? null : { key: `order ${key}`, fingerprint: '00ff' },
  };
}

function attachmentOf(content: string): NewEmail['attachments'][number] {
  return { filename: 'terms "2".pdf', contentType: 'application/pdf', contentId: null, content };
}

async function enter(tx: Queryable, stage: Stage, state: State): Promise<void> {
  const { max, used, recipientsMax, startedS, endpoint, keysExpire } = state;
  const projects = stage.map(({ scope }) => scope.projectId);
  await tx.query(
    `update limit_windows
        set max = $2, used = $3, recipients_max = $4, recipients_used = $3, has_blocks = false,
            started_at = app_now() - $5::int * interval '1 second',
            recipients_started_at = app_now() - $5::int * interval '1 second'
      where project_id = any($1) and category = 'sending'`,
    [projects, max, used, recipientsMax, startedS],
  );
  await setBlocks(tx, projects, state);
  await tx.query('delete from webhook_endpoints where project_id = any($1)', [projects]);
  if (endpoint !== null) {
    const events = endpoint.length === 0 ? null : (endpoint as ['email.queued']);
    const one = { id: newId(), url: 'https://x.test', events, secret: Buffer.from('x') };
    await createEndpoint(tx, stage[0]!.scope, one);
  }
  if (!keysExpire) return;
  await tx.query('update idempotency set expires_at = app_now() where project_id = any($1)', [
    projects,
  ]);
}

/** Fills blocks of the current window with these permits, if the limits are high enough. */
async function setBlocks(
  tx: Queryable,
  projects: readonly string[],
  { blocks, recipientLimit }: State,
): Promise<void> {
  await tx.query('delete from limit_blocks where project_id = any($1)', [projects]);
  await tx.query(
    `with room as (
       select limit_windows.*, array[limit_windows.max, 60, recipient_limit.max, coalesce($4, 60)] as limits,
              granted.sum
         from limit_windows,
              (select sum(permits)::int as sum from unnest($2::int[]) permits) granted,
              lateral (select coalesce(limit_windows.recipients_max, $3, limit_windows.max * 50) as max)
                recipient_limit
        where project_id = any($1) and category = 'sending'
          and granted.sum <= limit_windows.max - used and granted.sum <= recipient_limit.max - recipients_used
     ), made as (
       insert into limit_blocks (project_id, environment, slot, made_at, started_at,
                                 recipients_started_at, limits, permits)
       select project_id, environment, slot, app_now() - interval '1 hour', started_at,
              recipients_started_at, limits, permits
         from room, unnest($2::int[]) with ordinality block(permits, slot)
     )
     update limit_windows
        set used = limit_windows.used + room.sum,
            recipients_used = limit_windows.recipients_used + room.sum, has_blocks = true
       from room
      where limit_windows.project_id = room.project_id and limit_windows.environment = room.environment
        and limit_windows.category = room.category`,
    [projects, blocks, recipientLimit?.max ?? null, recipientLimit?.windowS ?? null],
  );
}

const TABLES = [
  'emails',
  'contents',
  'recipients',
  'queue',
  'events',
  'idempotency',
  'webhook_deliveries',
  'webhook_queue',
];
/** One path inserts a row for each email, the other one for several; the sums are equal. */
const SUMS = `
select project_id, environment, at, what, domain, key_id, provider, tags, template_id, reason, latency_class,
       sum(emails) as emails, sum(recipients) as recipients, sum(suppressed) as suppressed
  from stats_deltas group by 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11`;

/** Counts without the permits of blocks, because either path may return them to the limit row. */
const COUNTS = `
select project_id, environment, category, max, started_at, recipients_started_at, used - blocks.permits,
       recipients_used - blocks.recipients_permits
  from limit_windows,
       lateral (select coalesce(sum(permits) filter (where started_at = limit_windows.started_at), 0) as permits,
                       coalesce(sum(permits) filter (
                         where recipients_started_at = limit_windows.recipients_started_at), 0)
                         as recipients_permits
                  from limit_blocks
                 where limit_blocks.project_id = limit_windows.project_id
                   and limit_blocks.environment = limit_windows.environment
                   and limit_windows.category = 'sending') blocks`;

async function rowsOf(tx: Queryable, stage: Stage): Promise<Record<string, unknown>> {
  const projects = stage.map(({ scope }) => scope.projectId);
  const found: Record<string, unknown> = {};
  for (const table of [...TABLES, `(${SUMS})`, `(${COUNTS})`]) {
    const [row] = await tx.query<{ rows: unknown }>(
      `select array_agg(r order by r) as rows
         from (select to_jsonb(stored)::text as r from ${table} stored where project_id = any($1))`,
      [projects],
    );
    found[table] = row?.rows;
  }
  return found;
}

type Result = { answers: EmailResult[]; queuedWebhooks: boolean; rows: Record<string, unknown> };

/** Stores from the current state, reads the rows, and rolls back. */
async function tried(
  tx: Queryable,
  stage: Stage,
  store: (onWebhooksQueued: () => void) => Promise<EmailResult[]>,
): Promise<Result> {
  let queuedWebhooks = false;
  await tx.query('savepoint tried');
  const answers = await store(() => (queuedWebhooks = true));
  const rows = await rowsOf(tx, stage);
  await tx.query('rollback to savepoint tried');
  return { answers, queuedWebhooks, rows };
}

const seen = {
  stored: 0,
  left: 0,
  storedWithLists: 0,
  storedTogether: 0,
  leftTogether: 0,
  fromBlocks: 0,
};

async function permitsOf(tx: Queryable): Promise<number> {
  const sum = 'select coalesce(sum(permits), 0)::int as permits from limit_blocks';
  const [row] = await tx.query<{ permits: number }>(sum);
  return row!.permits;
}

/** Tries the fast path first, and the full path for skipped emails, like the store. */
async function shortThenFull(
  tx: Queryable,
  emails: readonly NewEmail[],
  options: FastPathOptions,
): Promise<EmailResult[]> {
  assert.ok(emails.every(isForFastPath));
  const before = await permitsOf(tx);
  const short = await storeEmailsFast(tx, emails, options);
  seen.fromBlocks += before - (await permitsOf(tx));
  const left = emails.filter((_, index) => short[index] === null);
  const decided = left.length === 0 ? [] : await storeEmails(tx, left, options);
  seen.stored += emails.length - left.length;
  seen.storedWithLists += emails.filter(
    ({ allowLists }, index) => allowLists === LISTS && short[index] !== null,
  ).length;
  seen.left += left.length;
  const acceptedLater = (email: NewEmail): number =>
    decided.filter(
      ({ outcome }, index) =>
        outcome === 'accepted' &&
        left[index]!.projectId === email.projectId &&
        left[index]!.environment === email.environment,
    ).length;
  let next = 0;
  return short.map((row, index) => {
    if (row === null) return decided[next++]!;
    const remaining = row.limit!.remaining - acceptedLater(emails[index]!);
    return { ...row, limit: { ...row.limit!, remaining } };
  });
}

async function compareApart(
  tx: Queryable,
  stage: Stage,
  {
    emails,
    options,
  }: { emails: readonly NewEmail[]; options: Omit<FastPathOptions, 'onWebhooksQueued'> },
): Promise<void> {
  const full = await tried(tx, stage, (onWebhooksQueued) =>
    storeEmails(tx, emails, { ...options, onWebhooksQueued }),
  );
  const short = await tried(tx, stage, (onWebhooksQueued) =>
    shortThenFull(tx, emails, { ...options, onWebhooksQueued }),
  );
  assert.deepEqual(short, full);
  await storeEmails(tx, emails, { ...options, onWebhooksQueued: () => {} });
}

async function compareTogether(
  tx: Queryable,
  stage: Stage,
  wanted: {
    emails: readonly NewEmail[];
    permissive: boolean;
    options: Omit<FastPathOptions, 'onWebhooksQueued'>;
  },
): Promise<void> {
  const { options, permissive } = wanted;
  const [first] = wanted.emails;
  const own = wanted.emails.filter(
    ({ projectId, environment, keyId }) =>
      projectId === first?.projectId && environment === first.environment && keyId === first.keyId,
  );
  const emails = own.map((email) => ({ ...email, idempotency: null }));
  const batch = emailBatch(emails, { idempotency: first!.idempotency, permissive });
  const full = await tried(tx, stage, (onWebhooksQueued) =>
    storeBatch(tx, batch, { ...options, onWebhooksQueued }),
  );
  const short = await tried(tx, stage, async (onWebhooksQueued) => {
    const stored = await storeBatchFast(tx, batch, { ...options, onWebhooksQueued });
    seen[stored === null ? 'leftTogether' : 'storedTogether'] += 1;
    return stored ?? (await storeBatch(tx, batch, { ...options, onWebhooksQueued }));
  });
  assert.deepEqual(short, full);
  await storeBatch(tx, batch, { ...options, onWebhooksQueued: () => {} });
}

test('both paths give the same results and leave the same rows', async () => {
  const history = fc.array(BATCH, { minLength: 1, maxLength: 5 });
  await fc.assert(
    fc.asyncProperty(history, async (batches) => {
      const stage = await setStage();
      for (const { state, emails: wanted, together } of batches) {
        const emails = wanted.map((one) => emailOf(one, stage));
        const { leaseId, recipientLimit = null } = state;
        const hasBlocks = state.blocks.length > 0;
        const options = { limit: { max: 5, windowS: 60 }, recipientLimit, leaseId, hasBlocks };
        await db.accepting.transaction(async (tx) => {
          await enter(tx, stage, state);
          if (together === null) return compareApart(tx, stage, { emails, options });
          const permissive = together === 'permissive';
          return compareTogether(tx, stage, { emails, permissive, options });
        });
      }
    }),
    { numRuns: RUNS },
  );
  for (const [what, count] of Object.entries(seen)) assert.ok(count > 0, `nothing ${what}`);
});
