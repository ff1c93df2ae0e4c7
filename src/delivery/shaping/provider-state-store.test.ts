/** The states of providers that machines store for each other and for the API. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { testDatabase } from '../../../test/support/postgres.ts';
import { newId } from '../../database/ids.ts';
import {
  type StoredProviderState,
  readProviderStates,
  writeProviderStates,
} from './provider-state-store.ts';
import { expireWorker, registerWorker, setUplinkDown } from '../queue/worker-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;

beforeEach(() => db.query('delete from nodes'));

async function newNode(instance = newId()): Promise<string> {
  const id = newId();
  await registerWorker(db, { id, instance, host: 'here', pid: 1 });
  return id;
}

const RESTING: StoredProviderState = {
  provider: 'dead.test',
  state: 'suspended',
  reason: 'connection refused by mx.dead.test',
  forMs: 60_000,
  connectionsMax: 1,
  connectionsOpen: 0,
  isUplinkDown: false,
};
const FULL: StoredProviderState = {
  provider: 'google',
  state: 'full',
  reason: 'at its limit of 5 connections',
  forMs: null,
  connectionsMax: 5,
  connectionsOpen: 3,
  isUplinkDown: false,
};

const write = (node: string, changed: StoredProviderState[], removed: string[] = []) =>
  writeProviderStates(db, node, { changed, removed });

test('the workers of a machine share a limit, and the limits of machines are summed', async () => {
  const machine = newId();
  const [one, two, elsewhere] = [await newNode(machine), await newNode(machine), await newNode()];
  await write(one, [FULL, RESTING]);
  await write(two, [{ ...FULL, connectionsOpen: 2 }]);
  await write(elsewhere, [{ ...FULL, state: 'open', reason: null, connectionsOpen: 1 }]);
  const [dead, google] = await readProviderStates(db);
  assert.deepEqual(google, { ...FULL, connectionsMax: 10, connectionsOpen: 6 });
  assert.deepEqual({ ...dead, forMs: null }, { ...RESTING, forMs: null });
  assert.ok(dead!.forMs! > 50_000 && dead!.forMs! <= 60_000);
});

test("a new state replaces the old one, a removed one is deleted, and a dead worker's is ignored", async () => {
  const node = await newNode();
  await write(node, [RESTING, FULL]);
  await write(node, [{ ...FULL, state: 'open', reason: null }], ['dead.test']);
  assert.deepEqual(await readProviderStates(db), [{ ...FULL, state: 'open', reason: null }]);
  await expireWorker(db, { id: node, beat: null });
  assert.deepEqual(await readProviderStates(db), []);
  await write(node, [FULL]);
  assert.deepEqual(await readProviderStates(db), []);
});

test('an expired suspension is not shown', async () => {
  const node = await newNode();
  await write(node, [{ ...RESTING, forMs: -1 }]);
  const [provider] = await readProviderStates(db);
  assert.deepEqual([provider?.state, provider?.reason, provider?.forMs], ['open', null, null]);
});

test('a suspension shows whether the uplink of its machine caused it', async () => {
  const [offline, online] = [await newNode(), await newNode()];
  await setUplinkDown(db, offline, true);
  await write(offline, [RESTING, FULL]);
  const states = await readProviderStates(db);
  const shown = states.map(({ provider, isUplinkDown }) => [provider, isUplinkDown]);
  assert.deepEqual(shown, [
    ['dead.test', true],
    ['google', false],
  ]);
  await setUplinkDown(db, offline, false);
  await write(online, [RESTING]);
  const later = await readProviderStates(db);
  assert.ok(later.every(({ isUplinkDown }) => !isUplinkDown));
});
