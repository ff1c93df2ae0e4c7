/** `letterhaus retention` on the database of a running service. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { beginRun } from '../../src/retention/clock-store.ts';
import { asOwner } from '../support/postgres.ts';
import { startService } from '../support/service.ts';

test('an operator sees why nothing is removed after a jump of the clock, and confirms it', async () => {
  await using service = await startService();
  const check = () => asOwner(service.address(), (db) => beginRun(db));
  await check();
  const byDefault = await service.cli('retention');
  assert.match(byDefault.stdout, /Content is kept for 45d, metadata for 90d\./);
  assert.match(byDefault.stdout, /Nothing waits for a confirmation/);

  await service.clock.advance({ hours: 48 });
  assert.notEqual(await check(), null);
  const paused = await service.cli('retention');
  assert.match(
    paused.stdout,
    /Nothing is removed until .*: the clock .* moved forward by 48 hours/,
  );
  const asked = await service.cli('retention', 'confirm');
  assert.equal(asked.code, 2);
  assert.match(asked.stderr, /confirm with --yes/);
  assert.notEqual(await check(), null);

  const confirmed = await service.cli('retention', 'confirm', '--yes');
  assert.equal(confirmed.code, 0, confirmed.stderr);
  assert.equal(await check(), null);
  assert.equal((await service.cliJson('retention')).held_until, null);
});
