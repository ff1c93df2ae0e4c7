/**
 * Who hashes a password next, in one process. One hash runs at a time. Two waiting lists take turns: members whom the
 * service knows (by a session, a link, or a browser in which they signed in before), and strangers.
 *
 * Within a list, the owner (a member or a network) with the fewest wrong passwords lately comes first, and each of an
 * owner's requests counts as one more than the one before it. So a network that asks much delays itself, and a member
 * in a new browser passes hundreds of networks that guess, as soon as each of these has guessed once. When all places
 * are taken, a newcomer gets that of the request that would come last, unless that would only exchange the two.
 */
import { Overloaded } from '../../core/refusals.ts';

/** A hash takes some 40 ms: who waits behind all others of both lists waits for five seconds. */
const PLACES = { known: 16, strangers: 64 } as const;
/** After this many wrong passwords what each owner has is halved; it also bounds how many owners are remembered. */
const HALVED_EVERY = 4_096;

/** `owner`: a member's id or a network (net/addresses.ts networkOf). */
export type Asker = { isKnown: boolean; owner: string };

export class SignInTurns {
  readonly #known = new WaitingList(PLACES.known);
  readonly #strangers = new WaitingList(PLACES.strangers);
  #isRunning = false;
  #isStrangersTurn = false;

  /** For work that comes before the turn. @throws Overloaded when no place is left now */
  checkPlace({ isKnown, owner }: Asker): void {
    this.#listOf(isKnown).lastBehind(owner);
  }

  /**
   * @param isWrong whether the result was a wrong password, which moves the owner back
   * @throws Overloaded when no place is left, or another asker needs it more
   */
  async take<Result>(
    { isKnown, owner }: Asker,
    work: () => Promise<Result>,
    isWrong: (result: Result) => boolean = () => false,
  ): Promise<Result> {
    const list = this.#listOf(isKnown);
    if (this.#isRunning) await list.wait(owner);
    this.#isRunning = true;
    try {
      const result = await work();
      if (isWrong(result)) list.countWrong(owner);
      return result;
    } finally {
      this.#passOn();
    }
  }

  #listOf(isKnown: boolean): WaitingList {
    return isKnown ? this.#known : this.#strangers;
  }

  #passOn(): void {
    const lists = this.#isStrangersTurn
      ? [this.#strangers, this.#known]
      : [this.#known, this.#strangers];
    const next = lists[0]?.next() ?? lists[1]?.next();
    this.#isStrangersTurn = !this.#isStrangersTurn;
    if (next === undefined) this.#isRunning = false;
    else next.begin();
  }
}

/** `rank`: the wrong passwords of its owner when it came, and the requests of the owner before it. */
type Waiting = {
  owner: string;
  rank: number;
  begin: () => void;
  refuse: (error: Overloaded) => void;
};

class WaitingList {
  readonly #places: number;
  /** By rank, and among equals in the order in which they came. */
  readonly #waiting: Waiting[] = [];
  readonly #wrong = new Map<string, number>();
  #wrongInAll = 0;

  constructor(places: number) {
    this.#places = places;
  }

  wait(owner: string): Promise<void> {
    const last = this.lastBehind(owner);
    if (last !== null) {
      this.#waiting.pop();
      last.refuse(tooMany());
    }
    const rank = this.#rankOf(owner);
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const behind = this.#waiting.findIndex((other) => other.rank > rank);
    const index = behind < 0 ? this.#waiting.length : behind;
    this.#waiting.splice(index, 0, { owner, rank, begin: resolve, refuse: reject });
    return promise;
  }

  next(): Waiting | undefined {
    return this.#waiting.shift();
  }

  /**
   * Whose place a newcomer of this owner gets; null: there are free ones.
   * @throws Overloaded when nobody would come after it
   */
  lastBehind(owner: string): Waiting | null {
    if (this.#waiting.length < this.#places) return null;
    const last = this.#waiting.at(-1)!;
    if (last.rank <= this.#rankOf(owner)) throw tooMany();
    return last;
  }

  countWrong(owner: string): void {
    this.#wrong.set(owner, (this.#wrong.get(owner) ?? 0) + 1);
    this.#wrongInAll += 1;
    if (this.#wrongInAll % HALVED_EVERY > 0) return;
    for (const [one, count] of this.#wrong) {
      if (count > 1) this.#wrong.set(one, count >> 1);
      else this.#wrong.delete(one);
    }
  }

  #rankOf(owner: string): number {
    const own = this.#waiting.filter((waiting) => waiting.owner === owner).length;
    return (this.#wrong.get(owner) ?? 0) + own;
  }
}

function tooMany(): Overloaded {
  return new Overloaded('too many people are signing in');
}
