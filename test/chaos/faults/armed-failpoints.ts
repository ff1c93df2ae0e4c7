/**
 * Records the failpoints that were hit, and arms each process that starts. The first processes get their node's share
 * of the list. Later processes get the rest of the whole list, and in a long run additional failpoints as well.
 */
import { type Failpoint, SUPERVISOR_FAILPOINTS } from '../../../src/lib/failpoint.ts';
import type { RandomSource } from '../random.ts';
import {
  anyPoints,
  AT_STOP,
  killAt,
  type PlannedPoint,
  shareOut,
  titleOf,
  workerPoints,
} from './failpoints.ts';

/** Milliseconds after which every node is armed with all failpoints that were not hit yet. */
const SWEEP_AFTER_MS = 30_000;
/** Number of additional failpoints for each start of a node in a long run. */
const MORE = 3;

export class FailpointPlan {
  /** Titles of the failpoints that were not hit yet. */
  readonly unhit: Set<string>;
  readonly total: number;
  readonly #names: readonly string[];
  readonly #random: RandomSource;
  readonly #points: readonly PlannedPoint[];
  readonly #lists: PlannedPoint[][];
  readonly #isLong: boolean;
  #begunMs = Infinity;
  #isDisarmed = false;

  /** @param names of the nodes; the first node has the most workers */
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

  /** Starts all further processes unarmed. */
  disarm(): void {
    this.#isDisarmed = true;
  }

  /** @returns whether the failpoint acted in this way for the first time */
  hit(name: string, action: string): boolean {
    return this.unhit.delete(titleOf(name, action));
  }

  /** True when only the failpoint that a stop reaches was not hit yet. */
  get hasOnlyTheStopLeft(): boolean {
    return [...this.unhit].every((name) => name === AT_STOP);
  }

  /** Returns LETTERHAUS_FAILPOINTS for a start of this node; `starts` counts its earlier starts. */
  pointsFor(node: string, starts: number): string {
    if (this.#isDisarmed) return '';
    const isSweeping = performance.now() - this.#begunMs > SWEEP_AFTER_MS;
    const own = isSweeping ? this.#points : this.#lists[this.#names.indexOf(node)]!;
    const left = own.filter(({ name, action }) => this.unhit.has(titleOf(name, action)));
    const open = isSweeping ? this.#random.shuffled(left) : left;
    // A process may never reach the first failpoint of its list, so the next process begins with another one.
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

  /**
   * Returns the failpoints of the supervisor for this node. At first each is armed on its own node, so that they do not
   * prevent one another. In the end all nodes are armed with all of them.
   */
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
