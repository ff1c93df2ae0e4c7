/**
 * A semaphore that is fair by owner, for example by project: `count` tasks run at a time; of those that wait, the
 * next is of the owner with the fewest running, among equals of the one that had its last turn longest ago.
 */
type Owner = { running: number; waiting: (() => void)[]; lastTurn: number };

export class FairTurns {
  #free: number;
  /** Turns given so far. */
  #turns = 0;
  readonly #owners = new Map<string, Owner>();

  constructor(count: number) {
    this.#free = count;
  }

  async take<Result>(name: string, work: () => Promise<Result>): Promise<Result> {
    const owner = this.#owners.get(name) ?? { running: 0, waiting: [], lastTurn: 0 };
    this.#owners.set(name, owner);
    if (this.#free > 0) this.#begin(owner);
    else await new Promise<void>((resolve) => owner.waiting.push(resolve));
    try {
      return await work();
    } finally {
      owner.running -= 1;
      this.#free += 1;
      if (owner.running === 0 && owner.waiting.length === 0) this.#owners.delete(name);
      this.#passOn();
    }
  }

  #begin(owner: Owner): void {
    this.#free -= 1;
    owner.running += 1;
    owner.lastTurn = ++this.#turns;
  }

  #passOn(): void {
    const [next] = [...this.#owners.values()]
      .filter(({ waiting }) => waiting.length > 0)
      .toSorted((one, other) => one.running - other.running || one.lastTurn - other.lastTurn);
    const start = next?.waiting.shift();
    if (!next || !start) return;
    // Before the task resumes, so that no other takes the place.
    this.#begin(next);
    start();
  }
}
