/**
 * Tracks whether any server of a provider answers. A provider without an answer is suspended, for longer each time.
 * After each suspension one connection probes whether the outage is over.
 *
 * A known provider has many servers, so it is an outage only when none of them has answered for a while. One dead
 * server among others is skipped by its address (delivery/shaping/connections.ts).
 *
 * While the uplink is down (uplink.ts), suspensions are short and constant. When it is up again, the failures of that
 * phase no longer count.
 */
import type { World } from '../../lib/world.ts';
import type { SuspensionRules } from '../shaping/settings.ts';

/** A provider is not suspended if one of its servers answered within this time. */
const ANSWER_COUNTS_FOR_MS = 10 * 60_000;
const ADDRESSES_MAX = 100;
const JITTER = 0.15;

type Counts = {
  failures: number;
  suspensions: number;
  suspendedUntilMs: number;
  isProbing: boolean;
  reason: string | null;
  /** The last answer of each address that has not failed since. */
  answeredAtMs: Map<string, number>;
};

export type Failure = {
  addresses: readonly string[];
  reason: string;
  phase: number;
  /** Milliseconds of a suspension while the uplink is down; null: it is up. */
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

  /** True until a server answers after a suspension. Only one connection is allowed meanwhile. */
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
    const isOut = this.#now.failures >= this.#rules.afterFailures && !this.#answersSomewhere();
    if (!isOut || this.suspendedForMs > 0) return false;
    const { longestMs, firstMs } = this.#rules;
    const backoffMs = Math.min(longestMs, firstMs * 2 ** this.#now.suspensions);
    this.#suspendFor(Math.min(backoffMs, suspensionMs ?? Infinity));
    this.#now.suspensions += 1;
    this.#now.isProbing = true;
    this.#now.reason = reason;
    return true;
  }

  /** Shortens a suspension that began in this phase, in which the uplink is down, to at most `forMs`. */
  shorten(forMs: number, phase: number): void {
    const { suspendedUntilMs } = this.#now;
    const isOfPhase = this.#before?.phase === phase;
    if (!isOfPhase || suspendedUntilMs === this.#before?.suspendedUntilMs) return;
    if (this.suspendedForMs > forMs) this.#suspendFor(forMs);
  }

  /** Restores the counts before the phase, because the uplink was down in it. */
  takeBack(phase: number): void {
    if (this.#before?.phase === phase) this.#now = this.#before;
    this.#before = null;
  }

  /** @returns whether the answer ends the outage */
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

  /** Returns the addresses that workers may connect to again, after `answered` or `takeBack`. */
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
