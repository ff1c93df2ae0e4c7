/** Finds the nodes whose workers run now: each raises its counter in the database every two seconds. */
import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '../lib/world.ts';
import type { Queryable } from '../database/database.ts';
import { listNodeFacts, type NodeFacts } from '../migration/upgrade-facts.ts';

const OBSERVED_MS = 6_000;
const POLL_EVERY_MS = 300;

export type NodeState = NodeFacts & { isRunning: boolean };

/** Observes the counters of all nodes. Takes up to six seconds while rows of killed workers remain. */
export async function findRunningNodes(
  db: Queryable,
  world: Pick<World, 'monotonicMs'>,
): Promise<NodeState[]> {
  const first = await listNodeFacts(db);
  const startMs = world.monotonicMs();
  const running = new Set<string>();
  while (running.size < first.length && world.monotonicMs() - startMs < OBSERVED_MS) {
    await pause(POLL_EVERY_MS);
    for (const { instance, heartbeats } of await listNodeFacts(db)) {
      const before = first.find((node) => node.instance === instance)?.heartbeats;
      if (before !== undefined && heartbeats > before) running.add(instance);
    }
  }
  return first.map((node) => ({ ...node, isRunning: running.has(node.instance) }));
}
