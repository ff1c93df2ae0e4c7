/**
 * Management of webhook endpoints for the HTTP API and the command line: registration, secrets, the log,
 * and the test of an endpoint. Replays are in replays.ts, sending in webhooks/sending/loop.ts.
 *
 * A secret is shown once, when it is created. It is stored encrypted and bound to the endpoint's id.
 * Objects of another project are not found.
 */
import { randomBytes } from 'node:crypto';
import type { EventType } from '../core/events.ts';
import { type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { checkOutboundUrl } from '../net/http/guarded-client.ts';
import { isId, newId } from '../database/ids.ts';
import type { Page, PageOf } from '../database/page.ts';
import * as deliveries from './delivery-store.ts';
import * as endpoints from './endpoint-store.ts';
import { unmarkUnusable } from '../secrets/unusable-store.ts';
import type { WebhookReplay } from './replay-store.ts';
import {
  type DeliveryId,
  findEndpoint,
  findReplayOf,
  NO_ENDPOINT,
  replayOne,
  type ReplayRange,
  startReplay,
} from './replays.ts';
import { attemptWebhook, type Outbound, SECRET_BYTES, secretText } from './sending/attempt.ts';
import type { Database, Queryable } from '../database/database.ts';
import type { Logger } from 'pino';

type WebhookEndpoint = endpoints.WebhookEndpoint;
type Delivery = deliveries.WebhookDeliveryDetail;

type WebhookServiceOptions = TryOutOptions & { db: Pick<Database, 'query' | 'readsOf'> };

/** `signingSecret` is shown once. */
export type WithSecret = { endpoint: WebhookEndpoint; signingSecret: string };

/** `format`: letterhaus unless given. */
type NewEndpoint = Pick<WebhookEndpoint, 'url' | 'events'> &
  Partial<Pick<WebhookEndpoint, 'format'>>;

export type WebhookService = ReturnType<typeof createWebhookService>;

export function createWebhookService(options: WebhookServiceOptions) {
  const { db } = options;
  const find = (scope: Scope, id: string) => findEndpoint(db, scope, id);
  return {
    /** Registers an endpoint, enabled. `events` null: all types. */
    create: (scope: Scope, wanted: NewEndpoint): Promise<WithSecret | Refusal> =>
      create(options, scope, wanted),

    list: (scope: Scope, page: Page): Promise<PageOf<WebhookEndpoint>> =>
      endpoints.listEndpoints(db, scope, page),

    get: find,

    /** The present secret; null when there is no such endpoint. */
    async secretOf(scope: Scope, id: string): Promise<string | null> {
      const sealed = await endpoints.findSecrets(db, scope, id);
      return sealed && options.secrets.open(sealed.secret, id);
    },

    /** Omitted fields stay unchanged. Another URL or enabling resets earlier failures. */
    update: (
      scope: Scope,
      id: string,
      change: endpoints.EndpointChange,
    ): Promise<WebhookEndpoint | Refusal> => update(options, scope, { id, change }),

    /** Pending deliveries end as failed. */
    async delete(scope: Scope, id: string): Promise<{ id: string } | Refusal> {
      const deleted = isId(id) && (await endpoints.deleteEndpoint(db, scope, id));
      return deleted ? { id } : NO_ENDPOINT;
    },

    /** Creates a new secret; the previous one stays valid for 24 hours. */
    rotateSecret: (scope: Scope, id: string): Promise<WithSecret | Refusal> =>
      rotateSecret(options, scope, id),

    /** Sends a test event at once, in one attempt, and returns the result. */
    test: (scope: Scope, id: string): Promise<Delivery | Refusal> => tryOut(options, scope, id),

    async deliveries(
      scope: Scope,
      id: string,
      wanted: deliveries.DeliveryFilter & { page: Page },
    ): Promise<deliveries.DeliveryPage | Refusal> {
      const endpoint = await find(scope, id);
      if ('refused' in endpoint) return endpoint;
      return deliveries.listDeliveries(db.readsOf(scope.projectId), scope, {
        ...wanted,
        endpointId: id,
      });
    },

    delivery: (scope: Scope, which: DeliveryId): Promise<Delivery | Refusal> =>
      findDelivery(db, scope, which),

    /**
     * Sends one delivery again, in any status and with the same id. This enables an endpoint that the
     * service disabled; one that its owner disabled refuses it.
     */
    async replay(scope: Scope, which: DeliveryId): Promise<Delivery | Refusal> {
      const delivery = await findDelivery(db, scope, which);
      if ('refused' in delivery) return delivery;
      const refusal = await replayOne(db, scope, { ...which, delivery });
      return refusal ?? findDelivery(db, scope, which);
    },

    /** Sends the events from `since` to `until` again, in steps (webhooks/replay-store.ts). */
    replayRange: (scope: Scope, id: string, range: ReplayRange): Promise<WebhookReplay | Refusal> =>
      startReplay(db, scope, { ...range, endpointId: id }),

    findReplay: (scope: Scope, which: DeliveryId): Promise<WebhookReplay | Refusal> =>
      findReplayOf(db, scope, which),
  };
}

async function create(
  { db, secrets, guard }: WebhookServiceOptions,
  scope: Scope,
  { url, events, format = 'letterhaus' }: NewEndpoint,
): Promise<WithSecret | Refusal> {
  const problem = checkOutboundUrl(url, guard);
  if (problem !== null) return refuseUrl(problem);
  const id = newId();
  const signingSecret = secretText(randomBytes(SECRET_BYTES));
  const secret = secrets.seal(signingSecret, id);
  const endpoint = await endpoints.createEndpoint(db, scope, {
    id,
    url,
    events: distinct(events),
    secret,
    format,
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
  { id, change }: { id: string; change: endpoints.EndpointChange },
): Promise<WebhookEndpoint | Refusal> {
  const present = await findEndpoint(db, scope, id);
  if ('refused' in present) return present;
  const { url = present.url, events } = change;
  const problem = url === present.url ? null : checkOutboundUrl(url, guard);
  if (problem !== null) return refuseUrl(problem);
  const wanted = { ...change, id, events: events && distinct(events) };
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
  const present = await findEndpoint(db, scope, id);
  if ('refused' in present) return present;
  const signingSecret = secretText(randomBytes(SECRET_BYTES));
  const secret = secrets.seal(signingSecret, id);
  const endpoint = await endpoints.rotateSecret(db, scope, { id, secret });
  if (endpoint) await unmarkUnusable(db, { kind: 'webhook', ownerId: scope.projectId, id });
  return endpoint ? { endpoint, signingSecret } : ROTATED_TWICE;
}

/** Each is valid for 24 hours: a third would invalidate the oldest while a receiver may still use it. */
const ROTATED_TWICE: Refusal = {
  refused: 'conflict',
  message: 'The secret was rotated twice within 24 hours; wait until the oldest has expired.',
};

const NO_DELIVERY: Refusal = {
  refused: 'not_found',
  message: 'There is no delivery with this id to this webhook.',
};

async function findDelivery(
  db: Queryable,
  scope: Scope,
  which: DeliveryId,
): Promise<Delivery | Refusal> {
  const endpoint = await findEndpoint(db, scope, which.endpointId);
  if ('refused' in endpoint) return endpoint;
  return (isId(which.id) && (await deliveries.findDelivery(db, scope, which))) || NO_DELIVERY;
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
): Promise<Delivery | Refusal> {
  const { db, world, log } = options;
  const endpoint = await findEndpoint(db, scope, endpointId);
  if ('refused' in endpoint) return endpoint;
  const sealed = await endpoints.findSecrets(db, scope, endpointId);
  if (!sealed) return NO_ENDPOINT;
  const id = newId();
  const event = testEvent(endpointId, world.now());
  const { url, format } = endpoint;
  const message = { ...sealed, endpointId, eventId: id, url, format, event, attempts: 0 };
  const { verdict, attempt } = await attemptWebhook(options, message);
  const status = verdict === 'delivered' ? 'delivered' : 'failed';
  const logged = { at: event.createdAt, ...attempt };
  await deliveries.recordTest(db, scope, { endpointId, id, event, status, attempt: logged });
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
