/** A database is copied while its rows change. The copy has each row as it was at the last moment. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import pg from 'pg';
import { listTables } from '../backup/store/snapshot.ts';
import { sealDestination } from './fence-store.ts';
import { migrate } from '../migration/migrate.ts';
import { DatabaseMoved } from '../database/server/move-marks.ts';
import { SecretBox } from '../secrets/secret-box.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import {
  asOwner,
  emptyDatabase,
  migratedDatabase,
  type TestDatabase,
} from '../../test/support/postgres.ts';
import { moveDatabase, type MoveOptions, planMove } from './move-database.ts';

type Given = Omit<TestDatabase, 'db'>;

const SECRETS = new SecretBox('a secret key of 32 characters or more');

function optionsFor(from: Given, to: Given, more: Partial<MoveOptions> = {}): MoveOptions {
  return {
    from: from.address,
    to: to.address,
    fromName: 'old',
    toName: 'new',
    sealed: sealDestination(SECRETS, { url: to.url }),
    acceptAnyDurability: true,
    world: systemWorld,
    requireSpace: () => Promise.resolve(),
    beforePause: () => Promise.resolve(),
    ...more,
  };
}

const SEED = `
insert into organizations select gen_random_uuid(), 'Acme', now();
insert into projects select gen_random_uuid(), id, 'Acme', now() from organizations;
insert into suppression_history (project_id, environment, address_key, at, action, reason, by)
select id, 'live', number || '@shop.test', now(), 'added', 'manual', 'command_line'
  from projects, generate_series(1, 500) number;
insert into suppressions (project_id, environment, address, address_key, reason, created_at)
select id, 'live', number || '@shop.test', number || '@shop.test', 'manual', now()
  from projects, generate_series(1, 500) number;
insert into idempotency (project_id, environment, key, fingerprint, email_id, response, expires_at)
select id, 'live', 'key ' || number, '\\x00', gen_random_uuid(), '', now() + interval '1 day'
  from projects, generate_series(1, 500) number;`;

/** Inserts, changes and deletes rows, changes a key, and does the same in a table without a key. */
const CHANGE = `
with gone as (delete from suppressions where address_key = $1 || '@shop.test'),
     more as (insert into suppressions (project_id, environment, address, address_key, reason, created_at)
              select id, 'live', 'new ' || $2, 'new ' || $2, 'manual', now() from projects),
     history as (insert into suppression_history (project_id, environment, address_key, at, action, reason, by)
                 select id, 'live', $1, now(), 'removed', 'manual', 'command_line' from projects),
     renamed as (update idempotency set key = 'renamed ' || $1 where key = 'key ' || $1)
update projects set name = 'Acme ' || $1`;

/** Changes rows until the database refuses. @returns the reason and the number of changes */
async function changeUntilRefused(
  from: Given,
  isOver: () => boolean,
): Promise<{ code: string | undefined; changes: number }> {
  const client = new pg.Client(from.address);
  await client.connect();
  let changes = 0;
  try {
    while (!isOver()) {
      await client.query(CHANGE, [String((changes % 500) + 1), String(changes)]);
      changes += 1;
    }
    return { code: undefined, changes };
  } catch (error) {
    return { code: (error as { code?: string }).code, changes };
  } finally {
    await client.end();
  }
}

async function digest(database: Given): Promise<Map<string, string>> {
  return asOwner(database.address, async (db) => {
    const digests = new Map<string, string>();
    for (const { name, columns } of await listTables(db)) {
      // The target counts its transactions in a new epoch.
      const list = columns.map((column) => column.name).filter((one) => !OF_ITS_OWN.includes(one));
      const [row] = await db.query<{ sum: string }>(
        `select count(*) || ' ' || coalesce(sum(hashtextextended((${list.map((one) => `coalesce(${one}::text, '')`).join(` || '|' || `)}), 0)), 0) as sum from ${name}`,
      );
      digests.set(name, row!.sum);
    }
    return digests;
  });
}

const OF_ITS_OWN = ['xact_era', 'system_id'];

