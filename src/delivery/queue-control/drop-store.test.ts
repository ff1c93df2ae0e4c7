/** Drops that can be undone: marked mail stays on hold when a process dies, and an undo ends the marking. */
import assert from 'node:assert/strict';
import { after, beforeEach, test } from 'node:test';
import { acceptAll, newEmail, newSender } from '../../../test/support/mail-store.ts';
import { testDatabase } from '../../../test/support/postgres.ts';
import { AcceptStore } from '../../accept/store/accept-store.ts';
import { newId } from '../../database/ids.ts';
import { expireWorker, registerWorker, releaseOrphans } from '../queue/worker-store.ts';
import { findProject } from '../../accounts/projects/project-store.ts';
import {
  changeQueueStep,
  QUEUE_START,
  type QueueCursor,
  type QueueSelector,
  claimStep,
  WHOLE_QUEUE,
} from './change-store.ts';
import {
  createDrop,
  listUnfinishedDrops,
  markDropStep,
  selectorOfMarked,
  type QueueDrop,
  restoreDropStep,
  undoDrop,
} from './drop-store.ts';

const database = await testDatabase();
after(() => database[Symbol.asyncDispose]());
const { db } = database;
beforeEach(() => db.query('delete from queue'));
const sender = await newSender(db);
const { organizationId } = (await findProject(db, sender.projectId))!;
const owner = { organizationId, projectId: sender.projectId, environment: sender.environment };

const store = new AcceptStore(db.accepting, {
  limit: { max: 1_000_000, windowS: 60 },
  leaseId: () => null,
  onWebhooksQueued: () => {},
  onUnknown: () => {},
});
const accept = (to: string) =>
  acceptAll(store, [newEmail(sender, { to: [to], mayHandOver: false })]);

async function newDrop(): Promise<QueueDrop> {
  const what = { emailId: null, domain: 'drop.test', provider: null };
  return createDrop(db, { id: newId(), ...owner, ...what });
}

type Row = { held: boolean; isFree: boolean; isDue: boolean; isMarked: boolean };

const rows = () =>
  db.query<Row>(
    `select held, holder is null as "isFree", due_at <= app_now() as "isDue",
            drop_id is not null as "isMarked"
       from queue order by email_id`,
  );
const MARKED = { held: true, isFree: true, isDue: false, isMarked: true };
const WAITING = { held: false, isFree: true, isDue: true, isMarked: false };

test('mail that is being dropped stays on hold when the process dies', async () => {
  await accept('jo@drop.test');
  const drop = (await markDropStep(db, (await newDrop()).id))!;
  assert.deepEqual([drop.found, drop.marked, drop.next], [1, 1, null]);
  for (const die of [
    (leaseId: string) => expireWorker(db, { id: leaseId, beat: null }),
    () => db.query('delete from nodes').then(() => releaseOrphans(db)),
  ]) {
    const leaseId = newId();
    await registerWorker(db, { id: leaseId, instance: newId(), host: 'here', pid: 1 });
    const part = { selector: selectorOfMarked(drop), from: QUEUE_START };
    const { claimed } = await claimStep(db, leaseId, part);
    assert.equal(claimed.length, 1);
    await die(leaseId);
    assert.deepEqual(await rows(), [MARKED]);
  }
});

test('after an undo nothing is marked, and restoring marked mail can be repeated', async () => {
  await accept('jo@drop.test');
  const { id } = await newDrop();
  const marked = (await markDropStep(db, id))!;
  const undone = (await undoDrop(db, id, owner))!;
  assert.notEqual(undone.undoneAt, null);
  assert.equal(await markDropStep(db, id), null);
  assert.deepEqual(await rows(), [MARKED], 'the mail is marked until it is restored');
  const toDo = await listUnfinishedDrops(db);
  assert.ok(toDo.some((one) => one.id === id));
  for (const changed of [1, 0]) {
    assert.equal((await restoreDropStep(db, marked, QUEUE_START)).changed, changed);
    assert.deepEqual(await rows(), [WAITING]);
  }
});

test('a drop marks neither mail of another drop nor mail accepted later', async () => {
  await accept('jo@drop.test');
  const [first, second] = [await newDrop(), await newDrop()];
  await accept('later@drop.test');
  assert.equal((await markDropStep(db, first.id))?.marked, 1);
  const { found, marked } = (await markDropStep(db, second.id))!;
  assert.deepEqual([found, marked], [1, 0]);
  assert.deepEqual(await rows(), [MARKED, WAITING]);
  const release = { selector: WHOLE_QUEUE, from: QUEUE_START };
  await changeQueueStep(db, 'release', release);
  assert.deepEqual(await rows(), [WAITING, WAITING]);
});

test('a drop cannot be undone after its time', async () => {
  await accept('jo@drop.test');
  const { id } = await newDrop();
  await markDropStep(db, id);
  await db.query('update queue_drops set drops_at = app_now() where id = $1', [id]);
  assert.equal((await undoDrop(db, id, owner))?.undoneAt, null);
  assert.deepEqual(await rows(), [MARKED]);
});

test('a drop that an older version partly marked is marked from the start', async () => {
  await accept('jo@drop.test');
  await accept('flo@drop.test');
  const { id } = await newDrop();
  await db.query(
    `update queue_drops set next_project_id = null, next_position = 0,
            next_email_id = (select max(email_id::text)::uuid from queue)
      where id = $1`,
    [id],
  );
  const { marked, next } = (await markDropStep(db, id))!;
  assert.deepEqual([marked, next], [2, null]);
  assert.deepEqual(await rows(), [MARKED, MARKED]);
});

/** Puts all matching mail on hold, and counts it and the steps. */
async function walk(selector: Partial<QueueSelector>): Promise<{ found: number; steps: number }> {
  const sum = { found: 0, steps: 0 };
  let from: QueueCursor | null = QUEUE_START;
  while (from !== null) {
    const part: { selector: QueueSelector; from: QueueCursor } = {
      selector: { ...WHOLE_QUEUE, ...selector },
      from,
    };
    const { found, next } = await changeQueueStep(db, 'hold', part);
    sum.found += found;
    sum.steps += 1;
    from = next;
  }
  return sum;
}

test('a change of several projects finds all waiting mail of each, in steps', async () => {
  const projectIds = [sender, await newSender(db), await newSender(db)].map((one) => one.projectId);
  for (const projectId of projectIds) {
    await db.query(
      `insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
       select $1, gen_random_uuid(), number % 2, 'live', 'x.test', 'x.test', app_now()
         from generate_series(1, 1000) number`,
      [projectId],
    );
  }
  assert.deepEqual(await walk({}), { found: 3_000, steps: 2 });
  for (const projectId of projectIds) {
    assert.deepEqual(await walk({ projectId }), { found: 1_000, steps: 1 });
    const [row] = await db.query<{ emailId: string }>(
      'select email_id as "emailId" from queue where project_id = $1 limit 1',
      [projectId],
    );
    const { emailId } = row!;
    assert.deepEqual(await walk({ emailId }), { found: 1, steps: 1 }, 'without its project');
    assert.deepEqual(await walk({ emailId, projectId }), { found: 1, steps: 1 });
  }
});
