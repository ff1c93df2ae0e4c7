/**
 * Changes waiting mail for a request: in steps, until all is changed or the time of the request is over. The client
 * then continues from a cursor of the queue, which is text for it: `next` in responses, `from` in requests.
 */
import { isId } from '../../database/ids.ts';
import type { Queryable } from '../../database/database.ts';
import type { World } from '../../lib/world.ts';
import {
  changeQueueStep,
  QUEUE_START,
  type QueueChange,
  type QueueCursor,
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
  let from: QueueCursor | null = parseCursor(wanted.from);
  do {
    const step = await changeQueueStep(db, change, { selector: wanted.selector, from });
    sum.found += step.found;
    sum.busy += step.busy;
    sum.changed += step.changed;
    from = step.next;
  } while (from !== null && world.monotonicMs() < untilMs);
  return { ...sum, next: from && showCursor(from) };
}

function parseCursor(text: string | undefined): QueueCursor {
  const [projectId = '', emailId = '', position = ''] = text?.split('/') ?? [];
  const isCursor = isId(projectId) && isId(emailId);
  return isCursor ? { projectId, emailId, position: Number(position) } : QUEUE_START;
}

function showCursor({ projectId, emailId, position }: QueueCursor): string {
  return `${projectId}/${emailId}/${position}`;
}
