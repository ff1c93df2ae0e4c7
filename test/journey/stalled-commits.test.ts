/**
 * A synchronous standby is cut off, so no commit ends, while reads go on: heartbeats of healthy nodes stand still. A
 * move and a rotation of the secret key must not take such nodes for dead.
 */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import { runCommandLine } from '../../src/cli/program.ts';
import { Database, DatabaseUnavailable } from '../../src/database/database.ts';
import { newId } from '../../src/database/ids.ts';
import { incrementHeartbeat, registerWorker } from '../../src/delivery/queue/worker-store.ts';
import { migrate } from '../../src/migration/migrate.ts';
import { sealDestination } from '../../src/move/fence-store.ts';
import { moveDatabase } from '../../src/move/move-database.ts';
import { SecretBox } from '../../src/secrets/secret-box.ts';
import { secretKeyId } from '../../src/secrets/secret-keys.ts';
import { systemWorld } from '../../src/service/machine/system-world.ts';
import { cleanEnv } from '../support/letterhaus.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { startReplicatedPair } from '../support/replicated-postgres.ts';
import { waitFor } from '../support/wait.ts';

const MINUTE_MS = 60_000;
const [OLD, NEW] = ['o'.repeat(40), 'n'.repeat(40)];

const pair = await startReplicatedPair({ synchronous: true });
after(() => pair[Symbol.asyncDispose]());

/** A database of the primary with one node that is alive. */
async function newInstallation(name: string) {
  await pair.primary.query(`create database ${name}`);
  const address = pair.primary.address(name);
  const { role } = await migrate(address, { nowMs: Date.now(), acceptAnyDurability: false });
  const db = new Database(address, { role, name: 'test' });
  after(() => db.close());
  const node = { instance: newId(), id: newId() };
  await registerWorker(db, { ...node, host: 'healthy', pid: 1 });
  return { address, db, ...node };
}

/** Stores a heartbeat as a worker does, again until the database answers. @returns false when the node is forgotten */
async function beat(db: Database, id: string): Promise<boolean> {
  for (;;) {
    try {
      return (await incrementHeartbeat(db.heartbeat, id)) !== null;
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error;
    }
  }
}

/** Waits until a commit of such a session waits for the standby. */
function untilStalled(session: string, database: string): Promise<unknown> {
  const stalled = `select from pg_stat_activity where wait_event = 'SyncRep'
                      and application_name like 'letterhaus ${session}%' and datname = '${database}'`;
  return waitFor(async () => (await pair.primary.query(stalled)).length > 0, {
    what: `a commit of ${session} that waits for the standby`,
  });
}

test('a rotation of the secret key still waits for a node whose heartbeats could not be stored', async () => {
  const { db, id, instance } = await newInstallation('rotated');
  const dataDir = mkdtempSync(join(tmpdir(), 'letterhaus-test-'));
  after(() => rmSync(dataDir, { recursive: true }));
  let skippedMs = 0;
  let looks = 0;
  const monotonicMs = () => {
    looks += 1;
    return systemWorld.monotonicMs() + skippedMs;
  };
  let output = '';
  let hasEnded = false;
  const rotating = runCommandLine(['secrets', 'rotate', '--wait', '900', '--json'], {
    env: cleanEnv({
      DATABASE_URL: `postgres://letterhaus@127.0.0.1:${pair.primary.port}/rotated`,
      LETTERHAUS_DATA_DIR: dataDir,
      LETTERHAUS_SECRET_KEY: `${OLD},${NEW}`,
    }),
    world: { ...systemWorld, monotonicMs },
    program: 'letterhaus',
    out: (text) => (output += text),
    err: (text) => (output += text),
  }).finally(() => (hasEnded = true));
  // A rotation ends when it has waited for so long, also after an assertion that failed.
  after(async () => {
    skippedMs += 60 * MINUTE_MS;
    await rotating;
  });
  const untilLooked = async () => {
    const before = looks;
    await waitFor(() => hasEnded || looks >= before + 9, { what: 'more looks at the nodes' });
    assert.equal(hasEnded, false, output);
  };
  await untilLooked();

  await pair.cutReplication();
  const beating = beat(db, id);
  await untilStalled('command', 'rotated');
  skippedMs = 5 * MINUTE_MS;
  pair.resumeReplication();
  assert.equal(await beating, true);
  await untilLooked();

  await db.query(
    `insert into known_secret_keys (instance, keys, noted_at) values ($1, $2, now())
     on conflict (instance) do update set keys = excluded.keys`,
    [instance, [OLD, NEW].map(secretKeyId)],
  );
  await rotating;
  assert.equal(JSON.parse(output).step, 'switch');
});

test('a move leaves a node its claims while heartbeats cannot be stored, and then waits for their end', async () => {
  const { address, db, id } = await newInstallation('moved');
  await using to = await emptyDatabase();
  await db.query(`insert into organizations select gen_random_uuid(), 'Acme', now()`);
  await db.query(
    `insert into projects select gen_random_uuid(), organizations.id, 'Acme', now() from organizations`,
  );
  await db.query(
    `insert into webhook_queue (project_id, endpoint_id, event_id, due_at, holder)
     select projects.id, gen_random_uuid(), gen_random_uuid(), now(), $1 from projects`,
    [id],
  );
  const isPausing = Promise.withResolvers<void>();
  const moving = moveDatabase({
    from: address,
    to: to.address,
    fromName: 'old',
    toName: 'new',
    sealed: sealDestination(new SecretBox(OLD), { url: to.url }),
    acceptAnyDurability: true,
    world: systemWorld,
    requireSpace: () => Promise.resolve(),
    beforePause: () => {
      isPausing.resolve();
      return Promise.resolve();
    },
  });
  moving.catch(isPausing.reject);
  await isPausing.promise;

  await pair.cutReplication();
  const beating = beat(db, id);
  await untilStalled('move', 'moved');
  pair.resumeReplication();
  assert.equal(await beating, true);
  const claims = 'select from webhook_queue where holder = $1';
  assert.equal((await db.query(claims, [id])).length, 1);

  await db.query('delete from webhook_queue where holder = $1', [id]);
  const { rows } = await moving;
  assert.equal(rows['projects'], 1);
});