test('the copy has every row as it was when the old database refused the next write', async () => {
  await using from = await migratedDatabase();
  await using to = await emptyDatabase();
  await from.sql(SEED);
  let isOver = false;
  const changing = changeUntilRefused(from, () => isOver);
  const moved = await moveDatabase(optionsFor(from, to)).finally(() => (isOver = true));
  const { code, changes } = await changing;
  assert.equal(code, '25006');
  assert.ok(changes > 0);
  assert.equal(moved.rows['suppressions'], 500 + Math.max(0, changes - 500));
  assert.deepEqual(await digest(to), await digest(from));

  // Nothing of the move is left in the new database, and it is usable.
  await migrate(to.address, { nowMs: Date.now(), acceptAnyDurability: true });
  const left = `select relname from pg_class where relname ~ '^(moved|letterhaus)_'`;
  assert.deepEqual(await to.sql(left), []);
  const nowMs = Date.now();
  await assert.rejects(
    migrate(from.address, { nowMs, acceptAnyDurability: true }),
    (error: Error) =>
      error instanceof DatabaseMoved &&
      /was moved to new at .* UTC and takes no more writes: set DATABASE_URL to new, with its password/.test(
        error.message,
      ),
  );
});

test('a move that fails before the switch changes nothing', async () => {
  await using from = await migratedDatabase();
  await using to = await emptyDatabase();
  await from.sql(SEED);
  const leaseId = `insert into nodes (id, instance, host, pid, started_at, schema_known)
                  values (gen_random_uuid(), gen_random_uuid(), 'a', 1, now(), 1) returning id`;
  const [{ id }] = await from.sql(leaseId);
  await from.sql(
    `insert into webhook_queue (project_id, endpoint_id, event_id, due_at, holder)
     select id, gen_random_uuid(), gen_random_uuid(), now(), $1 from projects`,
    [id],
  );
  // A worker that does not end in time has claimed a webhook.
  await assert.rejects(moveDatabase(optionsFor(from, to, { pauseMaxMs: 300 })), {
    message:
      '1 deliveries were still running after 0 s of waiting. Nothing was changed; try again.',
  });
  const left = `select relname from pg_class where relname ~ '^letterhaus_'`;
  assert.deepEqual(await from.sql(left), []);
  assert.deepEqual(await from.sql(`select from pg_trigger where not tgisinternal`), []);
  await from.sql(`update projects set name = 'goes on'`);
  const nowMs = Date.now();
  await assert.rejects(
    migrate(to.address, { nowMs, acceptAnyDurability: true }),
    /A move into this database/,
  );

  // The target may be used again.
  await from.sql('delete from webhook_queue');
  await moveDatabase(optionsFor(from, to));
  assert.deepEqual(await digest(to), await digest(from));
});

test('a target with data, and a second move at the same time, are refused', async () => {
  await using from = await migratedDatabase();
  await using full = await migratedDatabase();
  await using to = await emptyDatabase();
  await assert.rejects(planMove(optionsFor(from, full)), /The target has data/);
  await assert.rejects(moveDatabase(optionsFor(from, full)), /The target has data/);
  await assert.rejects(
    moveDatabase(optionsFor(to, full)),
    /The database is empty: there is nothing to move/,
  );
  const nowhere = { connectionString: 'postgres://nobody@127.0.0.1:9/none' };
  await assert.rejects(
    moveDatabase(optionsFor(from, { ...to, address: nowhere })),
    /^MoveProblem: The target new cannot be used: the database cannot be reached: /,
  );
  const first = Promise.withResolvers<void>();
  const isWaiting = Promise.withResolvers<void>();
  const requireSpace = (): Promise<void> => {
    isWaiting.resolve();
    return first.promise;
  };
  const moving = moveDatabase(optionsFor(from, to, { requireSpace }));
  await isWaiting.promise;
  await using another = await emptyDatabase();
  await assert.rejects(
    moveDatabase(optionsFor(from, another)),
    /Another move of this database is running/,
  );
  first.reject(new Error('there is too little space'));
  await assert.rejects(moving, { message: 'there is too little space' });
  assert.deepEqual(await to.sql(`select relname from pg_class where relname = 'emails'`), []);
});
