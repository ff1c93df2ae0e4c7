/**
 * What was learnt about handshakes with mail servers, for three days: which need a small
 * ClientHello, and which cannot do STARTTLS although they offer it. Only convenience: it decides
 * which way is tried first, never whether a rule is kept.
 */
import type { World } from '../core/world.ts';

const REMEMBERED_FOR_MS = 3 * 24 * 3600_000;
/** The oldest go first. */
const REMEMBERED_MAX = 10_000;

export type Handshake = 'reduced' | 'broken';

export class TlsMemory {
  readonly #world: Pick<World, 'monotonicMs'>;
  readonly #hosts = new Map<string, { handshake: Handshake; untilMs: number }>();

  constructor(world: Pick<World, 'monotonicMs'>) {
    this.#world = world;
  }

  learn(host: string, handshake: Handshake): void {
    this.#hosts.delete(host);
    this.#hosts.set(host, { handshake, untilMs: this.#world.monotonicMs() + REMEMBERED_FOR_MS });
    if (this.#hosts.size <= REMEMBERED_MAX) return;
    const oldest = this.#hosts.keys().next();
    if (!oldest.done) this.#hosts.delete(oldest.value);
  }

  /** null: nothing is known against the usual handshake. */
  of(host: string): Handshake | null {
    const known = this.#hosts.get(host);
    return known !== undefined && known.untilMs > this.#world.monotonicMs()
      ? known.handshake
      : null;
  }
}
