/** Addresses that did not answer a moment ago. At most so many; the oldest go first. */
import type { World } from '../core/world.ts';

const REMEMBERED_MAX = 10_000;

export class DeadHosts {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #untilMs = new Map<string, number>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  remember(address: string, forMs: number): void {
    this.#untilMs.delete(address);
    if (forMs <= 0) return;
    this.#untilMs.set(address, this.#world.monotonicMs() + forMs);
    if (this.#untilMs.size <= REMEMBERED_MAX) return;
    const oldest = this.#untilMs.keys().next();
    if (!oldest.done) this.#untilMs.delete(oldest.value);
  }

  /** 0: nothing, or not any more. */
  forMs(address: string): number {
    const untilMs = this.#untilMs.get(address);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.#world.monotonicMs();
    if (leftMs <= 0) this.#untilMs.delete(address);
    return Math.max(0, leftMs);
  }
}
