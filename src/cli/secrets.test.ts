/** The operator replaces a configured secret key: every step prints the next one. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { letterhaus } from '../../test/support/letterhaus.ts';
import { testDatabase } from '../../test/support/postgres.ts';

const OLD = 'o'.repeat(40);

test('LETTERHAUS_SECRET_KEY is replaced in three steps, each of which is printed', async () => {
  await using database = await testDatabase();
  const run = async (keys: string, ...options: string[]) => {
    const env = { DATABASE_URL: database.url, LETTERHAUS_SECRET_KEY: keys };
    return letterhaus(['secrets', 'rotate', ...options, '--json'], env);
  };
  const step = async (keys: string, ...options: string[]) => {
    const { code, stdout, stderr } = await run(keys, ...options);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout);
  };
  const { step: first, new_key: fresh } = await step(OLD);
  assert.equal(first, 'add');
  assert.match(fresh, /^[\w-]{43}$/);
  assert.equal((await step(`${OLD},${fresh}`)).step, 'switch');
  const early = await run(`${OLD},${fresh}`, '--finish');
  assert.match(early.stderr, /is not complete/);
  assert.equal((await step(`${fresh},${OLD}`)).step, 'sealed');
  assert.equal((await step(`${fresh},${OLD}`, '--finish', '--force')).step, 'remove');
  assert.match((await run(fresh, '--finish')).stderr, /nothing to finish/);
});
