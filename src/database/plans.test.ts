/**
 * Checks how much each statement of the store reads, by the plans that the service gets: on empty tables, with 10,000
 * emails (by plans made for empty tables and by fresh ones) and with 100,000. No table is analysed until the last test,
 * because autovacuum analyses sooner or later. `npm run bench -- scale` goes to ten million.
 */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { after, before, test } from 'node:test';
import {
  explainingDatabase,
  type ExplainingDatabase,
  type Reading,
} from '../../test/support/explaining.ts';
import { fillMail, makeWeeks } from '../../test/support/fill.ts';
import { newSender, type Sender } from '../../test/support/mail-store.ts';
import { testDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import {
  AFTER_A_DEATH,
  type Exercise,
  EXERCISES,
  type Stage,
} from '../../test/support/statements.ts';
import { INBOUND_EXERCISES } from '../../test/support/statements-inbound.ts';
import { LIMIT_EXERCISES } from '../../test/support/statements-limits.ts';
import { QUEUE_EXERCISES } from '../../test/support/statements-queue.ts';
import { APP_ROLE, clientQueries, connectAsOwner, type Queryable } from './database.ts';
import { newId } from './ids.ts';
import { registerWorker } from '../delivery/queue/worker-store.ts';
import { createEndpoint } from '../webhooks/endpoint-store.ts';

const SMALL = 10_000;
/** A partition then has 30,000 rows, far more than any statement may read. */
const LARGE = 100_000;
const WEEKS = 6;
const WEEKS_OF_MAIL = 3;
/** Share of open mail: an hour of mail after an hour without deliveries. */
const OPEN_SHARE = 0.1;

let database: TestDatabase;
let explaining: ExplainingDatabase;
let stage: Stage;

before(async () => {
  database = await testDatabase();
  await asOwner(async (owner) => {
    await makeWeeks(owner, WEEKS);
    await forbidStatistics(owner);
  });
  explaining = await explainingDatabase(database.address, APP_ROLE);
  stage = await setStage(await newSender(database.db));
});

after(async () => {
  await explaining[Symbol.asyncDispose]();
  await database[Symbol.asyncDispose]();
});

async function asOwner(work: (owner: Queryable) => Promise<void>): Promise<void> {
  const client = await connectAsOwner(database.address, 'test');
  try {
    await work(clientQueries(client));
  } finally {
    await client.end();
  }
}

/** Keeps autovacuum from analysing the tables: the first tests need plans without statistics. */
async function forbidStatistics(owner: Queryable): Promise<void> {
  const tables = await owner.query<{ name: string }>(
    `select oid::regclass::text as name from pg_class
      where relnamespace = current_schema()::regnamespace and relkind = 'r'`,
  );
  for (const { name } of tables) {
    await owner.query(`alter table ${name} set (autovacuum_enabled = off)`);
  }
}

async function setStage(sender: Sender): Promise<Stage> {
  const [leaseId, endpointId, deadEndpointId] = [newId(), newId(), newId()];
  await registerWorker(database.db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
  for (const id of [endpointId, deadEndpointId]) {
    const endpoint = { id, url: 'https://x.test', events: ['email.bounced' as const] };
    await createEndpoint(database.db, sender, { ...endpoint, secret: Buffer.from('x') });
  }
  return { db: explaining.db, sender, leaseId, endpointId, deadEndpointId, someEmailId: newId() };
}

async function fill(count: number, { anew }: { anew: boolean }): Promise<void> {
  const { sender, endpointId, deadEndpointId } = stage;
  await fillMail(database.address, {
    sender,
    count,
    open: count * OPEN_SHARE,
    weeks: WEEKS_OF_MAIL,
    endpointId,
    deadEndpointId,
    htmlBytes: 100,
    anew,
  });
  const [row] = await database.db.query<{ id: string }>(
    'select id from emails where project_id = $1 order by id offset $2 limit 1',
    [sender.projectId, count / 2],
  );
  stage = { ...stage, someEmailId: row!.id };
}

async function readingsOf(exercise: Exercise): Promise<Reading[]> {
  const first = explaining.readings.length;
  await exercise.run(stage);
  return explaining.readings.slice(first);
}

const ALL = [...EXERCISES, ...INBOUND_EXERCISES, ...LIMIT_EXERCISES, ...QUEUE_EXERCISES];

/** A few partitions, with a few look-ups for each row. */
const ROWS_PER_ROW_ASKED = 20;
const ROWS_FREE = 100;
/** A fruitless index scan reads pages and no rows. */
const PAGES_PER_ROW_ASKED = 25;
const PAGES_FREE = 250;

async function findExcessiveReads(exercises: readonly Exercise[] = ALL): Promise<string[]> {
  const found: string[] = [];
  for (const exercise of exercises) {
    for (const { rows, pages, text } of await readingsOf(exercise)) {
      const rowsMax = ROWS_FREE + ROWS_PER_ROW_ASKED * exercise.asks;
      const pagesMax = PAGES_FREE + PAGES_PER_ROW_ASKED * exercise.asks;
      if (rows <= rowsMax && pages <= pagesMax) continue;
      found.push(`${exercise.what}: ${rows} rows, ${pages} pages for ${exercise.asks}: ${text}`);
    }
  }
  return found;
}

test('every statement reads few rows on empty tables', async () => {
  for (const exercise of AFTER_A_DEATH) await readingsOf(exercise);
  assert.deepEqual(await findExcessiveReads(), []);
});

test('every statement reads as few rows with 10,000 emails, with old and with fresh plans', async () => {
  await fill(SMALL, { anew: false });
  assert.deepEqual(await findExcessiveReads(), [], 'plans that were made for empty tables');
  await explaining.forgetPlans();
  assert.deepEqual(await findExcessiveReads(), []);
});

test('every statement reads as few rows with 100,000 emails', async () => {
  await fill(LARGE, { anew: true });
  assert.deepEqual(await findExcessiveReads(), []);
});

test('every statement reads as few rows with 100,000 emails and their statistics', async () => {
  await asOwner(async (owner) => void (await owner.query('analyze')));
  await explaining.forgetPlans();
  assert.deepEqual(await findExcessiveReads(), []);
});

test('a statement without an index is detected', async () => {
  const query = `select id from emails where project_id = $1 and subject = 'Your order 7'`;
  const run = ({ db, sender }: Stage) => db.query(query, [sender.projectId]);
  const found = await findExcessiveReads([{ what: 'an order', asks: 1, run }]);
  const [, rows] = /^an order: (\d+) rows/.exec(found.join()) ?? [];
  assert.ok(Number(rows) > 0.9 * LARGE, found.join());
});

function findAcrossProjects(): string[] {
  const found = explaining.readings.flatMap(({ text, lookups }) =>
    lookups
      .filter(({ index }) => /^(webhook_)?queue_pkey$/.test(index))
      .filter(({ condition }) => !/\bproject_id\b/.test(condition))
      .map(({ condition }) => `${condition}: ${text}`),
  );
  return [...new Set(found)];
}

test('waiting rows are looked up by project first, because PostgreSQL before 18 cannot skip a key column', async () => {
  assert.deepEqual(findAcrossProjects(), []);
  const { db, someEmailId } = stage;
  await db.settling.query('select attempts from queue where email_id = $1', [someEmailId]);
  assert.equal(findAcrossProjects().length, 1, 'a statement with the email alone is detected');
});

test('every statement of the store is explained: a new one needs a line in statements.ts', async () => {
  const files = globSync(['src/**/*-store.ts', 'src/accept/store/*.ts', 'src/settle/*.ts']).filter(
    // Excludes the statements of a start, of a move and of the removal of a week, which the owner of the tables runs.
    (file) =>
      !/\.test\.ts$|^src\/move\/|events\/order-store|retention\/week-removal-store/.test(file),
  );
  assert.ok(files.length > 50);
  const seen = explaining.readings.map(({ text }) => text).join('\n');
  const missing = files.flatMap((file) =>
    statementsIn(readFileSync(file, 'utf8'))
      .filter((part) => !seen.includes(part))
      .map((part) => `${file}: ${part.slice(0, 100)}`),
  );
  assert.deepEqual(missing, []);
});

/** Tables with rows of a member, who has views of all projects. */
const OF_A_MEMBER = ['member_views'];

test('the keys of all tables with rows of a project begin with the project', async () => {
  const keys = await database.db.query<{ table: string; first: string }>(
    `select relname as table, first_column.attname as first
       from pg_index
       join pg_class on pg_class.oid = pg_index.indrelid
       join pg_attribute first_column on first_column.attrelid = pg_class.oid
                                     and first_column.attnum = pg_index.indkey[0]
      where indisprimary and relnamespace = current_schema()::regnamespace
        and exists (select from pg_attribute
                     where attrelid = pg_class.oid and attname = 'project_id' and attnotnull)
      order by relname`,
  );
  const others = keys.filter(({ first }) => first !== 'project_id').map(({ table }) => table);
  assert.deepEqual(others, OF_A_MEMBER);
});

/** Returns the longest constant part of every piece of SQL in a source file. */
function statementsIn(source: string): string[] {
  const texts = [...source.matchAll(/`([^`]*)`|'([^'\n]*)'/g)].map(
    (match) => match[1] ?? match[2] ?? '',
  );
  return texts
    .filter((text) => /^\s*(?:with|select|insert into|update|delete from)\s/.test(text))
    .map((text) =>
      text
        .split(/\$\{[^}]*\}/)
        .toSorted((a, b) => b.length - a.length)[0]!
        .trim(),
    );
}
