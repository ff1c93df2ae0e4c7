/**
 * Webhook endpoints for the HTTP API and the command line: registration, secrets, the log, and the test of an
 * endpoint. replays.ts replays, sending/loop.ts sends.
 *
 * A secret is shown once, when it is created. It is stored encrypted and bound to the endpoint's id.
 */
import { randomBytes } from 'node:crypto';
import type { EventType } from '../core/events.ts';
import { ANY_STATE, type IsExpected } from '../core/entity-tag.ts';
import { CHANGED_SINCE, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { checkOutboundUrl } from '../net/http/guarded-client.ts';
import { isId, newId } from '../database/ids.ts';
import type { Page, PageResult } from '../database/page.ts';
import * as deliveries from './delivery-store.ts';
import * as lists from './deliveries/list-store.ts';
import {
  type DeliveryStatistics,
  readStatistics,
  type StatisticsRange,
} from './deliveries/statistics-store.ts';
import * as endpoints from './endpoint-store.ts';
import { unmarkUnusable } from '../secrets/unusable-store.ts';
import type { WebhookReplay } from './replay-store.ts';
import {
  type DeliveryIds,
  findEndpoint,
  findReplayOfEndpoint,
  NO_ENDPOINT,
  replaySelected,
  replayStoredDelivery,
  type ReplayRange,
  startReplay,
} from './replays.ts';
import { sampleData, type SampleType } from './sample-events.ts';
import { attemptWebhook, type WebhookAttemptOptions } from './sending/attempt.ts';
import { formatSecret, SECRET_BYTES } from './sending/signed-request.ts';
import type { Database, Queryable } from '../database/database.ts';
import { tagOfEndpoint } from './wire.ts';
import type { Logger } from 'pino';

type WebhookEndpoint = endpoints.WebhookEndpoint;
type WebhookDelivery = deliveries.WebhookDeliveryDetail;

type WebhookServiceOptions = Omit<WebhookAttemptOptions, 'agents'> & {
  db: Pick<Database, 'query' | 'readsOf' | 'transaction'>;
  log: Pick<Logger, 'info'>;
};

type EndpointWithSecret = endpoints.EndpointWithSecret;

type NewEndpoint = Pick<WebhookEndpoint, 'url' | 'events'> &
  Partial<Pick<WebhookEndpoint, 'format'>>;

/** A third rotation within 24 hours would end the oldest secret while a receiver may still use it. */
const ROTATED_TWICE: Refusal = {
  refused: 'conflict',
  message: 'The secret was rotated twice within 24 hours; wait until the oldest has expired.',
};

const NO_DELIVERY: Refusal = {
  refused: 'not_found',
  message: 'There is no delivery with this id to this webhook.',
};

/** Nobody can subscribe to this type. Only the endpoint under test gets it, unless the test has another type. */
const TEST_EVENT = 'webhook.test';

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
  ): Promise<EndpointWithSecret | Refusal> {
    const problem = checkOutboundUrl(url, this.#options.guard);
    if (problem !== null) return refuseUrl(problem);
    const id = newId();
    const { signingSecret, sealed: secret } = this.#newSecret(id);
    const newEndpoint = { id, url, events: withoutDuplicates(events), secret, format };
    const endpoint = await endpoints.createEndpoint(this.#db, scope, newEndpoint);
    if (endpoint) return { endpoint, signingSecret };
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
  update(
    scope: Scope,
    id: string,
    change: endpoints.EndpointChange,
    isExpected = ANY_STATE,
  ): Promise<WebhookEndpoint | Refusal> {
    return this.#db.transaction(async (tx) => {
      const current = await lockExpected(tx, scope, { id, isExpected });
      if (isRefusal(current)) return current;
      const { url = current.url, events } = change;
      const problem = url === current.url ? null : checkOutboundUrl(url, this.#options.guard);
      if (problem !== null) return refuseUrl(problem);
      const update = { ...change, id, events: events && withoutDuplicates(events) };
      return (await endpoints.updateEndpoint(tx, scope, update)) ?? NO_ENDPOINT;
    });
  }

  delete(scope: Scope, id: string, isExpected = ANY_STATE): Promise<{ id: string } | Refusal> {
    return this.#db.transaction(async (tx) => {
      const current = await lockExpected(tx, scope, { id, isExpected });
      if (isRefusal(current)) return current;
      return (await endpoints.deleteEndpoint(tx, scope, id)) ? { id } : NO_ENDPOINT;
    });
  }

  async rotateSecret(scope: Scope, id: string): Promise<EndpointWithSecret | Refusal> {
    const current = await this.get(scope, id);
    if (isRefusal(current)) return current;
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

  async listDeliveries(
    scope: Scope,
    id: string,
    query: Partial<lists.DeliveryFilter> & { page: Page },
  ): Promise<lists.DeliveryPage | Refusal> {
    const endpoint = await this.get(scope, id);
    if (isRefusal(endpoint)) return endpoint;
    const reads = this.#db.readsOf(scope.projectId);
    return lists.listDeliveries(reads, scope, { ...query, endpointId: id });
  }

  async statistics(
    scope: Scope,
    endpointId: string,
    range: StatisticsRange,
  ): Promise<DeliveryStatistics | Refusal> {
    const endpoint = await this.get(scope, endpointId);
    if (isRefusal(endpoint)) return endpoint;
    return readStatistics(this.#db.readsOf(scope.projectId), scope, { ...range, endpointId });
  }

  async findDelivery(scope: Scope, ids: DeliveryIds): Promise<WebhookDelivery | Refusal> {
    const endpoint = await this.get(scope, ids.endpointId);
    if (isRefusal(endpoint)) return endpoint;
    const found = isId(ids.id) && (await deliveries.findDelivery(this.#db, scope, ids));
    return found || NO_DELIVERY;
  }

  /**
   * Replays one delivery, whatever its status, with the same id. This enables an endpoint that the service disabled.
   * It refuses an endpoint that its owner disabled.
   */
  async replay(scope: Scope, ids: DeliveryIds): Promise<WebhookDelivery | Refusal> {
    const delivery = await this.findDelivery(scope, ids);
    if (isRefusal(delivery)) return delivery;
    const refusal = await replayStoredDelivery(this.#db, scope, { ...ids, delivery });
    return refusal ?? this.findDelivery(scope, ids);
  }

  /** Like `replay`, for some deliveries. Returns how many are queued: those that are being sent now are not. */
  replaySelected(
    scope: Scope,
    endpointId: string,
    ids: readonly string[],
  ): Promise<{ queued: number } | Refusal> {
    return replaySelected(this.#db, scope, { endpointId, ids });
  }

  replayRange(scope: Scope, id: string, range: ReplayRange): Promise<WebhookReplay | Refusal> {
    return startReplay(this.#db, scope, { ...range, endpointId: id });
  }

  findReplay(scope: Scope, ids: DeliveryIds): Promise<WebhookReplay | Refusal> {
    return findReplayOfEndpoint(this.#db, scope, ids);
  }

  /** @param type sends an example of this type instead of a `webhook.test` event */
  async test(
    scope: Scope,
    endpointId: string,
    type: SampleType | null = null,
  ): Promise<WebhookDelivery | Refusal> {
    const { world, log } = this.#options;
    const endpoint = await this.get(scope, endpointId);
    if (isRefusal(endpoint)) return endpoint;
    const sealed = await endpoints.findSecrets(this.#db, scope, endpointId);
    if (!sealed) return NO_ENDPOINT;
    const id = newId();
    const event = createTestEvent(endpointId, type, world.now());
    const { url, format } = endpoint;
    const request = { ...sealed, endpointId, eventId: id, url, format, event, attempts: 0 };
    const { kind, attempt } = await attemptWebhook(this.#options, request);
    const status = kind === 'delivered' ? 'delivered' : 'failed';
    const logged = { at: event.createdAt, ...attempt };
    await deliveries.recordTestDelivery(this.#db, scope, {
      endpointId,
      id,
      event,
      status,
      attempt: logged,
    });
    const logFields = { endpoint_id: endpointId, event_id: id, type: event.type, outcome: status };
    log.info({ ...logFields, status: attempt.status, latency_ms: attempt.latency_ms }, 'webhook');
    return this.findDelivery(scope, { endpointId, id });
  }
}

async function lockExpected(
  tx: Queryable,
  scope: Scope,
  { id, isExpected }: { id: string; isExpected: IsExpected },
): Promise<WebhookEndpoint | Refusal> {
  const current = isId(id) ? await endpoints.lockEndpoint(tx, scope, id) : null;
  if (current === null) return NO_ENDPOINT;
  return isExpected(tagOfEndpoint(current)) ? current : CHANGED_SINCE;
}

function withoutDuplicates(events: readonly EventType[] | null): readonly EventType[] | null {
  return events && [...new Set(events)];
}

function refuseUrl(problem: string): Refusal {
  return refuseFields([{ field: 'url', message: problem }]);
}

function createTestEvent(endpointId: string, type: SampleType | null, nowMs: number) {
  const createdAt = new Date(nowMs).toISOString();
  const data =
    type === null
      ? { webhook_id: endpointId, message: 'This is a test.' }
      : sampleData(type, createdAt);
  return { type: type ?? TEST_EVENT, createdAt, data: JSON.stringify(data) };
}
