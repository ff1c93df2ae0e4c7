/**
 * Decides whose password a process hashes next. One hash runs at a time. Two waiting lists take turns: known members
 * (with a session, a link, or a browser in which they signed in before), and strangers.
 *
 * Within a list, requests have a rank: the recent wrong passwords of their owner (a member or a network), plus one for
 * each request of this owner that waits already. The lowest rank comes first. So a network that asks often delays only
 * itself. A member in a new browser overtakes hundreds of guessing networks once each of them has guessed wrong.
 *
 * When all places are taken, a newcomer replaces the request with the highest rank, if its own rank is lower.
 */
import { Overloaded } from '../../core/refusals.ts';

/** Places in each list. A hash takes some 40 ms, so a request that waits behind all others waits for five seconds. */
const PLACES = { known: 16, strangers: 64 } as const;
/** After this many wrong passwords all counts are halved, which also bounds the number of remembered owners. */
const HALVED_EVERY = 4_096;

/** `owner` is a member's id or a network (net/ip-addresses.ts networkOf). */
export type TurnOwner = { isKnown: boolean; owner: string };

export class SignInTurns {
  readonly #known = new WaitingList(PLACES.known);
  readonly #strangers = new WaitingList(PLACES.strangers);
  #isRunning = false;
  #isStrangersTurn = false;

  /**
   * Refuses early, before work that precedes the turn.
   * @throws Overloaded when no place is left
   */
  requireFreePlace({ isKnown, owner }: TurnOwner): void {
    this.#listOf(isKnown).requirePlace(owner);
  }

  /**
   * Runs the work when its turn comes.
   * @param isWrong whether the result was a wrong password, which raises the owner's rank
   * @throws Overloaded when no place is left, or a newcomer with a lower rank has replaced this request
   */
  async take<Result>(
    { isKnown, owner }: TurnOwner,
    work: () => Promise<Result>,
    isWrong: (result: Result) => boolean = () => false,
  ): Promise<Result> {
    const list = this.#listOf(isKnown);
    if (this.#isRunning) await list.wait(owner);
    this.#isRunning = true;
    try {
      const result = await work();
      if (isWrong(result)) list.countWrongPassword(owner);
      return result;
    } finally {
      this.#startNext();
    }
  }

  #listOf(isKnown: boolean): WaitingList {
    return isKnown ? this.#known : this.#strangers;
  }

  #startNext(): void {
    const lists = this.#isStrangersTurn
      ? [this.#strangers, this.#known]
      : [this.#known, this.#strangers];
    const next = lists[0]?.next() ?? lists[1]?.next();
    this.#isStrangersTurn = !this.#isStrangersTurn;
    if (next === undefined) this.#isRunning = false;
    else next.begin();
  }
}

/** `rank`: the owner's wrong passwords when the request came, plus the owner's requests that waited then. */
type Waiting = {
  owner: string;
  rank: number;
  begin: () => void;
  refuse: (error: Overloaded) => void;
};

class WaitingList {
  readonly #places: number;
  /** Ordered by rank, and by arrival within a rank. */
  readonly #waiting: Waiting[] = [];
  readonly #wrongPasswords = new Map<string, number>();
  #wrongPasswordCount = 0;

  constructor(places: number) {
    this.#places = places;
  }

  wait(owner: string): Promise<void> {
    this.requirePlace(owner);
    const replaced = this.#replaceable();
    if (replaced !== null) {
      this.#waiting.pop();
      replaced.refuse(tooManySignIns());
    }
    const rank = this.#rankOf(owner);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const firstBehind = this.#waiting.findIndex((waiting) => waiting.rank > rank);
    const index = firstBehind < 0 ? this.#waiting.length : firstBehind;
    this.#waiting.splice(index, 0, { owner, rank, begin: resolve, refuse: reject });
    return promise;
  }

  next(): Waiting | undefined {
    return this.#waiting.shift();
  }

  /** @throws Overloaded when no place is free, and no request has a higher rank than a newcomer of this owner */
  requirePlace(owner: string): void {
    const replaceable = this.#replaceable();
    if (replaceable !== null && replaceable.rank <= this.#rankOf(owner)) throw tooManySignIns();
  }

  /** Returns the request that a newcomer with a lower rank replaces; null when places are free. */
  #replaceable(): Waiting | null {
    return this.#waiting.length < this.#places ? null : this.#waiting.at(-1)!;
  }

  countWrongPassword(owner: string): void {
    this.#wrongPasswords.set(owner, (this.#wrongPasswords.get(owner) ?? 0) + 1);
    this.#wrongPasswordCount += 1;
    if (this.#wrongPasswordCount % HALVED_EVERY > 0) return;
    this.#halveCounts();
  }

  #halveCounts(): void {
    for (const [owner, count] of this.#wrongPasswords) {
      if (count > 1) this.#wrongPasswords.set(owner, count >> 1);
      else this.#wrongPasswords.delete(owner);
    }
  }

  #rankOf(owner: string): number {
    const waitingCount = this.#waiting.filter((waiting) => waiting.owner === owner).length;
    return (this.#wrongPasswords.get(owner) ?? 0) + waitingCount;
  }
}

function tooManySignIns(): Overloaded {
  return new Overloaded('too many people are signing in');
}
