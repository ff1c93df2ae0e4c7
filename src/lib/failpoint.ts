/**
 * Failpoints: steps at which a test can kill, freeze, delay or break the process (`npm run chaos`; test/README.md).
 * In production none is armed, and a failpoint costs one comparison. service/machine/failpoints.ts performs the
 * actions.
 */

/** Failpoints of a worker, in the order of an email's path. */
export const WORKER_FAILPOINTS = [
  'accept_before_commit',
  'accept_after_commit',
  'accept_before_hand_over',
  'accept_before_answer',
  'claim_before_load',
  'smtp_before_connect',
  'smtp_after_hello',
  'smtp_after_rcpt',
  'smtp_before_body',
  'smtp_mid_body',
  'smtp_before_dot',
  'smtp_after_dot',
  'smtp_after_verdict',
  'settle_before_commit',
  'settle_after_commit',
  'webhook_after_claim',
  'webhook_before_post',
  'webhook_after_post',
  'webhook_before_commit',
  'webhook_after_commit',
  'give_back_before_commit',
  'lease_before_beat',
  'lease_before_end',
] as const;

/** Failpoints of received mail, for journeys only: test/chaos receives no mail. */
export const INBOUND_FAILPOINTS = ['inbound_before_commit', 'inbound_after_commit'] as const;

export const SUPERVISOR_FAILPOINTS = [
  'supervisor_start',
  'expire_before_commit',
  'reclaim_before_commit',
  'orphans_before_release',
] as const;

export const MOVE_FAILPOINTS = [
  'move_after_log',
  'move_after_copy',
  'move_after_pause',
  'move_after_lock',
  'move_after_complete',
  'move_after_depart',
] as const;

export type WorkerFailpoint = (typeof WORKER_FAILPOINTS)[number];
export type SupervisorFailpoint = (typeof SUPERVISOR_FAILPOINTS)[number];
export type InboundFailpoint = (typeof INBOUND_FAILPOINTS)[number];
type MoveFailpoint = (typeof MOVE_FAILPOINTS)[number];
export type Failpoint = WorkerFailpoint | InboundFailpoint | SupervisorFailpoint | MoveFailpoint;

export const FAILPOINTS: readonly Failpoint[] = [
  ...WORKER_FAILPOINTS,
  ...INBOUND_FAILPOINTS,
  ...SUPERVISOR_FAILPOINTS,
  ...MOVE_FAILPOINTS,
];

/**
 * `kill` and `freeze` send SIGKILL and SIGSTOP to the process.
 * `throw` raises an exception, like a bug.
 * `delay` blocks the process for `DELAY_MS`, like swapping.
 * `sql_…` lets statements fail with this SQLSTATE for a while, as after a renamed column.
 */
export const SQL_FAILURES = ['sql_42703', 'sql_23514', 'sql_xx000'] as const;
export const FAILPOINT_ACTIONS = ['kill', 'freeze', 'throw', 'delay', ...SQL_FAILURES] as const;
export type FailpointAction = (typeof FAILPOINT_ACTIONS)[number];

/** `hit`: the action runs when the failpoint is reached for the nth time, 1 or more. */
export type ArmedFailpoint = { name: Failpoint; action: FailpointAction; hit: number };

let onReached: ((name: Failpoint) => void) | null = null;

/** Marks a step. Has no effect unless a test has armed this process. */
export function failpoint(name: Failpoint): void {
  if (onReached !== null) onReached(name);
}

/**
 * Arms failpoints of this process.
 * @param act performs the action; the step throws its errors. An `sql_…` action is performed again on each
 * later hit.
 */
export function armFailpoints(
  armed: readonly ArmedFailpoint[],
  act: (armed: ArmedFailpoint) => void,
): void {
  if (armed.length === 0) return;
  const times = new Map<Failpoint, number>();
  onReached = (name) => {
    const count = (times.get(name) ?? 0) + 1;
    times.set(name, count);
    const reached = armed.find((one) => {
      return one.name === name && (one.hit === count || (one.hit < count && isLasting(one.action)));
    });
    if (reached) act(reached);
  };
}

function isLasting(action: FailpointAction): boolean {
  return SQL_FAILURES.some((one) => one === action);
}

export function disarmFailpoints(): void {
  onReached = null;
}

const ITEM = /^(\w+)=(\w+)(?:@([1-9]\d{0,5}))?$/;

/** Parses `smtp_after_dot=kill@3,accept_before_commit=throw`; null when an item is invalid. */
export function parseFailpoints(text: string): ArmedFailpoint[] | null {
  const armed = text.split(',').map((item) => {
    const [, point, what, hit = '1'] = ITEM.exec(item.trim()) ?? [];
    const name = FAILPOINTS.find((one) => one === point);
    const action = FAILPOINT_ACTIONS.find((one) => one === what);
    return name && action ? { name, action, hit: Number(hit) } : null;
  });
  return armed.every((one) => one !== null) ? armed : null;
}

export function isSupervisorFailpoint(armed: ArmedFailpoint): boolean {
  return [...SUPERVISOR_FAILPOINTS, ...MOVE_FAILPOINTS].some((name) => name === armed.name);
}
