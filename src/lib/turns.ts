/** A semaphore: `count` tasks run at a time, the others wait in order. */
export class Turns {
  #free: number;
  readonly #waiting = new Set<() => void>();

  constructor(count: number) {
    this.#free = count;
  }

  /** @throws the reason of the signal when it is aborted before the turn */
  async take<Result>(work: () => Promise<Result>, signal?: AbortSignal): Promise<Result> {
    signal?.throwIfAborted();
    if (this.#free > 0) this.#free -= 1;
    else await this.#wait(signal);
    try {
      return await work();
    } finally {
      this.#passOn();
    }
  }

  async #wait(signal: AbortSignal | undefined): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const leave = () => {
      if (this.#waiting.delete(resolve)) reject(signal?.reason as Error);
    };
    this.#waiting.add(resolve);
    signal?.addEventListener('abort', leave, { once: true });
    try {
      await promise;
    } finally {
      signal?.removeEventListener('abort', leave);
    }
  }

  #passOn(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free += 1;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

/** Turns of their own for each owner, for example a project: one who has much to do does not delay the others. */
export class OwnTurns {
  readonly #count: number;
  readonly #owners = new Map<string, { turns: Turns; tasks: number }>();

  constructor(count: number) {
    this.#count = count;
  }

  tasksOf(owner: string): number {
    return this.#owners.get(owner)?.tasks ?? 0;
  }

  /** @throws the reason of the signal when it is aborted before the turn */
  async take<Result>(
    owner: string,
    work: () => Promise<Result>,
    signal?: AbortSignal,
  ): Promise<Result> {
    const own = this.#owners.get(owner) ?? { turns: new Turns(this.#count), tasks: 0 };
    this.#owners.set(owner, own);
    own.tasks += 1;
    try {
      return await own.turns.take(work, signal);
    } finally {
      own.tasks -= 1;
      if (own.tasks === 0) this.#owners.delete(owner);
    }
  }
}

/**
 * A semaphore that owners, for example projects, share: `count` tasks run at a time, one fewer of each owner. Owners with
 * waiting tasks take turns, so an owner with many does not delay the others.
 */
export class SharedTurns {
  readonly #ownMax: number;
  #free: number;
  readonly #running = new Map<string, number>();
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(count: number) {
    this.#free = count;
    this.#ownMax = Math.max(1, count - 1);
  }

  async take<Result>(owner: string, work: () => Promise<Result>): Promise<Result> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const own = this.#waiting.get(owner);
    if (own) own.push(resolve);
    else this.#waiting.set(owner, [resolve]);
    this.#startNext();
    await promise;
    try {
      return await work();
    } finally {
      this.#end(owner);
    }
  }

  #startNext(): void {
    for (const [owner, tasks] of this.#waiting) {
      if (this.#free === 0) return;
      const running = this.#running.get(owner) ?? 0;
      if (running >= this.#ownMax) continue;
      this.#free -= 1;
      this.#running.set(owner, running + 1);
      const [next, ...rest] = tasks;
      // An owner that waits for more goes to the end, and the loop comes to it again.
      this.#waiting.delete(owner);
      if (rest.length > 0) this.#waiting.set(owner, rest);
      next?.();
    }
  }

  #end(owner: string): void {
    const running = (this.#running.get(owner) ?? 1) - 1;
    if (running === 0) this.#running.delete(owner);
    else this.#running.set(owner, running);
    this.#free += 1;
    this.#startNext();
  }
}
