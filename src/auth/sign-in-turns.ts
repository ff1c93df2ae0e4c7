/**
 * Who hashes a password next, in one process. One hash runs at a time. Two lanes take turns: members whom the
 * service knows (by a session, a link, or a browser in which they signed in before), and strangers. Within a lane,
 * members or networks take turns, so a network that asks much delays itself.
 *
 * Each lane has WAITING_MAX places. When they are taken, a newcomer gets the place of the owner with the most
 * places, unless that would only exchange the two.
 */
import { Overloaded } from '../core/refusals.ts';

const WAITING_MAX = 16;

/** `owner`: a member's id or a network (net/addresses.ts networkOf). */
export type Asker = { isKnown: boolean; owner: string };

type Waiting = { begin: () => void; refuse: (error: Overloaded) => void };

export class SignInTurns {
  readonly #known = new Lane();
  readonly #strangers = new Lane();
  #isRunning = false;
  #isStrangersTurn = false;

  /** For work that comes before the turn. @throws Overloaded when no place is left now */
  checkPlace({ isKnown, owner }: Asker): void {
    this.#laneOf(isKnown).fullest(owner);
  }

  /** @throws Overloaded when no place is left, or another asker needs it more */
  async take<Result>({ isKnown, owner }: Asker, work: () => Promise<Result>): Promise<Result> {
    if (this.#isRunning) await this.#laneOf(isKnown).wait(owner);
    this.#isRunning = true;
    try {
      return await work();
    } finally {
      this.#passOn();
    }
  }

  #laneOf(isKnown: boolean): Lane {
    return isKnown ? this.#known : this.#strangers;
  }

  #passOn(): void {
    const lanes = this.#isStrangersTurn
      ? [this.#strangers, this.#known]
      : [this.#known, this.#strangers];
    const next = lanes[0]?.next() ?? lanes[1]?.next();
    this.#isStrangersTurn = !this.#isStrangersTurn;
    if (next === undefined) this.#isRunning = false;
    else next.begin();
  }
}

class Lane {
  /** In the order of their turns. An owner without anything waiting is not in it. */
  readonly #owners = new Map<string, Waiting[]>();
  #places = 0;

  wait(owner: string): Promise<void> {
    const fullest = this.fullest(owner);
    if (fullest !== null) {
      fullest.pop()?.refuse(tooMany());
      this.#places -= 1;
    }
    const own = this.#owners.get(owner) ?? [];
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    own.push({ begin: resolve, refuse: reject });
    this.#owners.set(owner, own);
    this.#places += 1;
    return promise;
  }

  next(): Waiting | undefined {
    const [first] = this.#owners;
    if (first === undefined) return undefined;
    const [owner, waiting] = first;
    const next = waiting.shift();
    this.#owners.delete(owner);
    if (waiting.length > 0) this.#owners.set(owner, waiting);
    this.#places -= 1;
    return next;
  }

  /**
   * Whose place a newcomer of this owner gets; null: there are free ones.
   * @throws Overloaded when no other owner has at least two places more
   */
  fullest(owner: string): Waiting[] | null {
    if (this.#places < WAITING_MAX) return null;
    const ownPlaces = this.#owners.get(owner)?.length ?? 0;
    const all = [...this.#owners.values()];
    const fullest = all.reduce((most, one) => (one.length > most.length ? one : most));
    if (fullest.length <= ownPlaces + 1) throw tooMany();
    return fullest;
  }
}

function tooMany(): Overloaded {
  return new Overloaded('too many people are signing in');
}
