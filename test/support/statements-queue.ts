/** Statements of claiming, of releasing and of operators, for statements.ts. */
import { newId } from '../../src/database/ids.ts';
import * as claims from '../../src/delivery/queue/claim-store.ts';
import { RECIPIENTS } from '../../src/delivery/queue/queue-store.ts';
import { bringForward } from '../../src/delivery/queue/early-retries-store.ts';
import {
  changeQueueStep,
  QUEUE_START,
  claimStep,
  WHOLE_QUEUE,
} from '../../src/delivery/queue-control/change-store.ts';
import {
  createDrop,
  deleteDrop,
  listUnfinishedDrops,
  listUndoableDrops,
  markDropStep,
  restoreDropStep,
  undoDrop,
} from '../../src/delivery/queue-control/drop-store.ts';
import { readQueueDepth } from '../../src/delivery/queue-control/depth-store.ts';
import {
  databaseFigures,
  domainFigures,
  webhookFigures,
} from '../../src/service/metrics/installation-store.ts';
import { findProject } from '../../src/accounts/projects/project-store.ts';
import {
  countByIndex,
  readLastReplies,
  readPausedMail,
  readQueue,
} from '../../src/delivery/queue-control/queue-report-store.ts';
import type { Exercise, Stage } from './statements.ts';

const NOBODY_ID = '00000000-0000-0000-0000-000000000000';

export async function claimAndRelease({ db, leaseId }: Stage): Promise<void> {
  const from = new Date(0);
  const full = {
    fullProjects: [],
    fullQueues: [claims.tenantQueueKey(newId(), 'customers1.test')],
  };
  await claims.claimOldest(db.settling, { leaseId, max: 128, readMax: 128, from, ...full });
  const walk = { project: NOBODY_ID, projects: 32, cursors: new Map(), from, oldest: 128 };
  const found = await claims.findQueues(db.settling, { ...walk, probes: 192 });
  const queues = found.flatMap(({ projectId, provider }) =>
    provider === null ? [] : [{ projectId, provider, max: 4 }],
  );
  const claimed = await claims.claimQueues(db.settling, { leaseId, queues, from });
  const given = claimed.map((one, index) => ({ ...one, leaseId, delayMs: 0, onHold: index < 2 }));
  await RECIPIENTS.release(db.settling, given);
  await bringForward(db.settling, given);
}

export async function operate({ db, leaseId, sender }: Stage): Promise<void> {
  const selector = { ...WHOLE_QUEUE, domain: 'customers1.test', projectId: sender.projectId };
  for (const change of ['retry', 'hold', 'release'] as const) {
    await changeQueueStep(db, change, { selector, from: QUEUE_START });
  }
  await claimStep(db, leaseId, { selector, from: QUEUE_START });
}

/** Runs them with and without the project. */
async function operateOnOne({ db, sender, someEmailId: emailId }: Stage): Promise<void> {
  for (const projectId of [sender.projectId, null]) {
    const selector = { ...WHOLE_QUEUE, emailId, projectId };
    await changeQueueStep(db, 'retry', { selector, from: QUEUE_START });
  }
}

/** Reads a shallow and a deep queue; the index counts what is not sampled. */
async function showQueue({ db, sender }: Stage): Promise<void> {
  const within = { projectId: sender.projectId, environment: sender.environment };
  const asked = { projectIds: [sender.projectId], environment: null, within, limit: 100 };
  await readQueue(db, { ...asked, provider: null });
  await countByIndex(db, { ...within, provider: null, limit: 100 });
  await countByIndex(db, { ...within, provider: 'customers1.test', limit: 1 });
  await readLastReplies(db, within, { provider: 'customers1.test', limit: 10 });
  await db.query('update domains set paused_at = app_now() where id = $1', [sender.domainId]);
  await readPausedMail(db, asked, ['customers1.test']);
  await db.query('update domains set paused_at = null where id = $1', [sender.domainId]);
}

async function dropAndUndo({ db, sender }: Stage): Promise<void> {
  const { projectId, environment } = sender;
  const { organizationId } = (await findProject(db, projectId))!;
  const what = { emailId: null, domain: 'nobody.test', provider: null };
  const owner = { organizationId, projectId, environment };
  const { id } = await createDrop(db, { id: newId(), ...owner, ...what });
  await markDropStep(db, id);
  await listUndoableDrops(db, { ...owner, isMember: true });
  await listUnfinishedDrops(db);
  const drop = await undoDrop(db, id, owner);
  await restoreDropStep(db, drop!, QUEUE_START);
  await deleteDrop(db, id);
}

async function measure({ db }: Stage): Promise<void> {
  await readQueueDepth(db, ['google', 'simulator']);
  await databaseFigures(db);
  await domainFigures(db);
  await webhookFigures(db);
}

export const QUEUE_EXERCISES: readonly Exercise[] = [
  { what: 'figures for metrics', asks: 5_000, run: measure },
  { what: 'change what waits of an email', asks: 1, run: operateOnOne },
  // 16 MB of the queue, and 200 recipients for each provider.
  { what: 'show the queue', asks: 5_000, run: showQueue },
  { what: 'drop and undo, a step', asks: 2_000, run: dropAndUndo },
];
