/** A pause belongs to the name of a domain, so removing the domain does not end it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { newSender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { deleteDomain, insertDomain, listDomains } from '../domains/domain-store.ts';
import { newId } from '../database/ids.ts';
import { pauseSender, resumeSenders, saveAlert } from './reputation-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

test('a pause survives removing and adding the domain', async () => {
  const sender = await newSender(db);
  const scope = { projectId: sender.projectId, environment: sender.environment };
  const page = { limit: 9, after: null, before: null };
  const [stored] = (await listDomains(db, scope, page)).rows;
  const keys = { rsaPrivateKey: Buffer.from('sealed'), ed25519PrivateKey: Buffer.from('sealed') };
  const add = (name: string) => insertDomain(db, { ...stored!, ...keys, id: newId(), name });
  const isPaused = async (name: string) => {
    const [row] = await db.query<{ paused: boolean }>(
      `select paused_at is not null as paused from domains
        where project_id = $1 and name = $2 and deleted_at is null`,
      [scope.projectId, name],
    );
    return row?.paused;
  };
  const removeAndAdd = async () => {
    const [present] = (await listDomains(db, scope, page)).rows.filter(
      ({ name }) => name === 'acme.com',
    );
    await db.transaction((tx) => deleteDomain(tx, scope, present!.id));
    await add('acme.com');
  };
  const numbers = { count: 50, ended: 500, thresholdPpm: 50_000, isPaused: true };
  const domain = 'acme.com';
  await saveAlert(db, { ...scope, domain, kind: 'bounce', ...numbers }, 'clear');
  await pauseSender(db, { ...scope, domain });

  await removeAndAdd();
  await add('beside.com');
  assert.deepEqual([await isPaused('acme.com'), await isPaused('beside.com')], [true, false]);
  await resumeSenders(db, scope.projectId);
  assert.equal(await isPaused('acme.com'), false);
  await removeAndAdd();
  assert.equal(await isPaused('acme.com'), false);
});
