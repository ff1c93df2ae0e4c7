/** A data directory whose database is gone does not become an empty installation. */
import assert from 'node:assert/strict';
import { existsSync, renameSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { letterhaus } from '../support/letterhaus.ts';
import { emptyDatabase } from '../support/postgres.ts';
import { startService } from '../support/service.ts';

test('a start without the volume of the database is refused, and no new database is made', async () => {
  await using service = await startService({ database: 'own' });
  const id = await service.send();
  await service.stop();
  const [pg, away] = [join(service.dataDir, 'pg'), join(service.dataDir, 'pg-away')];
  renameSync(pg, away);
  for (const command of [['start', '--workers', '1'], ['migrate']]) {
    const { code, stderr } = await letterhaus(command, service.env);
    assert.equal(code, 2, stderr);
    assert.match(
      stderr,
      /had a database before \(embedded\), and this one is empty: mount its volume/,
    );
    assert.equal(existsSync(pg), false);
  }
  renameSync(away, pg);
  await service.restart();
  assert.equal((await service.email(id)).id, id);
  await service.stop();

  // An operator says that an empty one is meant.
  renameSync(pg, away);
  rmSync(join(service.dataDir, 'database.json'));
  await service.restart();
  assert.equal((await service.request('GET', `/v1/emails/${id}`)).status, 404);
});

test('a start with an empty external database is refused where there was another one', async () => {
  await using service = await startService();
  await service.stop();
  await using empty = await emptyDatabase();
  for (const env of [
    { ...service.env, DATABASE_URL: empty.url },
    { ...service.env, DATABASE_URL: undefined },
  ]) {
    const { code, stderr } = await letterhaus(['start', '--workers', '1'], env);
    assert.equal(code, 2, stderr);
    assert.match(stderr, /had a database before \(postgres:.*\), and this one is empty/);
  }
  assert.deepEqual(await empty.sql(`select to_regclass('emails') as emails`), [{ emails: null }]);
});
