/** What providers.ts is made of: providers, projects, and a queue for each pair of them that has mail here. */
import type { Delivery } from './delivery.ts';

export type Provider = {
  name: string;
  /** By project. */
  queues: Map<string, TenantQueue>;
  /** Queues with deliveries that cannot start now, in turn. */
  parked: Set<TenantQueue>;
  underWay: number;
  /** Its route is being looked up. */
  isClosed: boolean;
};

export type TenantQueue = {
  project: Project;
  provider: Provider;
  /** Oldest first. */
  deliveries: Delivery[];
  weightBytes: number;
};

export type Project = {
  id: string;
  queues: Set<TenantQueue>;
  /** Queues with deliveries that may start, in turn. */
  ready: Set<TenantQueue>;
  underWay: number;
  weightBytes: number;
};

/** From the end: what comes last is nearly always the newest. */
export function insertByAge(deliveries: Delivery[], delivery: Delivery): void {
  let index = deliveries.length;
  while (index > 0 && deliveries[index - 1]!.dueAtMs > delivery.dueAtMs) index -= 1;
  deliveries.splice(index, 0, delivery);
}

/** Memory of the queues that have anything to give back. */
export function waitingIn(queues: Iterable<TenantQueue>): number {
  let waiting = 0;
  for (const queue of queues) waiting += queue.weightBytes * Math.sign(queue.deliveries.length);
  return waiting;
}

/** The one that measures most; null when nobody measures anything. */
export function greediest<Item>(
  items: Iterable<Item>,
  measure: (item: Item) => number,
): Item | null {
  let best: Item | null = null;
  let most = 0;
  for (const item of items) {
    const amount = measure(item);
    if (amount > most) [best, most] = [item, amount];
  }
  return best;
}
