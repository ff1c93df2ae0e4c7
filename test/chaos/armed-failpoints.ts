/**
 * Records the failpoints that were hit, and arms each process that starts: first with its node's share of the
 * list, later with the rest of the list, in a long run also with others.
 */
import { type Failpoint, SUPERVISOR_FAILPOINTS } from '../../src/lib/failpoint.ts';
import type { RandomSource } from './random.ts';
import {
  anyPoints,
  AT_STOP,
  killAt,
  type PlannedPoint,
  shareOut,
  titleOf,
  workerPoints,
} from './failpoints.ts';

/** From then on every node is armed with the failpoints that were not hit yet. */
const SWEEP_AFTER_MS = 30_000;
/** More of them in a long run, where a node that starts is armed for a while. */
const MORE = 3;

export class FailpointPlan {
  /** Titles of what was not hit yet. */
  readonly unhit: Set<string>;
  readonly total: number;
  readonly #names: readonly string[];
  readonly #random: RandomSource;
  readonly #points: readonly PlannedPoint[];
  readonly #lists: PlannedPoint[][];
  readonly #isLong: boolean;
  #begunMs = Infinity;
  #isDisarmed = false;

  /** @param names of the nodes; the first has the most workers */
  constructor(names: readonly string[], random: RandomSource, isLong: boolean) {
    this.#names = names;
    this.#random = random;
    this.#points = workerPoints(random);
    this.#lists = shareOut(this.#points, random, names.length);
    this.#isLong = isLong;
    const titles = this.#points.map(({ name, action }) => titleOf(name, action));
    this.unhit = new Set([...titles, AT_STOP, ...SUPERVISOR_FAILPOINTS]);
    this.total = this.unhit.size;
  }

  begin(): void {
    this.#begunMs = performance.now();
  }

  /** From now on processes start unarmed. */
  disarm(): void {
    this.#isDisarmed = true;
  }

  /** @returns whether it was hit in this way for the first time */
  hit(name: string, action: string): boolean {
    return this.unhit.delete(titleOf(name, action));
  }

  /** Everything but what only a stop reaches. */
  get hasOnlyTheStopLeft(): boolean {
    return [...this.unhit].every((name) => name === AT_STOP);
  }

  /** For a start of this node, its nth, as LETTERHAUS_FAILPOINTS has it. */
  pointsFor(node: string, starts: number): string {
    if (this.#isDisarmed) return '';
    const isSweeping = performance.now() - this.#begunMs > SWEEP_AFTER_MS;
    const own = isSweeping ? this.#points : this.#lists[this.#names.indexOf(node)]!;
    const left = own.filter(({ name, action }) => this.unhit.has(titleOf(name, action)));
    const open = isSweeping ? this.#random.shuffled(left) : left;
    // A process may not reach the first of them, so the next one begins with another.
    const turn = open.length === 0 ? 0 : starts % open.length;
    const forWorkers = [...open.slice(turn), ...open.slice(0, turn)];
    if (this.#isLong) forWorkers.push(...anyPoints(this.#random, MORE));
    if (this.hasOnlyTheStopLeft && this.unhit.has(AT_STOP)) {
      forWorkers.unshift(killAt(AT_STOP, this.#random));
    }
    return [...forWorkers, ...this.#supervisorPoints(node, { starts, isSweeping })]
      .map(({ name, action, hit }) => `${name}=${action}@${hit}`)
      .join(',');
  }

  /** Each on one node at a time, so that they do not prevent one another; in the end on any node. */
  #supervisorPoints(
    node: string,
    { starts, isSweeping }: { starts: number; isSweeping: boolean },
  ): PlannedPoint[] {
    const [, second, third] = this.#names;
    const places: Partial<Record<Failpoint, readonly (string | undefined)[]>> = {
      expire_before_commit: [second],
      orphans_before_release: [third],
      supervisor_start: starts > 0 ? [third] : [],
      reclaim_before_commit: this.#names,
    };
    return SUPERVISOR_FAILPOINTS.filter((name) => this.unhit.has(name))
      .filter((name) => isSweeping || places[name]?.includes(node) === true)
      .map((name) => killAt(name, this.#random));
  }
}
