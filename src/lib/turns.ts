/**
 * A semaphore shared by owners, for example projects. `count` tasks run at a time, and at most `perOwner` of one
 * owner. Both are at least 1. A free permit goes to the waiting owner with the fewest running tasks. Among equals it
 * goes to the one that has waited longest since its last turn. So a busy owner does not delay the others. Tasks of
 * one owner start in order.
 */
type Owner = { running: number; waiting: Set<() => void>; lastTurn: number };

export class Turns {
  readonly #perOwner: number;
  #free: number;
  #turns = 0;
  readonly #owners = new Map<string, Owner>();

  constructor({ count = Infinity, perOwner = Infinity }: { count?: number; perOwner?: number }) {
    this.#free = Math.max(1, count);
    this.#perOwner = Math.max(1, perOwner);
  }

  /** Number of running and waiting tasks of an owner. */
  tasksOf(name: string): number {
    const owner = this.#owners.get(name);
    return owner ? owner.running + owner.waiting.size : 0;
  }

  /** Runs `work` when it is the owner's turn. @throws the abort reason, if aborted before */
  async run<Result>(
    name: string,
    work: () => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    signal?.throwIfAborted();
    const owner = this.#owners.get(name) ?? { running: 0, waiting: new Set(), lastTurn: 0 };
    this.#owners.set(name, owner);
    if (this.#mayStart(owner)) this.#start(owner);
    else await waitForTurn(owner.waiting, signal).finally(() => this.#removeIfIdle(name, owner));
    try {
      return await work();
    } finally {
      owner.running -= 1;
      this.#free += 1;
      this.#startNext();
      this.#removeIfIdle(name, owner);
    }
  }

  #removeIfIdle(name: string, { running, waiting }: Owner): void {
    if (running === 0 && waiting.size === 0) this.#owners.delete(name);
  }

  #mayStart({ running }: Owner): boolean {
    return this.#free > 0 && running < this.#perOwner;
  }

  #start(owner: Owner): void {
    this.#free -= 1;
    owner.running += 1;
    owner.lastTurn = ++this.#turns;
  }

  #startNext(): void {
    let next: Owner | null = null;
    for (const owner of this.#owners.values()) {
      if (owner.waiting.size === 0 || !this.#mayStart(owner)) continue;
      if (next === null || isBefore(owner, next)) next = owner;
    }
    const [start] = next?.waiting ?? [];
    if (next === null || start === undefined) return;
    next.waiting.delete(start);
    // Counts the task before it resumes, so that no other task takes the permit.
    this.#start(next);
    start();
  }
}

function isBefore(one: Owner, other: Owner): boolean {
  return one.running === other.running
    ? one.lastTurn < other.lastTurn
    : one.running < other.running;
}

async function waitForTurn(
  waiting: Owner['waiting'],
  signal: AbortSignal | undefined,
): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const stopWaiting = () => {
    if (waiting.delete(resolve)) reject(signal?.reason as Error);
  };
  waiting.add(resolve);
  signal?.addEventListener('abort', stopWaiting, { once: true });
  await promise.finally(() => signal?.removeEventListener('abort', stopWaiting));
}
