/**
 * Plans where each failpoint is armed, its action and its time. Every failpoint kills at least once in every run. In a
 * long run some also stall or throw, where a failing process could do that. Where outcomes are stored, the database
 * also refuses for some seconds, once in every run with each SQLSTATE.
 */
import {
  type Failpoint,
  type FailpointAction,
  SQL_FAILURES,
  SUPERVISOR_FAILPOINTS,
  WORKER_FAILPOINTS,
  type WorkerFailpoint,
} from '../../../src/lib/failpoint.ts';
import type { RandomSource } from '../random.ts';

export type PlannedPoint = { name: Failpoint; action: FailpointAction; hit: number };

/** Returns the title of a failpoint in findings: `smtp_after_dot`, `settle_before_commit=sql_42703`. */
export function titleOf(name: string, action: string): string {
  return action === 'kill' ? name : `${name}=${action}`;
}

/**
 * Returns the refusals by the database: each SQLSTATE for mail, and a random one for webhooks. One is enough there,
 * because a POST may be repeated.
 */
export function refusals(random: RandomSource): PlannedPoint[] {
  const hit = (): number => random.between(1, 5);
  return [
    ...SQL_FAILURES.map((action) => ({
      name: 'settle_before_commit' as const,
      action,
      hit: hit(),
    })),
    { name: 'webhook_before_commit', action: random.pick(SQL_FAILURES), hit: hit() },
  ];
}

/** First hit that may kill. An earlier death would end the start of the node, which is not ready yet. */
const FIRST_HIT: Partial<Record<Failpoint, number>> = { lease_before_beat: 3 };
/** Failpoints that a process reaches once, or seldom. */
const ONE_HIT: readonly Failpoint[] = [
  'lease_before_end',
  'give_back_before_commit',
  'claim_before_load',
  'smtp_after_rcpt',
  'smtp_mid_body',
  ...SUPERVISOR_FAILPOINTS,
];

export function killAt(name: Failpoint, random: RandomSource): PlannedPoint {
  const first = FIRST_HIT[name] ?? 1;
  const hit = ONE_HIT.includes(name) ? first : random.between(first, first + 4);
  return { name, action: 'kill', hit };
}

/**
 * Failpoint that a worker reaches only at its stop. A worker is armed with one failpoint, so the stopping one must have
 * this.
 */
export const AT_STOP: WorkerFailpoint = 'lease_before_end';

/** Returns the failpoints of workers without AT_STOP: each kills, and some also refuse. */
export function workerPoints(random: RandomSource): PlannedPoint[] {
  const names = WORKER_FAILPOINTS.filter((name) => name !== AT_STOP);
  return [...names.map((name) => killAt(name, random)), ...refusals(random)];
}

/** Divides the failpoints among as many lists as there are nodes. The first list gets twice as many. */
export function shareOut(
  points: readonly PlannedPoint[],
  random: RandomSource,
  nodes: number,
): PlannedPoint[][] {
  const lists: PlannedPoint[][] = Array.from({ length: nodes }, () => []);
  random.shuffled(points).forEach((point, index) => {
    lists[Math.max(0, (index % (nodes + 1)) - 1)]!.push(point);
  });
  return lists;
}

/**
 * Actions that do not kill. A process may be frozen only where it checks its lease again before it sends, so none of
 * these actions freezes it.
 */
const OTHER_ACTIONS: readonly (readonly [WorkerFailpoint, FailpointAction])[] = [
  ['accept_before_commit', 'delay'],
  ['accept_after_commit', 'delay'],
  ['claim_before_load', 'delay'],
  ['claim_before_load', 'throw'],
  ['smtp_before_connect', 'throw'],
  ['smtp_before_body', 'delay'],
  ['smtp_after_dot', 'delay'],
  ['settle_before_commit', 'delay'],
  ['settle_after_commit', 'delay'],
  ['webhook_before_post', 'throw'],
  ['webhook_after_post', 'delay'],
  ['lease_before_beat', 'delay'],
];

/** Returns random failpoints for the rounds of a long run. Most of them kill. */
export function anyPoints(random: RandomSource, count: number): PlannedPoint[] {
  return Array.from({ length: count }, () => {
    if (random.chance(0.7)) return killAt(random.pick(WORKER_FAILPOINTS), random);
    const [name, action] = random.pick(OTHER_ACTIONS);
    return { name, action, hit: random.between(FIRST_HIT[name] ?? 1, 6) };
  });
}
