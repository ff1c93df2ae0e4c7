/** Webhooks as the API returns them. */
import { entityTagOf } from '../core/entity-tag.ts';
import type { WebhookDelivery, WebhookDeliveryDetail } from './delivery-store.ts';
import type { DeliveryStatistics, StatisticsRange } from './deliveries/statistics-store.ts';
import type { EndpointWithSecret, WebhookEndpoint } from './endpoint-store.ts';
import type { WebhookReplay } from './replay-store.ts';

export function webhookToWire(endpoint: WebhookEndpoint) {
  return {
    object: 'webhook' as const,
    id: endpoint.id,
    url: endpoint.url,
    events: endpoint.events && [...endpoint.events],
    status: endpoint.status,
    disabled_reason: endpoint.disabledReason,
    failing_since: endpoint.failingSince?.toISOString() ?? null,
    failures: endpoint.failures,
    last_failure: endpoint.lastFailure,
    suspended_until: endpoint.suspendedUntil?.toISOString() ?? null,
    created_at: endpoint.createdAt.toISOString(),
    etag: tagOfEndpoint(endpoint),
  };
}

/** Changes with the settings, also when the service disables the endpoint, and not with failures. */
export function tagOfEndpoint({ id, url, events, status }: WebhookEndpoint): string {
  return entityTagOf({ id, url, events, status });
}

export function webhookWithSecretToWire({ endpoint, signingSecret }: EndpointWithSecret) {
  return { ...webhookToWire(endpoint), signing_secret: signingSecret };
}

/** Limit on a response in a list. The delivery itself has the first 4 KB. */
const ANSWER_CHARACTERS = 200;

export function deliveryToWire(delivery: WebhookDelivery) {
  const { lastAttempt } = delivery;
  return {
    object: 'webhook_delivery' as const,
    id: delivery.id,
    type: delivery.type,
    email_id: delivery.emailId,
    recipient: delivery.recipient,
    status: delivery.status,
    attempts: delivery.attempts,
    created_at: delivery.createdAt.toISOString(),
    completed_at: delivery.completedAt?.toISOString() ?? null,
    next_attempt_at: delivery.nextAttemptAt?.toISOString() ?? null,
    last_attempt: lastAttempt && {
      ...lastAttempt,
      answer: lastAttempt.answer?.slice(0, ANSWER_CHARACTERS) ?? null,
    },
  };
}

export function deliveryDetailToWire(delivery: WebhookDeliveryDetail) {
  const { event, log } = delivery;
  return {
    ...deliveryToWire(delivery),
    log,
    payload: event && {
      type: event.type,
      created_at: event.createdAt,
      data: JSON.parse(event.data) as unknown,
    },
  };
}

export function statisticsToWire(
  { intervals: found, failures, ...statistics }: DeliveryStatistics,
  { since, until, intervals }: StatisticsRange,
) {
  const byIndex = new Map(found.map(({ index, ...counts }) => [index, counts]));
  const stepMs = (until.getTime() - since.getTime()) / intervals;
  const sumOf = (name: 'delivered' | 'failed' | 'waiting'): number =>
    found.reduce((sum, interval) => sum + interval[name], 0);
  return {
    object: 'webhook_statistics' as const,
    since: since.toISOString(),
    until: until.toISOString(),
    delivered: sumOf('delivered'),
    failed: sumOf('failed'),
    waiting: sumOf('waiting'),
    is_partial: statistics.isPartial,
    latency_p95_ms: statistics.latencyP95Ms,
    pending: statistics.pending,
    next_attempt_at: statistics.nextAttemptAt?.toISOString() ?? null,
    intervals: Array.from({ length: intervals }, (_, index) => ({
      at: new Date(since.getTime() + index * stepMs).toISOString(),
      ...(byIndex.get(index) ?? { delivered: 0, failed: 0, waiting: 0 }),
    })),
    failures: failures.map(({ firstAt, lastAt, deliveryId, ...group }) => ({
      ...group,
      first_at: firstAt,
      last_at: lastAt,
      delivery_id: deliveryId,
    })),
  };
}

export function replayToWire(replay: WebhookReplay) {
  return {
    object: 'webhook_replay' as const,
    id: replay.id,
    webhook_id: replay.endpointId,
    status: replay.status,
    since: replay.since.toISOString(),
    until: replay.until.toISOString(),
    delivery_status: replay.deliveryStatus,
    type: replay.type,
    code: replay.code,
    total: replay.total,
    queued: replay.queued,
    created_at: replay.createdAt.toISOString(),
    completed_at: replay.completedAt?.toISOString() ?? null,
  };
}
