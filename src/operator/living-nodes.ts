/** Finds the nodes whose workers run now: each raises its counter in the database every two seconds. */
import { setTimeout as pause } from 'node:timers/promises';
import type { World } from '../lib/world.ts';
import type { Queryable } from '../database/database.ts';
import { listNodeFacts, type NodeFacts } from '../migration/upgrade-facts.ts';

const LOOKS_FOR_MS = 6_000;
const LOOKS_EVERY_MS = 300;

export type LivingNode = NodeFacts & { isRunning: boolean };

/** Takes up to six seconds while rows of killed workers remain. */
export async function watchNodes(
  db: Queryable,
  world: Pick<World, 'monotonicMs'>,
): Promise<LivingNode[]> {
  const first = await listNodeFacts(db);
  const fromMs = world.monotonicMs();
  const running = new Set<string>();
  while (running.size < first.length && world.monotonicMs() - fromMs < LOOKS_FOR_MS) {
    await pause(LOOKS_EVERY_MS);
    for (const { instance, heartbeats } of await listNodeFacts(db)) {
      const before = first.find((node) => node.instance === instance)?.heartbeats;
      if (before !== undefined && heartbeats > before) running.add(instance);
    }
  }
  return first.map((node) => ({ ...node, isRunning: running.has(node.instance) }));
}
