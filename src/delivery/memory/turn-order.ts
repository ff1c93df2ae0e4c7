/**
 * The tenant queues of one project for one kind of slots (delivery/memory/slots.ts) that may start a delivery. They
 * are served in turn, but every second turn goes to the queue that came last. So a password reset to a new provider
 * does not wait behind thousands of silent queues, and those are served as well.
 */
const OUTDATED_MAX = 64;

export class TurnOrder<Queue> {
  readonly #inTurn = new Set<Queue>();
  /** Queues that came since the set was last empty. Some have had their turn since. */
  #latest: Queue[] = [];
  #isLatestNext = false;

  get size(): number {
    return this.#inTurn.size;
  }

  /** Adds a queue with a delivery to start. It is served after the others, and before them in every second turn. */
  addNew(queue: Queue): void {
    if (this.#inTurn.has(queue)) return;
    this.#inTurn.add(queue);
    if (this.#inTurn.size > 1) this.#latest.push(queue);
    if (this.#latest.length > 2 * this.#inTurn.size + OUTDATED_MAX) this.#dropOutdated();
  }

  /** Adds a queue that has had its turn and has more deliveries, after the others. */
  addServed(queue: Queue): void {
    this.#inTurn.add(queue);
  }

  delete(queue: Queue): boolean {
    const wasReady = this.#inTurn.delete(queue);
    if (this.#inTurn.size === 0) this.#latest = [];
    return wasReady;
  }

  takeNext(): Queue | null {
    const latest = this.#isLatestNext ? this.#takeLatest() : undefined;
    this.#isLatestNext = !this.#isLatestNext;
    const [queue] = latest === undefined ? this.#inTurn : [latest];
    if (queue === undefined) return null;
    this.delete(queue);
    return queue;
  }

  #dropOutdated(): void {
    this.#latest = [...new Set(this.#latest)].filter((queue) => this.#inTurn.has(queue));
  }

  #takeLatest(): Queue | undefined {
    for (;;) {
      const queue = this.#latest.pop();
      if (queue === undefined || this.#inTurn.has(queue)) return queue;
    }
  }
}
