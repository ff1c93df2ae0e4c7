/**
 * Failpoints: steps between bytes and commits at which a test can kill, freeze, delay or break the process
 * (`npm run chaos`; CONTRIBUTING.md). An unarmed one, as always in production, costs one comparison.
 * src/service/machine/failpoints.ts performs the actions.
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

/** Failpoints of received mail; used by journeys only, since test/chaos does not receive mail. */
export const INBOUND_FAILPOINTS = ['inbound_before_commit', 'inbound_after_commit'] as const;

export const SUPERVISOR_FAILPOINTS = [
  'supervisor_start',
  'expire_before_commit',
  'reclaim_before_commit',
  'orphans_before_release',
] as const;

/** Of `letterhaus move` (src/move/move.ts). */
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
 * `kill`, `freeze`: SIGKILL and SIGSTOP to the process. `throw`: an exception, as from a bug. `delay`: the
 * whole process blocks for `DELAY_MS`, as when it swaps. `sql_…`: statements fail with this SQLSTATE for
 * some time, as after a renamed column, a failing check or a broken index.
 */
export const SQL_FAILURES = ['sql_42703', 'sql_23514', 'sql_xx000'] as const;
export const FAILPOINT_ACTIONS = ['kill', 'freeze', 'throw', 'delay', ...SQL_FAILURES] as const;
export type FailpointAction = (typeof FAILPOINT_ACTIONS)[number];

/** The action runs at the nth hit, 1 or more. */
export type ArmedFailpoint = { name: Failpoint; action: FailpointAction; hit: number };

let comeBy: ((name: Failpoint) => void) | null = null;

/** Marks a step. Has no effect unless a test has armed this process. */
export function failpoint(name: Failpoint): void {
  if (comeBy !== null) comeBy(name);
}

/**
 * @param act performs the action; may throw, through the step that was hit. Called once, or at every
 *   further hit for an action that lasts.
 */
export function armFailpoints(
  armed: readonly ArmedFailpoint[],
  act: (armed: ArmedFailpoint) => void,
): void {
  if (armed.length === 0) return;
  const times = new Map<Failpoint, number>();
  comeBy = (name) => {
    const count = (times.get(name) ?? 0) + 1;
    times.set(name, count);
    const due = armed.find((one) => {
      return one.name === name && (one.hit === count || (one.hit < count && lasts(one.action)));
    });
    if (due) act(due);
  };
}

function lasts(action: FailpointAction): boolean {
  return SQL_FAILURES.some((one) => one === action);
}

export function disarmFailpoints(): void {
  comeBy = null;
}

const ITEM = /^(\w+)=(\w+)(?:@([1-9]\d{0,5}))?$/;

/** `smtp_after_dot=kill@3,accept_before_commit=throw`; null when an item is not understood. */
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
