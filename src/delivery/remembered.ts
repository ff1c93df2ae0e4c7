/** What was learnt of hosts or addresses and holds for a while. At most so many; the oldest go first. */
import type { World } from '../core/world.ts';

const REMEMBERED_MAX = 10_000;

export class Remembered {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #untilMs = new Map<string, number>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  remember(host: string, forMs: number): void {
    this.#untilMs.delete(host);
    if (forMs <= 0) return;
    this.#untilMs.set(host, this.#world.monotonicMs() + forMs);
    if (this.#untilMs.size <= REMEMBERED_MAX) return;
    const oldest = this.#untilMs.keys().next();
    if (!oldest.done) this.#untilMs.delete(oldest.value);
  }

  /** 0: nothing, or not any more. */
  forMs(host: string): number {
    const untilMs = this.#untilMs.get(host);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.#world.monotonicMs();
    if (leftMs <= 0) this.#untilMs.delete(host);
    return Math.max(0, leftMs);
  }
}
