/**
 * Takes waiting mail out of the queue as an ending like any other: status `canceled`, its event and
 * its webhooks, by the settle statement. It is held meanwhile under a lease of this command, which
 * is declared dead like a worker's when the command dies.
 */
import { hostname } from 'node:os';
import type { World } from '../core/world.ts';
import { DROPPED, settlementOf } from '../delivery/outcome.ts';
import type { Database } from '../store/postgres/database.ts';
import { loadMessages } from '../store/emails.ts';
import { beat, buryNode, registerNode } from '../store/nodes.ts';
import {
  QUEUE_START,
  type QueuePlace,
  type QueueSelector,
  type QueueStep,
  takeOutStep,
} from '../store/queue-changes.ts';
import { settleBatch } from '../store/settle.ts';

/** Each step is settled before the next is taken. Throws when the lease was lost on the way. */
export async function* dropFromQueue(
  db: Database,
  selector: QueueSelector,
  world: World,
): AsyncGenerator<QueueStep> {
  const holder = world.newId();
  await registerNode(db, {
    id: holder,
    instance: world.newId(),
    host: hostname(),
    pid: process.pid,
  });
  try {
    let from: QueuePlace | null = QUEUE_START;
    while (from !== null) {
      if ((await beat(db, holder)) === null) throw new Error('this command was taken for dead');
      const { step, taken } = await takeOutStep(db, holder, { selector, from });
      const messages = await loadMessages(
        db,
        taken.map((one) => ({ ...one, id: one.emailId })),
      );
      const settlements = taken.map((one) => {
        const message = messages.get(one.emailId);
        if (!message) throw new Error(`queued email ${one.emailId} has no content`);
        return settlementOf({ ...one, message }, DROPPED, { attempt: null, world });
      });
      const settled = await settleBatch(db.settling, settlements, {
        holder,
        onTold: () => {},
        extent: 'all',
      });
      yield { ...step, changed: settled.filter(Boolean).length };
      from = step.next;
    }
  } finally {
    await buryNode(db, { id: holder, beat: null });
  }
}
