/**
 * A worker's memory of mail servers for minutes or days: addresses that do not answer, source addresses that cannot
 * reach them, and hosts that discard announced messages.
 */
import type { World } from '../../lib/world.ts';

const ENTRIES_MAX = 10_000;

/** Hosts or addresses for which a fact holds for a limited time. Beyond the limit the oldest are dropped. */
export class TimedMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #untilMs = new Map<string, number>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  remember(host: string, forMs: number): void {
    this.#untilMs.delete(host);
    if (forMs <= 0) return;
    this.#untilMs.set(host, this.#world.monotonicMs() + forMs);
    if (this.#untilMs.size <= ENTRIES_MAX) return;
    const [oldest] = this.#untilMs.keys();
    this.#untilMs.delete(oldest!);
  }

  forMs(host: string): number {
    const untilMs = this.#untilMs.get(host);
    if (untilMs === undefined) return 0;
    const leftMs = untilMs - this.#world.monotonicMs();
    if (leftMs <= 0) this.#untilMs.delete(host);
    return Math.max(0, leftMs);
  }
}
