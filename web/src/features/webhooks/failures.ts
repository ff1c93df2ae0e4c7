/** Failed attempts of a webhook, grouped by what the receiver responded. */
import type { WebhookDelivery } from '../../../../sdk/src/api.ts';

export type FailureGroup = {
  /** The status and the beginning of the response, or the reason why there was none. */
  what: string;
  count: number;
  newest: WebhookDelivery;
};

const ANSWER_CHARACTERS = 120;

/** Returns what a delivery's last attempt got, in one line; null before the first attempt. */
export function resultOf({ last_attempt: last }: WebhookDelivery): string | null {
  if (last === null) return null;
  if (last.status === null) return last.error ?? 'no response';
  const answer = (last.answer ?? '').replaceAll(/\s+/g, ' ').trim().slice(0, ANSWER_CHARACTERS);
  return answer === '' ? String(last.status) : `${last.status} ${answer}`;
}

/** The most frequent failure first. Numbers in a response, such as times and ids, do not divide a group. */
export function failureGroups(deliveries: readonly WebhookDelivery[]): FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const delivery of deliveries) {
    const what = delivery.status === 'delivered' ? null : resultOf(delivery);
    if (what === null) continue;
    const key = what.replaceAll(/(?<=\D.*)\d+/g, '0');
    const group = groups.get(key);
    if (group === undefined) groups.set(key, { what, count: 1, newest: delivery });
    else {
      group.count += 1;
      const isNewer = (delivery.last_attempt?.at ?? '') > (group.newest.last_attempt?.at ?? '');
      if (isNewer) Object.assign(group, { what, newest: delivery });
    }
  }
  return [...groups.values()].toSorted((one, other) => other.count - one.count);
}
