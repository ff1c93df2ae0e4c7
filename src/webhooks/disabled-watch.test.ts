/** The operator's event about a disabled webhook is written once, however many machines notice it. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import pino from 'pino';
import { newSender } from '../../test/support/mail-store.ts';
import { testDatabase } from '../../test/support/postgres.ts';
import { newId } from '../database/ids.ts';
import { listConditions } from '../operator/condition-store.ts';
import { createEndpoint, updateEndpoint } from './endpoint-store.ts';
import { OperatorEventLog } from '../operator/operator-event-log.ts';
import { systemWorld } from '../service/machine/system-world.ts';
import { reportDisabledEndpoints } from './disabled-watch.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

const newNode = () =>
  new OperatorEventLog({ db, world: systemWorld, log: pino({ level: 'silent' }) });

test('several machines report a disabled webhook once, and again after it was enabled', async () => {
  const sender = await newSender(db);
  const id = newId();
  const secret = Buffer.from('sealed');
  await createEndpoint(db, sender, { id, url: 'https://a.test/x', events: null, secret });
  const disable = () =>
    database.sql(
      `update webhook_endpoints set status = 'disabled', disabled_reason = 'It failed.' where id = $1`,
      [id],
    );
  const nodes = [newNode(), newNode(), newNode()];
  const reportAll = async () => {
    await Promise.all(nodes.map((node) => reportDisabledEndpoints(db, node)));
    await Promise.all(nodes.map((node) => node.flush()));
  };
  const events = async (projectId: string) =>
    (await database.sql('select type from events where project_id = $1', [projectId])).length;

  await reportAll();
  assert.equal(await events(sender.projectId), 0);
  await disable();
  await reportAll();
  await reportAll();
  assert.equal(await events(sender.projectId), 1);
  const [condition] = await listConditions(db, 10);
  assert.equal(condition?.subject, id);
  assert.match(condition?.message ?? '', /^The webhook at https:\/\/a\.test of project/);

  await updateEndpoint(db, sender, { id, status: 'enabled' });
  await reportAll();
  assert.deepEqual(await listConditions(db, 10), []);
  await disable();
  await reportAll();
  assert.equal(await events(sender.projectId), 2);
});

test('a webhook that a request has disabled is not reported', async () => {
  const sender = await newSender(db);
  const id = newId();
  const secret = Buffer.from('sealed');
  await createEndpoint(db, sender, { id, url: 'https://a.test/x', events: null, secret });
  await updateEndpoint(db, sender, { id, status: 'disabled' });
  const node = newNode();
  await reportDisabledEndpoints(db, node);
  assert.deepEqual(
    (await listConditions(db, 10)).filter(({ subject }) => subject === id),
    [],
  );
});
