/** A mover that is killed at any step: the service goes on, the target is unusable, and the move can be repeated. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { MOVE_FAILPOINTS } from '../../src/lib/failpoint.ts';
import { cleanEnv, letterhaus, letterhausHere } from '../support/letterhaus.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { startService } from '../support/service.ts';
import { waitFor } from '../support/wait.ts';

test('a killed move leaves the old database in use until the switch, and a repeated one completes it', async () => {
  await using service = await startService();
  await using target = await emptyDatabase();
  const ids: string[] = [];
  const move = (failpoint?: string) =>
    letterhaus(['move', '--to', target.url], {
      ...service.env,
      LETTERHAUS_FAILPOINTS: failpoint && `${failpoint}=kill`,
    });
  const useTarget = () =>
    letterhausHere(['migrate'], cleanEnv({ ...service.env, DATABASE_URL: target.url }));
  for (const failpoint of MOVE_FAILPOINTS) {
    const killed = await move(failpoint).catch((error: Error) => error.message);
    assert.match(JSON.stringify(killed), /did not end by itself.*action.*kill/, failpoint);
    const refused = await useTarget();
    if (failpoint !== 'move_after_log') {
      assert.equal(refused.code, 2, `${failpoint}: ${refused.stdout}`);
      assert.match(refused.stderr, /A move into this database is running or was interrupted/);
    }
    if (failpoint === 'move_after_depart') break;
    const id = await service.send();
    await service.waitForStatus(id, 'delivered');
    ids.push(id);
  }

  // Neither place takes mail now, and the repeated command opens the new one.
  const repeated = await move();
  assert.equal(repeated.code, 0, repeated.stderr);
  assert.match(repeated.stdout, /^The move to postgres:.* is complete\.\nRunning nodes follow/);
  const rows = await target.sql('select id from emails order by id');
  assert.deepEqual(
    rows.map(({ id }) => id),
    ids,
  );
  const isFollowing = async (): Promise<boolean> => {
    const response = await service
      .request('POST', '/v1/emails', {
        body: { from: 'hello@acme.test', to: 'delivered@simulator.test', subject: 'a', text: 'a' },
      })
      .catch(() => null);
    return response?.status === 202;
  };
  await waitFor(isFollowing, { what: 'the service to follow', timeoutMs: 60_000 });
  assert.equal((await useTarget()).code, 0);
  const count = await target.sql('select count(*)::int as count from emails');
  assert.ok(count[0].count > ids.length);
});

test('a service removes what a killed move has left in its database', async () => {
  await using service = await startService();
  await using target = await emptyDatabase();
  const env = { ...service.env, LETTERHAUS_FAILPOINTS: 'move_after_copy=kill' };
  await assert.rejects(letterhaus(['move', '--to', target.url], env));
  const left = `select count(*)::int as count from pg_class where relname like 'letterhaus\\_moving\\_%'`;
  await waitFor(async () => (await service.sql(left))[0].count === 0, {
    what: 'the log to be removed',
  });
  assert.deepEqual(await service.sql('select from pg_trigger where not tgisinternal'), []);
});
