/**
 * Whether no server of a provider answers. Then the provider is suspended, for longer each time, and
 * after each suspension one connection probes whether the outage is over.
 *
 * A provider that is known by name has many servers, so it is an outage only when none of them has
 * answered for a while. One dead server among others is skipped by its address
 * (delivery/shaping/connections.ts).
 *
 * While our own uplink is down (uplink.ts), suspensions are short and constant, and what was counted in that phase is taken
 * back at its end.
 */
import type { World } from '../../lib/world.ts';
import type { SuspensionRules } from '../shaping/settings.ts';

/** A provider with a server that answered this recently is not suspended. */
const ANSWER_COUNTS_FOR_MS = 10 * 60_000;
const ADDRESSES_MAX = 100;
const JITTER = 0.15;

type Counts = {
  failures: number;
  suspensions: number;
  suspendedUntilMs: number;
  /** From the first suspension to the first answer. */
  isProbing: boolean;
  reason: string | null;
  /** When each address last answered, unless it has failed since. */
  answeredAtMs: Map<string, number>;
};

export type Failure = {
  addresses: readonly string[];
  reason: string;
  phase: number;
  /** While our uplink is down: how long a suspension is. */
  suspensionMs: number | null;
};

export class Outage {
  readonly #rules: SuspensionRules;
  readonly #world: Pick<World, 'monotonicMs' | 'random'>;
  #now: Counts = {
    failures: 0,
    suspensions: 0,
    suspendedUntilMs: -Infinity,
    isProbing: false,
    reason: null,
    answeredAtMs: new Map(),
  };
  /** As it was before the first failure of the phase. */
  #before: (Counts & { phase: number }) | null = null;
  /** Addresses that have not answered since the last answer of any server. */
  readonly #silent = new Set<string>();

  constructor(rules: SuspensionRules, world: Pick<World, 'monotonicMs' | 'random'>) {
    this.#rules = rules;
    this.#world = world;
  }

  get reason(): string | null {
    return this.#now.reason;
  }

  get suspendedForMs(): number {
    return Math.max(0, this.#now.suspendedUntilMs - this.#world.monotonicMs());
  }

  /** Suspended now, or no server has answered since: one connection at a time. */
  get isOngoing(): boolean {
    return this.#now.isProbing;
  }

  get silentAddresses(): readonly string[] {
    return [...this.#silent];
  }

  /** @returns whether a suspension begins */
  failed({ addresses, reason, phase, suspensionMs }: Failure): boolean {
    if (this.#before?.phase !== phase) {
      const answeredAtMs = new Map(this.#now.answeredAtMs);
      this.#before = { ...this.#now, answeredAtMs, phase };
    }
    this.#now.failures += 1;
    for (const address of addresses) {
      this.#now.answeredAtMs.delete(address);
      if (this.#silent.size < ADDRESSES_MAX) this.#silent.add(address);
    }
    const isOver = this.#now.failures >= this.#rules.afterFailures && !this.#answersSomewhere();
    if (!isOver || this.suspendedForMs > 0) return false;
    const { longestMs, firstMs } = this.#rules;
    const usualMs = Math.min(longestMs, firstMs * 2 ** this.#now.suspensions);
    this.#suspendFor(Math.min(usualMs, suspensionMs ?? Infinity));
    this.#now.suspensions += 1;
    this.#now.isProbing = true;
    this.#now.reason = reason;
    return true;
  }

  /** Our uplink is down: a suspension that began in this phase ends after this time at the latest. */
  shorten(forMs: number, phase: number): void {
    const { suspendedUntilMs } = this.#now;
    const isOfPhase = this.#before?.phase === phase;
    if (!isOfPhase || suspendedUntilMs === this.#before?.suspendedUntilMs) return;
    if (this.suspendedForMs > forMs) this.#suspendFor(forMs);
  }

  /** Our uplink was down in this phase: nothing in it was an outage of the provider. */
  takeBack(phase: number): void {
    if (this.#before?.phase === phase) this.#now = this.#before;
    this.#before = null;
  }

  /** @returns whether that ends the outage */
  answered(address: string): boolean {
    const { answeredAtMs, isProbing } = this.#now;
    answeredAtMs.delete(address);
    answeredAtMs.set(address, this.#world.monotonicMs());
    if (answeredAtMs.size > ADDRESSES_MAX) answeredAtMs.delete(answeredAtMs.keys().next().value!);
    const ended = { failures: 0, suspensions: 0, suspendedUntilMs: -Infinity, isProbing: false };
    this.#now = { ...ended, reason: null, answeredAtMs };
    this.#before = null;
    return isProbing;
  }

  /** The addresses that may be connected to again, after `answered` or `takeBack`. */
  forgetSilent(): readonly string[] {
    const silent = this.silentAddresses;
    this.#silent.clear();
    return silent;
  }

  #suspendFor(ms: number): void {
    const jitter = 1 + JITTER * (2 * this.#world.random() - 1);
    this.#now.suspendedUntilMs = this.#world.monotonicMs() + ms * jitter;
  }

  #answersSomewhere(): boolean {
    const sinceMs = this.#world.monotonicMs() - ANSWER_COUNTS_FOR_MS;
    return [...this.#now.answeredAtMs.values()].some((atMs) => atMs > sinceMs);
  }
}
