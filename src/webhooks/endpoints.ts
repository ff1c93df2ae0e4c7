/**
 * Webhook endpoints for the HTTP API and the command line: registration, secrets, the log, and the test of an
 * endpoint. `replays.ts` replays, `sending/loop.ts` sends.
 *
 * A secret is shown once, when it is created. It is stored encrypted and bound to the endpoint's id.
 */
import { randomBytes } from 'node:crypto';
import type { EventType } from '../core/events.ts';
import { type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { checkOutboundUrl } from '../net/http/guarded-client.ts';
import { isId, newId } from '../database/ids.ts';
import type { Page, PageResult } from '../database/page.ts';
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
import { attemptWebhook, type AttemptDependencies } from './sending/attempt.ts';
import { formatSecret, SECRET_BYTES } from './sending/signed-request.ts';
import type { Database } from '../database/database.ts';
import type { Logger } from 'pino';

type WebhookEndpoint = endpoints.WebhookEndpoint;
type Delivery = deliveries.WebhookDeliveryDetail;

type WebhookServiceOptions = Omit<AttemptDependencies, 'agents'> & {
  db: Pick<Database, 'query' | 'readsOf'>;
  log: Pick<Logger, 'info'>;
};

export type WithSecret = { endpoint: WebhookEndpoint; signingSecret: string };

type NewEndpoint = Pick<WebhookEndpoint, 'url' | 'events'> &
  Partial<Pick<WebhookEndpoint, 'format'>>;

export class WebhookService {
  readonly #options: WebhookServiceOptions;
  readonly #db: WebhookServiceOptions['db'];

  constructor(options: WebhookServiceOptions) {
    this.#options = options;
    this.#db = options.db;
  }

  /** Registers an endpoint and enables it. `events` null subscribes to all types. */
  async create(
    scope: Scope,
    { url, events, format = 'letterhaus' }: NewEndpoint,
  ): Promise<WithSecret | Refusal> {
    const problem = checkOutboundUrl(url, this.#options.guard);
    if (problem !== null) return refuseUrl(problem);
    const id = newId();
    const made = this.#newSecret(id);
    const wanted = { id, url, events: distinct(events), secret: made.sealed, format };
    const endpoint = await endpoints.createEndpoint(this.#db, scope, wanted);
    if (endpoint) return { endpoint, signingSecret: made.signingSecret };
    const message = `A project has at most ${endpoints.ENDPOINTS_MAX} webhooks; delete one first.`;
    return { refused: 'conflict', message };
  }

  list(scope: Scope, page: Page): Promise<PageResult<WebhookEndpoint>> {
    return endpoints.listEndpoints(this.#db, scope, page);
  }

  get(scope: Scope, id: string): Promise<WebhookEndpoint | Refusal> {
    return findEndpoint(this.#db, scope, id);
  }

  async secretOf(scope: Scope, id: string): Promise<string | null> {
    const sealed = await endpoints.findSecrets(this.#db, scope, id);
    return sealed && this.#options.secrets.open(sealed.secret, id);
  }

  /** Omitted fields do not change. Another URL, or enabling, resets earlier failures. */
  async update(
    scope: Scope,
    id: string,
    change: endpoints.EndpointChange,
  ): Promise<WebhookEndpoint | Refusal> {
    const present = await this.get(scope, id);
    if ('refused' in present) return present;
    const { url = present.url, events } = change;
    const problem = url === present.url ? null : checkOutboundUrl(url, this.#options.guard);
    if (problem !== null) return refuseUrl(problem);
    const wanted = { ...change, id, events: events && distinct(events) };
    return (await endpoints.updateEndpoint(this.#db, scope, wanted)) ?? NO_ENDPOINT;
  }

  async delete(scope: Scope, id: string): Promise<{ id: string } | Refusal> {
    const deleted = isId(id) && (await endpoints.deleteEndpoint(this.#db, scope, id));
    return deleted ? { id } : NO_ENDPOINT;
  }

  async rotateSecret(scope: Scope, id: string): Promise<WithSecret | Refusal> {
    const present = await this.get(scope, id);
    if ('refused' in present) return present;
    const { signingSecret, sealed: secret } = this.#newSecret(id);
    const endpoint = await endpoints.rotateSecret(this.#db, scope, { id, secret });
    const owner = { kind: 'webhook', ownerId: scope.projectId, id } as const;
    if (endpoint) await unmarkUnusable(this.#db, owner);
    return endpoint ? { endpoint, signingSecret } : ROTATED_TWICE;
  }

  #newSecret(id: string): { signingSecret: string; sealed: Buffer } {
    const signingSecret = formatSecret(randomBytes(SECRET_BYTES));
    return { signingSecret, sealed: this.#options.secrets.seal(signingSecret, id) };
  }

  async deliveries(
    scope: Scope,
    id: string,
    wanted: deliveries.DeliveryFilter & { page: Page },
  ): Promise<deliveries.DeliveryPage | Refusal> {
    const endpoint = await this.get(scope, id);
    if ('refused' in endpoint) return endpoint;
    const reads = this.#db.readsOf(scope.projectId);
    return deliveries.listDeliveries(reads, scope, { ...wanted, endpointId: id });
  }

  async delivery(scope: Scope, which: DeliveryId): Promise<Delivery | Refusal> {
    const endpoint = await this.get(scope, which.endpointId);
    if ('refused' in endpoint) return endpoint;
    const found = isId(which.id) && (await deliveries.findDelivery(this.#db, scope, which));
    return found || NO_DELIVERY;
  }

  /**
   * Replays one delivery, whatever its status, with the same id. This enables an endpoint that the service disabled.
   * It refuses an endpoint that its owner disabled.
   */
  async replay(scope: Scope, which: DeliveryId): Promise<Delivery | Refusal> {
    const delivery = await this.delivery(scope, which);
    if ('refused' in delivery) return delivery;
    const refusal = await replayOne(this.#db, scope, { ...which, delivery });
    return refusal ?? this.delivery(scope, which);
  }

  replayRange(scope: Scope, id: string, range: ReplayRange): Promise<WebhookReplay | Refusal> {
    return startReplay(this.#db, scope, { ...range, endpointId: id });
  }

  findReplay(scope: Scope, which: DeliveryId): Promise<WebhookReplay | Refusal> {
    return findReplayOf(this.#db, scope, which);
  }

  async test(scope: Scope, endpointId: string): Promise<Delivery | Refusal> {
    const { world, log } = this.#options;
    const endpoint = await this.get(scope, endpointId);
    if ('refused' in endpoint) return endpoint;
    const sealed = await endpoints.findSecrets(this.#db, scope, endpointId);
    if (!sealed) return NO_ENDPOINT;
    const id = newId();
    const event = testEvent(endpointId, world.now());
    const { url, format } = endpoint;
    const message = { ...sealed, endpointId, eventId: id, url, format, event, attempts: 0 };
    const { meaning, attempt } = await attemptWebhook(this.#options, message);
    const status = meaning === 'delivered' ? 'delivered' : 'failed';
    const logged = { at: event.createdAt, ...attempt };
    await deliveries.recordTest(this.#db, scope, {
      endpointId,
      id,
      event,
      status,
      attempt: logged,
    });
    const { type } = event;
    const about = { endpoint_id: endpointId, event_id: id, type, outcome: status };
    log.info({ ...about, status: attempt.status, latency_ms: attempt.latency_ms }, 'webhook');
    return this.delivery(scope, { endpointId, id });
  }
}

function distinct(events: readonly EventType[] | null): readonly EventType[] | null {
  return events && [...new Set(events)];
}

function refuseUrl(problem: string): Refusal {
  return refuseFields([{ field: 'url', message: problem }]);
}

/** A third rotation within 24 hours would end the oldest secret while a receiver may still use it. */
const ROTATED_TWICE: Refusal = {
  refused: 'conflict',
  message: 'The secret was rotated twice within 24 hours; wait until the oldest has expired.',
};

const NO_DELIVERY: Refusal = {
  refused: 'not_found',
  message: 'There is no delivery with this id to this webhook.',
};

/** Nobody can subscribe to this type. Only the endpoint under test gets it. */
const TEST_EVENT = 'webhook.test';

function testEvent(endpointId: string, nowMs: number) {
  return {
    type: TEST_EVENT,
    createdAt: new Date(nowMs).toISOString(),
    data: JSON.stringify({ webhook_id: endpointId, message: 'This is a test.' }),
  };
}
