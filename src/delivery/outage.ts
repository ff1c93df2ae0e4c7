/**
 * Whether a provider is in trouble as a whole: nobody there answers. Then it rests, for longer each
 * time, and after each rest one connection finds out whether that is over.
 *
 * A provider may be many servers of many customers (a hosting company): it is only in trouble when no
 * server of it has answered for a while. One dead server among living ones is a matter of its
 * address (remembered.ts).
 */
import type { World } from '../core/world.ts';
import type { SuspensionRules } from './shaping-defaults.ts';

/** A server that answered so recently speaks for the whole provider. */
const ANSWER_COUNTS_FOR_MS = 10 * 60_000;
const ADDRESSES_MAX = 100;
const JITTER = 0.15;

export class Outage {
  readonly #rules: SuspensionRules;
  readonly #world: Pick<World, 'monotonicMs' | 'random'>;
  #failures = 0;
  #suspensions = 0;
  #restUntilMs = -Infinity;
  /** Between the end of a rest and the first answer. */
  #isProbing = false;
  readonly #answeredAtMs = new Map<string, number>();
  /** Those that did not answer since anybody did. */
  readonly #silent = new Set<string>();
  reason: string | null = null;

  constructor(rules: SuspensionRules, world: Pick<World, 'monotonicMs' | 'random'>) {
    this.#rules = rules;
    this.#world = world;
  }

  get suspendedForMs(): number {
    return Math.max(0, this.#restUntilMs - this.#world.monotonicMs());
  }

  /** Rests, or has rested and nobody has answered since: one connection at a time. */
  get isOngoing(): boolean {
    return this.#isProbing;
  }

  get silentAddresses(): readonly string[] {
    return [...this.#silent];
  }

  /** @returns whether a rest begins */
  failed(addresses: readonly string[], reason: string): boolean {
    this.#failures += 1;
    for (const address of addresses) {
      this.#answeredAtMs.delete(address);
      if (this.#silent.size < ADDRESSES_MAX) this.#silent.add(address);
    }
    const isOver = this.#failures >= this.#rules.afterFailures && !this.#answersSomewhere();
    if (!isOver || this.suspendedForMs > 0) return false;
    const lengthMs = Math.min(this.#rules.longestMs, this.#rules.firstMs * 2 ** this.#suspensions);
    const jitter = 1 + JITTER * (2 * this.#world.random() - 1);
    this.#restUntilMs = this.#world.monotonicMs() + lengthMs * jitter;
    this.#suspensions += 1;
    this.#isProbing = true;
    this.reason = reason;
    return true;
  }

  /** @returns whether that ends the trouble */
  answered(address: string): boolean {
    this.#answeredAtMs.delete(address);
    this.#answeredAtMs.set(address, this.#world.monotonicMs());
    if (this.#answeredAtMs.size > ADDRESSES_MAX) {
      this.#answeredAtMs.delete(this.#answeredAtMs.keys().next().value!);
    }
    const wasIn = this.#isProbing;
    this.#failures = 0;
    this.#suspensions = 0;
    this.#restUntilMs = -Infinity;
    this.#isProbing = false;
    this.reason = null;
    return wasIn;
  }

  /** Who was silent may be asked again; after `answered`. */
  forgetSilent(): readonly string[] {
    const silent = this.silentAddresses;
    this.#silent.clear();
    return silent;
  }

  #answersSomewhere(): boolean {
    const sinceMs = this.#world.monotonicMs() - ANSWER_COUNTS_FOR_MS;
    return [...this.#answeredAtMs.values()].some((atMs) => atMs > sinceMs);
  }
}
