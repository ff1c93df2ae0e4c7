/**
 * Which failpoints were hit, and what a process that starts is armed with: first its node's share of the
 * list, later whatever is left, in a long run others besides.
 */
import { type Failpoint, SUPERVISOR_FAILPOINTS } from '../../src/core/failpoint.ts';
import type { Dice } from './random.ts';
import {
  anyPoints,
  AT_STOP,
  killAt,
  type PlannedPoint,
  shareOut,
  titleOf,
  workerPoints,
} from './failpoints.ts';

/** From then on every node is armed with whatever was not hit yet. */
const SWEEP_AFTER_MS = 30_000;
/** More of them in a long run, where a node that starts is armed for a while. */
const MORE = 3;

export class Arsenal {
  /** Titles of what was not hit yet. */
  readonly unhit: Set<string>;
  readonly total: number;
  readonly #names: readonly string[];
  readonly #dice: Dice;
  readonly #points: readonly PlannedPoint[];
  readonly #lists: PlannedPoint[][];
  readonly #isLong: boolean;
  #begunMs = Infinity;
  #isLaidDown = false;

  /** @param names of the nodes; the first has the most workers */
  constructor(names: readonly string[], dice: Dice, isLong: boolean) {
    this.#names = names;
    this.#dice = dice;
    this.#points = workerPoints(dice);
    this.#lists = shareOut(this.#points, dice, names.length);
    this.#isLong = isLong;
    const titles = this.#points.map(({ name, action }) => titleOf(name, action));
    this.unhit = new Set([...titles, AT_STOP, ...SUPERVISOR_FAILPOINTS]);
    this.total = this.unhit.size;
  }

  begin(): void {
    this.#begunMs = performance.now();
  }

  /** From now on processes start unarmed. */
  layDown(): void {
    this.#isLaidDown = true;
  }

  /** @returns whether it was hit in this way for the first time */
  hit(name: string, action: string): boolean {
    return this.unhit.delete(titleOf(name, action));
  }

  /** Everything but what only a stop reaches. */
  get hasOnlyTheStopLeft(): boolean {
    return [...this.unhit].every((name) => name === AT_STOP);
  }

  /** For a start of this node, its nth, as POSTHORN_FAILPOINTS has it. */
  pointsFor(node: string, starts: number): string {
    if (this.#isLaidDown) return '';
    const isSweeping = performance.now() - this.#begunMs > SWEEP_AFTER_MS;
    const own = isSweeping ? this.#points : this.#lists[this.#names.indexOf(node)]!;
    const left = own.filter(({ name, action }) => this.unhit.has(titleOf(name, action)));
    const open = isSweeping ? this.#dice.shuffled(left) : left;
    // What comes first may be what is not reached: the next time another comes first.
    const turn = open.length === 0 ? 0 : starts % open.length;
    const forWorkers = [...open.slice(turn), ...open.slice(0, turn)];
    if (this.#isLong) forWorkers.push(...anyPoints(this.#dice, MORE));
    if (this.hasOnlyTheStopLeft && this.unhit.has(AT_STOP)) {
      forWorkers.unshift(killAt(AT_STOP, this.#dice));
    }
    return [...forWorkers, ...this.#supervisorPoints(node, { starts, isSweeping })]
      .map(({ name, action, hit }) => `${name}=${action}@${hit}`)
      .join(',');
  }

  /** Each on one node at a time, else they would stand in each other's way; at last on any. */
  #supervisorPoints(
    node: string,
    { starts, isSweeping }: { starts: number; isSweeping: boolean },
  ): PlannedPoint[] {
    const [, second, third] = this.#names;
    const places: Partial<Record<Failpoint, readonly (string | undefined)[]>> = {
      burial_before_commit: [second],
      orphans_before_release: [third],
      supervisor_start: starts > 0 ? [third] : [],
      takeover_before_commit: this.#names,
    };
    return SUPERVISOR_FAILPOINTS.filter((name) => this.unhit.has(name))
      .filter((name) => isSweeping || places[name]?.includes(node) === true)
      .map((name) => killAt(name, this.#dice));
  }
}
