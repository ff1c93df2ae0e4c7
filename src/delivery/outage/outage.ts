/**
 * Tracks whether any server of a provider answers. A provider without a reply is suspended, for longer each time.
 * After each suspension one connection probes whether the outage is over.
 *
 * A known provider has many servers, so it is an outage only when none of them has answered for a while. One dead
 * server among others is skipped by its address (delivery/shaping/smtp-connections.ts).
 *
 * While the uplink is down (uplink.ts), suspensions are short and constant. When it is up again, the failures of that
 * phase no longer count.
 */
import type { World } from '../../lib/world.ts';
import type { SuspensionRules } from '../shaping/settings.ts';

/** A provider is not suspended if one of its servers answered within this time. */
const REPLY_COUNTS_FOR_MS = 10 * 60_000;
const ADDRESSES_MAX = 100;
const JITTER = 0.15;

type OutageCounts = {
  failures: number;
  suspensions: number;
  suspendedUntilMs: number;
  isProbing: boolean;
  reason: string | null;
  /** The last reply of each address that has not failed since. */
  repliedAtMs: Map<string, number>;
};

export type ProviderFailure = {
  addresses: readonly string[];
  reason: string;
  phase: number;
  /** Milliseconds of a suspension while the uplink is down, or null when it is up. */
  suspensionMs: number | null;
};

export class Outage {
  readonly #rules: SuspensionRules;
  readonly #world: Pick<World, 'monotonicMs' | 'random'>;
  #counts: OutageCounts = {
    failures: 0,
    suspensions: 0,
    suspendedUntilMs: -Infinity,
    isProbing: false,
    reason: null,
    repliedAtMs: new Map(),
  };
  #countsBeforePhase: (OutageCounts & { phase: number }) | null = null;
  /** Addresses that have not answered since the last reply of any server. */
  readonly #silentAddresses = new Set<string>();

  constructor(rules: SuspensionRules, world: Pick<World, 'monotonicMs' | 'random'>) {
    this.#rules = rules;
    this.#world = world;
  }

  get reason(): string | null {
    return this.#counts.reason;
  }

  get suspendedForMs(): number {
    return Math.max(0, this.#counts.suspendedUntilMs - this.#world.monotonicMs());
  }

  /** True until a server answers after a suspension. Only one connection is allowed meanwhile. */
  get isOngoing(): boolean {
    return this.#counts.isProbing;
  }

  get silentAddresses(): readonly string[] {
    return [...this.#silentAddresses];
  }

  /**
   * Records an attempt that reached no server.
   * @returns whether a suspension begins
   */
  recordFailure({ addresses, reason, phase, suspensionMs }: ProviderFailure): boolean {
    if (this.#countsBeforePhase?.phase !== phase) {
      const repliedAtMs = new Map(this.#counts.repliedAtMs);
      this.#countsBeforePhase = { ...this.#counts, repliedAtMs, phase };
    }
    this.#counts.failures += 1;
    for (const address of addresses) {
      this.#counts.repliedAtMs.delete(address);
      if (this.#silentAddresses.size < ADDRESSES_MAX) this.#silentAddresses.add(address);
    }
    const isOut = this.#counts.failures >= this.#rules.afterFailures && !this.#hasRecentReply();
    if (!isOut || this.suspendedForMs > 0) return false;
    const { longestMs, firstMs } = this.#rules;
    const backoffMs = Math.min(longestMs, firstMs * 2 ** this.#counts.suspensions);
    this.#suspendFor(Math.min(backoffMs, suspensionMs ?? Infinity));
    this.#counts.suspensions += 1;
    this.#counts.isProbing = true;
    this.#counts.reason = reason;
    return true;
  }

  /** Shortens a suspension that began in this phase, in which the uplink is down, to at most `forMs`. */
  shortenSuspension(forMs: number, phase: number): void {
    const { suspendedUntilMs } = this.#counts;
    const isOfPhase = this.#countsBeforePhase?.phase === phase;
    if (!isOfPhase || suspendedUntilMs === this.#countsBeforePhase?.suspendedUntilMs) return;
    if (this.suspendedForMs > forMs) this.#suspendFor(forMs);
  }

  /** Restores the counts before the phase, because the uplink was down in it. */
  undoPhase(phase: number): void {
    if (this.#countsBeforePhase?.phase === phase) this.#counts = this.#countsBeforePhase;
    this.#countsBeforePhase = null;
  }

  /**
   * Records that a server answered.
   * @returns whether this ends the outage
   */
  recordReached(address: string): boolean {
    const { repliedAtMs, isProbing } = this.#counts;
    repliedAtMs.delete(address);
    repliedAtMs.set(address, this.#world.monotonicMs());
    if (repliedAtMs.size > ADDRESSES_MAX) repliedAtMs.delete(repliedAtMs.keys().next().value!);
    const ended = { failures: 0, suspensions: 0, suspendedUntilMs: -Infinity, isProbing: false };
    this.#counts = { ...ended, reason: null, repliedAtMs };
    this.#countsBeforePhase = null;
    return isProbing;
  }

  /** Returns the addresses that workers may connect to again, after `recordReached` or `undoPhase`. */
  clearSilent(): readonly string[] {
    const silent = this.silentAddresses;
    this.#silentAddresses.clear();
    return silent;
  }

  #suspendFor(ms: number): void {
    const jitter = 1 + JITTER * (2 * this.#world.random() - 1);
    this.#counts.suspendedUntilMs = this.#world.monotonicMs() + ms * jitter;
  }

  #hasRecentReply(): boolean {
    const sinceMs = this.#world.monotonicMs() - REPLY_COUNTS_FOR_MS;
    return [...this.#counts.repliedAtMs.values()].some((atMs) => atMs > sinceMs);
  }
}
