/** Orders the faults by the seed. The exact time of a fault depends on the machine. A round has every fault once. */
import type { RandomSource } from '../random.ts';

export const FAULTS = [
  'kill_worker',
  'kill_supervisor',
  'kill_node',
  'kill_everything',
  'kill_database',
  'restart_database',
  'stop_under_load',
  'freeze_worker',
  'freeze_node',
  'stall_worker',
  'database_refused',
  'database_silent',
  'database_slow',
  'database_sliced',
  'database_narrow',
  'database_cut',
  'database_forgotten',
  'database_locked',
  'database_deadlocks',
  'database_crowded',
  'lose_accept_answer',
  'lose_settle_answer',
  'clock_jump',
  'clock_back',
  'clock_steps',
  'nodes_clock',
  'suppress',
  'remove_domain',
  'revoke_key',
  'attack',
] as const;

export type Fault = (typeof FAULTS)[number];

/** Faults that take minutes of recovery. They are spread over the round. */
const HARD: readonly Fault[] = ['kill_everything', 'freeze_node', 'kill_database'];

/**
 * Returns one round. The hard faults are at equal distances, with the others shuffled between them. The attack, which
 * takes longest, begins early.
 */
export function round(random: RandomSource): Fault[] {
  const hard = random.shuffled(HARD);
  const others = FAULTS.filter((fault) => !HARD.includes(fault) && fault !== 'attack');
  const rest = random.shuffled(others);
  const share = Math.ceil((rest.length + 1) / hard.length);
  rest.splice(random.between(0, share - 1), 0, 'attack');
  return hard.flatMap((fault, at) => [fault, ...rest.slice(at * share, (at + 1) * share)]);
}
