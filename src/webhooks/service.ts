/**
 * Management of webhook endpoints for the HTTP API and the command line: registration,
 * secrets, replays, and the test of an endpoint. Sending: loop.ts.
 *
 * A secret is shown once, when it is created. At rest it is encrypted and bound to the endpoint's id.
 * Objects of another project are not found. A replay keeps the ids and restarts the schedule.
 */
import { randomBytes } from 'node:crypto';
import type { EventType } from '../core/events.ts';
import { type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { checkWebhookUrl } from '../net/http/guarded-client.ts';
import { isId, newId } from '../store/ids.ts';
import type { Page, PageOf } from '../store/page.ts';
import * as endpoints from '../store/webhook-endpoints.ts';
import { SECRET_BYTES, secretText, type Outbound, payloadOf, post, judge } from './attempt.ts';
import type { Queryable } from '../store/postgres/database.ts';
import type { Logger } from 'pino';

type WebhookEndpoint = endpoints.WebhookEndpoint;
type DeliveryStatus = endpoints.DeliveryStatus;

type WebhookServiceOptions = TryOutOptions;

/** `signingSecret` is shown once. */
export type WithSecret = { endpoint: WebhookEndpoint; signingSecret: string };

type WebhookChange = {
  url?: string | undefined;
  events?: readonly EventType[] | null | undefined;
  status?: endpoints.EndpointStatus | undefined;
};

export type WebhookService = ReturnType<typeof createWebhookService>;

export function createWebhookService(options: WebhookServiceOptions) {
  const { db } = options;
  const find = (scope: Scope, id: string) => findEndpoint(db, scope, id);
  return {
    /** Registers an endpoint, enabled. `events` null: all of them. */
    create: (
      scope: Scope,
      wanted: { url: string; events: readonly EventType[] | null },
    ): Promise<WithSecret | Refusal> => create(options, scope, wanted),

    list: (scope: Scope, page: Page): Promise<PageOf<WebhookEndpoint>> =>
      endpoints.listEndpoints(db, scope, page),

    get: find,

    /** Omitted fields stay unchanged. Another URL or enabling resets earlier failures. */
    update: (scope: Scope, id: string, change: WebhookChange): Promise<WebhookEndpoint | Refusal> =>
      update(options, scope, { id, change }),

    /** Pending deliveries end as failed. */
    async delete(scope: Scope, id: string): Promise<{ id: string } | Refusal> {
      const deleted = isId(id) && (await endpoints.deleteEndpoint(db, scope, id));
      return deleted ? { id } : NO_ENDPOINT;
    },

    /** Creates a new secret; the previous one stays valid for 24 hours. */
    rotateSecret: (scope: Scope, id: string): Promise<WithSecret | Refusal> =>
      rotateSecret(options, scope, id),

    /** Sends a test event at once, in one attempt, and returns the result. */
    test: (scope: Scope, id: string): Promise<endpoints.WebhookDeliveryDetail | Refusal> =>
      tryOut(options, scope, id),

    async deliveries(
      scope: Scope,
      id: string,
      { status, page }: { status: DeliveryStatus | null; page: Page },
    ): Promise<endpoints.DeliveryPage | Refusal> {
      const endpoint = await find(scope, id);
      if ('refused' in endpoint) return endpoint;
      return endpoints.listDeliveries(db, scope, { endpointId: id, status, page });
    },

    /** One delivery with its payload and its attempts. */
    delivery: (
      scope: Scope,
      id: string,
      deliveryId: string,
    ): Promise<endpoints.WebhookDeliveryDetail | Refusal> =>
      findDelivery(db, scope, { endpointId: id, id: deliveryId }),

    /** Sends one delivery again, whatever its status, under its old id. */
    replay: (
      scope: Scope,
      id: string,
      deliveryId: string,
    ): Promise<endpoints.WebhookDeliveryDetail | Refusal> =>
      replay(db, scope, { endpointId: id, id: deliveryId }),

    /** Sends the events from `since` to `until` again; only those that ended in `status`, if given. */
    replayRange: (
      scope: Scope,
      id: string,
      range: ReplayRange,
    ): Promise<{ count: number } | Refusal> => replayRange(db, scope, { endpointId: id, range }),
  };
}

async function create(
  { db, secrets, guard }: WebhookServiceOptions,
  scope: Scope,
  { url, events }: { url: string; events: readonly EventType[] | null },
): Promise<WithSecret | Refusal> {
  const problem = checkWebhookUrl(url, guard);
  if (problem !== null) return refuseUrl(problem);
  const id = newId();
  const signingSecret = secretText(randomBytes(SECRET_BYTES));
  const secret = secrets.seal(signingSecret, id);
  const endpoint = await endpoints.createEndpoint(db, scope, {
    id,
    url,
    events: distinct(events),
    secret,
  });
  if (endpoint) return { endpoint, signingSecret };
  return {
    refused: 'conflict',
    message: `A project has at most ${endpoints.ENDPOINTS_MAX} webhooks; delete one first.`,
  };
}

async function update(
  { db, guard }: WebhookServiceOptions,
  scope: Scope,
  { id, change }: { id: string; change: WebhookChange },
): Promise<WebhookEndpoint | Refusal> {
  const present = await findEndpoint(db, scope, id);
  if ('refused' in present) return present;
  const { url = present.url, events = present.events, status = present.status } = change;
  const problem = url === present.url ? null : checkWebhookUrl(url, guard);
  if (problem !== null) return refuseUrl(problem);
  const wanted = { id, url, events: distinct(events), status };
  return (await endpoints.updateEndpoint(db, scope, wanted)) ?? NO_ENDPOINT;
}

function distinct(events: readonly EventType[] | null): readonly EventType[] | null {
  return events && [...new Set(events)];
}

function refuseUrl(problem: string): Refusal {
  return refuseFields([{ field: 'url', message: problem }]);
}

async function rotateSecret(
  { db, secrets }: WebhookServiceOptions,
  scope: Scope,
  id: string,
): Promise<WithSecret | Refusal> {
  if (!isId(id)) return NO_ENDPOINT;
  const signingSecret = secretText(randomBytes(SECRET_BYTES));
  const secret = secrets.seal(signingSecret, id);
  const endpoint = await endpoints.rotateSecret(db, scope, { id, secret });
  return endpoint ? { endpoint, signingSecret } : NO_ENDPOINT;
}

export const NO_ENDPOINT: Refusal = {
  refused: 'not_found',
  message: 'There is no webhook with this id in this project and environment.',
};

const NO_DELIVERY: Refusal = {
  refused: 'not_found',
  message: 'There is no delivery with this id to this webhook.',
};

type DeliveryId = { endpointId: string; id: string };

async function findEndpoint(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  return (isId(id) && (await endpoints.findEndpoint(db, scope, id))) || NO_ENDPOINT;
}

/** Nothing is sent to a disabled endpoint, so a replay would end as failed at once. */
async function findEnabled(
  db: Queryable,
  scope: Scope,
  id: string,
): Promise<endpoints.WebhookEndpoint | Refusal> {
  const endpoint = await findEndpoint(db, scope, id);
  if ('refused' in endpoint || endpoint.status === 'enabled') return endpoint;
  return { refused: 'conflict', message: 'The webhook is disabled; enable it first.' };
}

/** One delivery with its payload and its attempts. */
async function findDelivery(
  db: Queryable,
  scope: Scope,
  which: DeliveryId,
): Promise<endpoints.WebhookDeliveryDetail | Refusal> {
  const endpoint = await findEndpoint(db, scope, which.endpointId);
  if ('refused' in endpoint) return endpoint;
  return (isId(which.id) && (await endpoints.findDelivery(db, scope, which))) || NO_DELIVERY;
}

type ReplayRange = {
  since: Date;
  /** Exclusive. */
  until: Date;
  /** Only deliveries with this status; null: all. */
  status: endpoints.DeliveryStatus | null;
};

/** How many one call may send again: a longer period is replayed in several calls. */
const REPLAY_MAX = 50_000;
const BATCH = 1_000;

async function replay(
  db: Queryable,
  scope: Scope,
  which: DeliveryId,
): Promise<endpoints.WebhookDeliveryDetail | Refusal> {
  const { endpointId, id } = which;
  const endpoint = await findEnabled(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  const delivery = await findDelivery(db, scope, which);
  if ('refused' in delivery) return delivery;
  if (delivery.event === null) {
    return { refused: 'conflict', message: 'This event is older than what is kept.' };
  }
  await endpoints.replayDeliveries(db, scope, { endpointId, ids: [id] });
  return findDelivery(db, scope, which);
}

/** @returns how many are sent again */
async function replayRange(
  db: Queryable,
  scope: Scope,
  { endpointId, range }: { endpointId: string; range: ReplayRange },
): Promise<{ count: number } | Refusal> {
  const endpoint = await findEnabled(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  if (range.until <= range.since) return refuseUntil('must be after since');
  const wanted = { ...range, endpointId, limit: REPLAY_MAX + 1 };
  const ids = await endpoints.findDeliveryIds(db, scope, wanted);
  if (ids.length > REPLAY_MAX) {
    return refuseUntil(`covers more than ${REPLAY_MAX} deliveries; replay shorter periods`);
  }
  for (let from = 0; from < ids.length; from += BATCH) {
    const batch = ids.slice(from, from + BATCH);
    await endpoints.replayDeliveries(db, scope, { endpointId, ids: batch });
  }
  return { count: ids.length };
}

function refuseUntil(message: string): Refusal {
  return refuseFields([{ field: 'until', message }]);
}

type TryOutOptions = Omit<Outbound, 'agents'> & {
  db: Queryable;
  log: Pick<Logger, 'info'>;
};

/** Cannot be subscribed to: it is sent only to the endpoint under test. */
const TEST_EVENT = 'webhook.test';

async function tryOut(
  options: TryOutOptions,
  scope: Scope,
  endpointId: string,
): Promise<endpoints.WebhookDeliveryDetail | Refusal> {
  const { db, world, log } = options;
  const endpoint = await findEndpoint(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  const sealed = await endpoints.findSecrets(db, scope, endpointId);
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
  await endpoints.recordTest(db, scope, { endpointId, id, event, status, attempt: logged });
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
