/**
 * Changes waiting mail for a request: in steps, until all is changed or the time of the request is over. The client
 * then continues from a place in the queue, which is text for it: `next` in responses, `from` in requests.
 */
import { isId } from '../../database/ids.ts';
import type { Queryable } from '../../database/database.ts';
import type { World } from '../../lib/world.ts';
import {
  changeQueueStep,
  QUEUE_START,
  type QueueChange,
  type QueuePlace,
  type QueueSelector,
} from './change-store.ts';

/** Milliseconds that a request may work. */
const REQUEST_BUDGET_MS = 5_000;

export type ChangedQueue = {
  found: number;
  busy: number;
  changed: number;
  /** Where to continue; null when all is changed. */
  next: string | null;
};

/** @param wanted.from the `next` of a response; undefined: the start of the queue */
export async function changeQueue(
  { db, world }: { db: Queryable; world: Pick<World, 'monotonicMs'> },
  change: QueueChange,
  wanted: { selector: QueueSelector; from: string | undefined },
): Promise<ChangedQueue> {
  const untilMs = world.monotonicMs() + REQUEST_BUDGET_MS;
  const sum = { found: 0, busy: 0, changed: 0 };
  let from: QueuePlace | null = parsePlace(wanted.from);
  do {
    const step = await changeQueueStep(db, change, { selector: wanted.selector, from });
    sum.found += step.found;
    sum.busy += step.busy;
    sum.changed += step.changed;
    from = step.next;
  } while (from !== null && world.monotonicMs() < untilMs);
  return { ...sum, next: from && showPlace(from) };
}

function parsePlace(text: string | undefined): QueuePlace {
  const [projectId = '', emailId = '', position = ''] = text?.split('/') ?? [];
  const isPlace = isId(projectId) && isId(emailId);
  return isPlace ? { projectId, emailId, position: Number(position) } : QUEUE_START;
}

function showPlace({ projectId, emailId, position }: QueuePlace): string {
  return `${projectId}/${emailId}/${position}`;
}
