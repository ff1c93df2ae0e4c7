/**
 * Drops waiting mail: cancels it at once, or marks it for a drop that can be undone for a minute
 * (delivery/queue-control/drop-store.ts). A request begins such a drop, and maintenance completes it.
 */
import type { World } from '../../lib/world.ts';
import { loadHeads } from '../message/message-store.ts';
import { expireWorker, incrementHeartbeat, registerWorker } from '../queue/worker-store.ts';
import type { Database } from '../../database/database.ts';
import {
  QUEUE_START,
  type QueueCursor,
  type QueueSelector,
  type QueueStep,
  claimStep,
} from './change-store.ts';
import {
  deleteDrop,
  listUnfinishedDrops,
  markDropStep,
  selectorOfMarked,
  type QueueDrop,
  restoreDropStep,
} from './drop-store.ts';
import { commitFull } from '../../settle/settle-store.ts';
import { DROPPED } from '../attempt/outcomes-without-reply.ts';
import { settlementOf } from '../attempt/settle-outcome.ts';

export type DropContext = {
  db: Database;
  world: World;
  /** This process, named in the lease under which mail is removed. */
  process: { host: string; pid: number };
};

/**
 * Cancels waiting mail with the settle statement: status `canceled`, its event and its webhooks. This process leases
 * the mail, and the lease expires like a worker's if the process is killed. Each step is settled before the next one
 * begins.
 * @throws when the lease has expired
 */
export async function* dropFromQueue(
  { db, world, process }: DropContext,
  selector: QueueSelector,
): AsyncGenerator<QueueStep> {
  const leaseId = world.newId();
  await registerWorker(db, { id: leaseId, instance: world.newId(), ...process });
  try {
    let from: QueueCursor | null = QUEUE_START;
    while (from !== null) {
      if ((await incrementHeartbeat(db, leaseId)) === null)
        throw new Error('the lease of this drop expired');
      const { step, claimed } = await claimStep(db, leaseId, { selector, from });
      const messages = await loadHeads(
        db,
        claimed.map((recipient) => ({ ...recipient, id: recipient.emailId })),
      );
      const settlements = claimed.map((recipient) => {
        const message = messages.get(recipient.emailId);
        if (!message) throw new Error(`queued email ${recipient.emailId} has no content`);
        return settlementOf({ ...recipient, message }, DROPPED, { attempt: null, world });
      });
      const settled = await commitFull(db.settling, settlements, {
        leaseId,
        onWebhooksQueued: () => {},
        extent: 'all',
      });
      yield { ...step, changed: settled.filter(Boolean).length };
      from = step.next;
    }
  } finally {
    await expireWorker(db, { id: leaseId, beat: null });
  }
}

/**
 * Marks mail until `mayContinue` returns false.
 * @returns the drop after the last step, or null when it was undone meanwhile
 */
export async function markDrop(
  db: Pick<Database, 'transaction'>,
  drop: QueueDrop,
  mayContinue: () => boolean,
): Promise<QueueDrop | null> {
  let marked: QueueDrop | null = drop;
  while (marked !== null && marked.next !== null && mayContinue()) {
    marked = await markDropStep(db, drop.id);
  }
  return marked;
}

/**
 * Restores the mail of an undone drop.
 * @returns the number of recipients, or null when `mayContinue` returned false
 */
export async function restoreDrop(
  db: Database,
  drop: QueueDrop,
  mayContinue: () => boolean,
): Promise<number | null> {
  let restored = 0;
  let from: QueueCursor | null = QUEUE_START;
  while (from !== null) {
    if (!mayContinue()) return null;
    const step: QueueStep = await restoreDropStep(db, drop, from);
    restored += step.changed;
    from = step.next;
  }
  await deleteDrop(db, drop.id);
  return restored;
}

/** Continues the drops that requests began, until `mayContinue` returns false. Several machines may do so at once. */
export async function continueDrops(
  context: DropContext,
  mayContinue: () => boolean,
): Promise<void> {
  const { db } = context;
  for (const drop of await listUnfinishedDrops(db)) {
    if (!mayContinue()) return;
    if (drop.undoneAt !== null) {
      await restoreDrop(db, drop, mayContinue);
      continue;
    }
    const marked = await markDrop(db, drop, mayContinue);
    if (marked === null || marked.next !== null || !marked.isDue) continue;
    for await (const _ of dropFromQueue(context, selectorOfMarked(marked))) {
      if (!mayContinue()) return;
    }
    await deleteDrop(db, marked.id);
  }
}
