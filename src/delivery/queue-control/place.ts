/** The place in the queue from which a client continues a change, as text: `next` in responses, `from` in requests. */
import { isId } from '../../database/ids.ts';
import { QUEUE_START, type QueuePlace } from './change-store.ts';

/** Parses the `next` of a response; undefined: the start of the queue. */
export function parsePlace(text: string | undefined): QueuePlace {
  const [projectId = '', emailId = '', position = ''] = text?.split('/') ?? [];
  const isPlace = isId(projectId) && isId(emailId);
  return isPlace ? { projectId, emailId, position: Number(position) } : QUEUE_START;
}

export function showPlace(next: QueuePlace | null): string | null {
  return next && `${next.projectId}/${next.emailId}/${next.position}`;
}
