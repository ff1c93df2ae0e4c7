/**
 * Reports webhooks that the service has disabled: the condition `webhook.disabled` for the operator, and the event
 * `webhook.disabled` for the project's stream and its other webhooks. Both commit together, exactly once, even if
 * several machines check at the same time and one dies.
 */
import { OPERATOR_PROJECT_ID } from '../core/operator-events.ts';
import {
  type DisabledEndpoint,
  findReenabledEndpoints,
  findUnreportedEndpoints,
} from './disabled-store.ts';
import { recordEvent } from '../events/event-store.ts';
import type { Database } from '../database/database.ts';
import type { OperatorEventLog } from '../operator/operator-event-log.ts';

const BATCH_MAX = 100;

export async function reportDisabledEndpoints(
  db: Database,
  operatorEvents: OperatorEventLog,
): Promise<void> {
  for (const endpoint of await findUnreportedEndpoints(db, BATCH_MAX)) {
    await operatorEvents.raiseInTransaction(db, conditionOf(endpoint), async (tx) => {
      // An operator's own webhook has only the event of the condition.
      if (endpoint.projectId === OPERATOR_PROJECT_ID) return;
      await recordEvent(tx, {
        scope: endpoint,
        type: 'webhook.disabled',
        data: eventData(endpoint),
      });
    });
  }
  for (const subject of await findReenabledEndpoints(db)) {
    operatorEvents.clear({
      type: 'webhook.disabled',
      subject,
      endMessage: 'The webhook was enabled or deleted.',
    });
  }
}

/** Shows the operator only the origin, because paths of webhooks often contain a secret of the receiver. */
function conditionOf(endpoint: DisabledEndpoint) {
  const { id, url, reason, projectId, projectName, environment } = endpoint;
  const { origin } = new URL(url);
  return {
    type: 'webhook.disabled',
    subject: id,
    message: `The webhook at ${origin} of project ${projectName} was disabled. ${reason}`,
    remedy: `Repair the receiver, enable the webhook (letterhaus webhooks update ${id} --enable), and replay what it missed.`,
    details: { project_id: projectId, environment, origin },
  } as const;
}

function eventData({ id, url, reason, failingSince }: DisabledEndpoint): object {
  return {
    webhook_id: id,
    url,
    reason,
    failing_since: failingSince?.toISOString() ?? null,
  };
}
