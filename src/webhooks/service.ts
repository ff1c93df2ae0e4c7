/**
 * Webhook endpoints as their owners manage them, behind the HTTP API and the command line: the rules
 * of registering, the secrets; tests are in try-out.ts, replays in replay.ts. Delivering: loop.ts.
 *
 * A secret is shown once, when it is made. At rest it is sealed with the endpoint's id.
 */
import { randomBytes } from 'node:crypto';
import type { EventType } from '../core/events.ts';
import { type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { checkWebhookUrl } from '../net/http/guarded-client.ts';
import { isId, newId } from '../store/ids.ts';
import type { Page, PageOf } from '../store/page.ts';
import * as endpoints from '../store/webhook-endpoints.ts';
import { findDelivery, findEndpoint, NO_ENDPOINT } from './find.ts';
import { replay, replayRange, type ReplayRange } from './replay.ts';
import { SECRET_BYTES, secretText } from './sign.ts';
import { tryOut, type TryOutOptions } from './try-out.ts';

type WebhookEndpoint = endpoints.WebhookEndpoint;
type DeliveryStatus = endpoints.DeliveryStatus;

export type WebhookServiceOptions = TryOutOptions;

/** `signingSecret` is shown now and never again. */
export type WithSecret = { endpoint: WebhookEndpoint; signingSecret: string };

export type WebhookChange = {
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

    /** Fields that are left out stay. Another URL or enabling forgets what failed before. */
    update: (scope: Scope, id: string, change: WebhookChange): Promise<WebhookEndpoint | Refusal> =>
      update(options, scope, { id, change }),

    /** What still waits for it ends as failed. */
    async delete(scope: Scope, id: string): Promise<{ id: string } | Refusal> {
      const deleted = isId(id) && (await endpoints.deleteEndpoint(db, scope, id));
      return deleted ? { id } : NO_ENDPOINT;
    },

    /** A new secret; the one until now stays valid for 24 hours beside it. */
    rotateSecret: (scope: Scope, id: string): Promise<WithSecret | Refusal> =>
      rotateSecret(options, scope, id),

    /** Sends a test event at once, one attempt, and says what came of it. */
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

    /** Sends one delivery again, whatever became of it, under its old id. */
    replay: (
      scope: Scope,
      id: string,
      deliveryId: string,
    ): Promise<endpoints.WebhookDeliveryDetail | Refusal> =>
      replay(db, scope, { endpointId: id, id: deliveryId }),

    /** Sends again what happened from `since` to `until`; only what ended in `status`, if given. */
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
