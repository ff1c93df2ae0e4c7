/** Webhook deliveries of an email by endpoint, the ones in trouble first. Pure. */
import type { EmailWebhookDelivery } from '../../../../../sdk/src/api.ts';
import type { Tone } from '../../../ui/tone.ts';

export type EndpointDeliveries = {
  id: string;
  url: string;
  deliveries: EmailWebhookDelivery[];
  receivedCount: number;
  tone: Tone;
  /** Answer of the endpoint to the newest delivery that it has not received, or null. */
  answer: string | null;
  nextAttemptAt: string | null;
};

const ORDER: readonly Tone[] = ['bad', 'wait', 'good'];

/** @param deliveries newest first */
export function byEndpoint(deliveries: readonly EmailWebhookDelivery[]): EndpointDeliveries[] {
  const groups = Object.groupBy(deliveries, ({ webhook_id: id }) => id);
  return Object.entries(groups)
    .map(([id, group = []]) => endpointOf(id, group))
    .toSorted((one, other) => ORDER.indexOf(one.tone) - ORDER.indexOf(other.tone));
}

function endpointOf(id: string, deliveries: EmailWebhookDelivery[]): EndpointDeliveries {
  const missing = deliveries.filter(({ status }) => status !== 'delivered');
  const hasFailed = missing.some(({ status }) => status === 'failed');
  const attempted = missing.find(({ last_attempt: last }) => last !== null);
  const next = missing.flatMap(({ next_attempt_at: at }) => at ?? []).toSorted()[0] ?? null;
  return {
    id,
    url: deliveries[0]?.webhook_url ?? '',
    deliveries,
    receivedCount: deliveries.length - missing.length,
    tone: hasFailed ? 'bad' : missing.length > 0 ? 'wait' : 'good',
    answer: attempted ? answerOf(attempted) : null,
    nextAttemptAt: next,
  };
}

/** "answers 500", or why there is no usable answer. */
export function answerOf({ last_attempt: last }: EmailWebhookDelivery): string | null {
  if (last === null) return null;
  if (last.status !== null) return `answers ${last.status}`;
  return last.error ?? 'does not answer';
}
