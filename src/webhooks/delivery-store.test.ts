/** Lists of deliveries stay fast when there are many deliveries. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { fillMail, makeWeeks } from '../../test/support/fill.ts';
import { newSender, type Sender } from '../../test/support/mail-store.ts';
import { testDatabase, type TestDatabase } from '../../test/support/postgres.ts';
import { clientQueries, connectAsOwner } from '../database/database.ts';
import { newId } from '../database/ids.ts';
import type { Page } from '../database/page.ts';
import { type DeliveryFilter, listDeliveries } from './deliveries/list-store.ts';
import { findDeliveryIds } from './delivery-store.ts';

const COUNT = 60_000;
const FAILED = 3;
const PAGE: Page = { limit: 2, after: null, before: null };
const [endpointId, deadEndpointId] = [newId(), newId()];

let database: TestDatabase;
let sender: Sender;
let failed: string[];

before(async () => {
  database = await testDatabase();
  sender = await newSender(database.db);
  const owner = await connectAsOwner(database.address, 'test');
  await makeWeeks(clientQueries(owner), 1);
  await owner.end();
  const filling = { sender, count: COUNT, open: 0, weeks: 1, htmlBytes: 1, anew: true };
  await fillMail(database.address, { ...filling, endpointId, deadEndpointId });
  const oldest = await database.db.query<{ id: string }>(
    `update webhook_deliveries set status = 'failed'
      where event_id in (select event_id from webhook_deliveries where endpoint_id = $1
                          order by event_id limit $2) returning event_id as id`,
    [endpointId, FAILED],
  );
  failed = oldest.map(({ id }) => id).toSorted();
});

after(() => database[Symbol.asyncDispose]());

function list(status: DeliveryFilter['status'], page: Partial<Page> = {}) {
  const where = { endpointId, status, type: null, page: { ...PAGE, ...page } };
  return listDeliveries(database.db, sender, where);
}

test('few failed deliveries among many are listed in one call, newest first', async () => {
  const first = await list('failed');
  assert.deepEqual(
    [first.rows.map(({ id }) => id), first.hasMore, first.scannedUntil],
    [[failed[2], failed[1]], true, null],
  );
  const second = await list('failed', { after: failed[1]! });
  assert.deepEqual(
    [second.rows.map(({ id }) => id), second.hasMore, second.scannedUntil],
    [[failed[0]], false, null],
  );
});

test('a list filtered by status stops after 50,000 deliveries and returns its position', async () => {
  const first = await list('pending');
  assert.deepEqual([first.rows, first.hasMore], [[], true]);
  assert.ok(first.scannedUntil !== null && first.scannedUntil > failed[2]!);
  const second = await list('pending', { after: first.scannedUntil });
  assert.deepEqual(second, { rows: [], hasMore: false, scannedUntil: null });
});

test('a list filtered by event type stops after 50,000 deliveries and returns its position', async () => {
  const [type] = await database.db.query<{ type: string }>(
    'select type from webhook_deliveries where endpoint_id = $1 limit 1',
    [endpointId],
  );
  const of = (wanted: string, page: Partial<Page> = {}) =>
    listDeliveries(database.db, sender, {
      endpointId,
      status: null,
      type: wanted,
      page: { ...PAGE, ...page },
    });
  const some = await of(type!.type);
  assert.deepEqual([some.rows.length, some.hasMore, some.scannedUntil], [2, true, null]);
  const none = await of('domain.failed');
  assert.deepEqual([none.rows, none.hasMore], [[], true]);
  const rest = await of('domain.failed', { after: none.scannedUntil });
  assert.deepEqual(rest, { rows: [], hasMore: false, scannedUntil: null });
});

test('failed deliveries of a time range are found for a replay', async () => {
  const [since, until] = [new Date(Date.now() - 8 * 86_400_000), new Date()];
  const any = { type: null, code: null, after: null, limit: 100 };
  const range = { endpointId, since, until, status: 'failed' as const, ...any };
  assert.deepEqual(await findDeliveryIds(database.db, sender, range), failed);
});
