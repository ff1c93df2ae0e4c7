/**
 * Trying an endpoint out: one test event at once, through the same attempt as every other, and what
 * came of it. Recorded only when it is over, so that a test that dies with its process leaves
 * nothing that waits for ever. It does not count for the endpoint's health.
 */
import type { Logger } from 'pino';
import type { Refusal } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { newId } from '../store/ids.ts';
import { recordTest, type WebhookDeliveryDetail, findSecrets } from '../store/webhook-endpoints.ts';
import { type Outbound, payloadOf, post } from './attempt.ts';
import { findDelivery, findEndpoint, NO_ENDPOINT } from './find.ts';
import { judge } from './verdict.ts';

export type TryOutOptions = Omit<Outbound, 'agents'> & {
  db: Queryable;
  log: Pick<Logger, 'info'>;
};

/** Not among the kinds that can be chosen: it goes to the endpoint under test and nowhere else. */
const TEST_EVENT = 'webhook.test';

export async function tryOut(
  options: TryOutOptions,
  scope: Scope,
  endpointId: string,
): Promise<WebhookDeliveryDetail | Refusal> {
  const { db, world, log } = options;
  const endpoint = await findEndpoint(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  const sealed = await findSecrets(db, scope, endpointId);
  if (!sealed) return NO_ENDPOINT;
  const id = newId();
  const nowMs = world.now();
  const event = testEvent(endpointId, nowMs);
  const { url } = endpoint;
  const message = { ...sealed, endpointId, eventId: id, url, body: payloadOf(event) };
  const answer = await post(options, message);
  const { verdict, attempt } = judge(answer, { attempts: 0, dice: 0, nowMs });
  const status = verdict === 'delivered' ? 'delivered' : 'failed';
  const logged = { at: event.createdAt, ...attempt };
  await recordTest(db, scope, { endpointId, id, event, status, attempt: logged });
  const { type } = event;
  const about = { endpoint_id: endpointId, event_id: id, type, outcome: status };
  log.info({ ...about, status: attempt.status, latency_ms: attempt.latency_ms }, 'webhook');
  return findDelivery(db, scope, { endpointId, id });
}

function testEvent(endpointId: string, nowMs: number) {
  return {
    type: TEST_EVENT,
    createdAt: new Date(nowMs).toISOString(),
    data: JSON.stringify({ webhook_id: endpointId, message: 'This is a test.' }),
  };
}
