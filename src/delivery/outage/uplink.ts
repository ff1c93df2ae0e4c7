/**
 * Decides whether this machine's own connection to the internet is down, so that no mail server answers and no
 * provider is at fault. The broker decides; uplink-view.ts contains the copy of each worker.
 *
 * The uplink is down when attempts at several unrelated providers got no reply since the last reply of any server, and
 * that reply is older than `noAnswerMs`. The first reply of any server, a greeting or another one, ends it. A
 * connection that is accepted and closed does not, because firewalls and proxies do that, too.
 *
 * Anyone can provide many dead servers, so the state only ever shortens waits. It suspends only providers that would
 * be suspended anyway, each for a short and constant time. A provider that has not failed is tried at once. A wrong
 * decision therefore delays no mail, and the next reply corrects it.
 */
import type { World } from '../../lib/world.ts';
import { connectionGroup } from '../../net/providers.ts';
import type { UplinkRules } from '../shaping/settings.ts';

type Clock = Pick<World, 'monotonicMs'>;

/** `failedForMs`: milliseconds without a reply when the uplink went down or came back. */
export type UplinkChange = { isDown: boolean; failedForMs: number };

/** Providers that answered before and fail now: this many are enough for the decision. */
const KNOWN_GROUPS_MIN = 2;
/** With one such provider, or while none has ever answered: failing providers in total. */
const GROUPS_MIN = 3;
const PROVIDERS_MAX = 20_000;
/**
 * Messages of several workers cross. A reply this soon after the first failure may be older than that failure. If it
 * cleared the failures, they would never return, because suspended providers do not fail again.
 */
const CROSSED_MS = 1_000;
/** While the uplink is down: probes per second of providers that answered before, and as many of the others. */
const PROBES_PER_S = 4;

export class Uplink {
  readonly #rules: UplinkRules;
  readonly #clock: Clock;
  /** Providers that have replied, the oldest reply first. */
  readonly #known = new Set<string>();
  readonly #failed = new Set<string>();
  #knownFailed = 0;
  /** The registrable domains of the failed providers, and whether a provider of each has answered before. */
  readonly #groups = new Map<string, boolean>();
  #failedSinceMs = Infinity;
  /** Initially the start of the process. */
  #repliedAtMs: number;
  #phase = 0;
  #isDown = false;

  constructor(rules: UplinkRules, clock: Clock) {
    this.#rules = rules;
    this.#clock = clock;
    this.#repliedAtMs = clock.monotonicMs();
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Number of the phase, the time between two replies. While the uplink is down a phase has one cause. */
  get phase(): number {
    return this.#phase;
  }

  /** Milliseconds since the first failure of the phase; 0: there is none. */
  get failedForMs(): number {
    return Math.max(0, this.#clock.monotonicMs() - this.#failedSinceMs);
  }

  get failedProviders(): ReadonlySet<string> {
    return this.#failed;
  }

  /** True when the failures suffice, and only the time without a reply is still too short. */
  get isSuspect(): boolean {
    return !this.#isDown && this.#isEvidence;
  }

  /** Records that an attempt reached no server of the provider, or that its domain could not be looked up. */
  recordNoReply(provider: string): void {
    if (this.#failed.size >= PROVIDERS_MAX || this.#failed.has(provider)) return;
    if (this.#failed.size === 0) this.#failedSinceMs = this.#clock.monotonicMs();
    this.#failed.add(provider);
    const isKnown = this.#known.has(provider);
    if (isKnown) this.#knownFailed += 1;
    const group = connectionGroup(provider);
    this.#groups.set(group, isKnown || this.#groups.get(group) === true);
  }

  /**
   * Marks the uplink as down if the evidence suffices. The broker calls this after each failure, and in intervals
   * while `isSuspect`.
   * @returns whether the uplink went down now
   */
  markDownIfEvident(): boolean {
    const sinceReplyMs = this.#clock.monotonicMs() - this.#repliedAtMs;
    if (!this.isSuspect || sinceReplyMs < this.#rules.noAnswerMs) return false;
    this.#isDown = true;
    return true;
  }

  /** Records a reply, which begins a new phase. Read `failedProviders` and `failedForMs` before. */
  recordReply(provider: string): void {
    this.#repliedAtMs = this.#clock.monotonicMs();
    this.#known.delete(provider);
    this.#known.add(provider);
    if (this.#known.size > PROVIDERS_MAX) this.#known.delete(this.#known.keys().next().value!);
    if (this.#failed.size === 0 || (!this.#isDown && this.failedForMs < CROSSED_MS)) return;
    this.#phase += 1;
    this.#isDown = false;
    this.#failed.clear();
    this.#groups.clear();
    this.#knownFailed = 0;
    this.#failedSinceMs = Infinity;
  }

  /** Returns the suspension while the uplink is down. Hosts that never answered do not delay the others' probes. */
  suspensionMs(provider: string): number {
    const isKnown = this.#known.has(provider);
    const count = isKnown ? this.#knownFailed : this.#failed.size - this.#knownFailed;
    return Math.max(this.#rules.retryMs, (count * 1_000) / PROBES_PER_S);
  }

  get #isEvidence(): boolean {
    let known = 0;
    for (const isKnown of this.#groups.values()) if (isKnown) known += 1;
    if (known >= KNOWN_GROUPS_MIN) return true;
    const isOneEnough = known > 0 || this.#known.size === 0;
    return isOneEnough && this.#groups.size >= GROUPS_MIN;
  }
}
