/**
 * Whether this machine's own connection to the internet is down: then no mail server anywhere answers, and
 * none of the receivers is at fault. `Uplink` decides it in the broker, `UplinkView` is what a worker knows.
 *
 * It is down when, since the last answer of any server, attempts at several unrelated receivers got none, and that
 * answer is some time ago. The first answer from anywhere ends it. An answer is a greeting or another reply; a
 * connection that is accepted and closed is none, because firewalls and proxies do that, too.
 *
 * Strangers can provide as many dead receivers as they like, so the state only ever shortens waits: no receiver
 * is suspended that would not be suspended anyway, each for a short and constant time, and one that has not
 * failed is tried at once. A wrong decision therefore delays nobody's mail, and his next answer ends it.
 */
import type { World } from '../../lib/world.ts';
import { groupOf } from '../../net/providers.ts';
import type { BrokerMessage, WorkerMessage } from '../broker/messages.ts';
import type { UplinkRules } from '../shaping/settings.ts';

type Clock = Pick<World, 'monotonicMs'>;

/** Receivers that have answered before and do not now, which suffice for the decision. */
const KNOWN_GROUPS_MIN = 2;
/** With one of these, or while none has ever answered: receivers without an answer in all. */
const GROUPS_MIN = 3;
const PROVIDERS_MAX = 20_000;
/**
 * Messages of several workers cross: an answer that comes so soon after the first failure may be older than it. Providers
 * that are suspended already do not fail again, so the failures would be missing for good.
 */
const CROSSED_MS = 1_000;
/** While it is down, there are at most this many probes a second of those that have answered before, and of others. */
const PROBES_PER_S = 4;

export class Uplink {
  readonly #rules: UplinkRules;
  readonly #clock: Clock;
  /** Providers that have answered; the longest ago are dropped. */
  readonly #known = new Set<string>();
  /** Providers without an answer since the last answer of any. */
  readonly #failed = new Set<string>();
  #knownFailed = 0;
  /** Their registrable domains, and whether a provider of each has answered before. */
  readonly #groups = new Map<string, boolean>();
  #failedSinceMs = Infinity;
  /** At first the start: what fails before anything could answer says nothing. */
  #answeredAtMs: number;
  #phase = 0;
  #isDown = false;

  constructor(rules: UplinkRules, clock: Clock) {
    this.#rules = rules;
    this.#clock = clock;
    this.#answeredAtMs = clock.monotonicMs();
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** The number of the time between two answers: failures of one phase have one cause, if the uplink is down. */
  get phase(): number {
    return this.#phase;
  }

  /** Since the first failure of the phase; 0: there is none. */
  get failedForMs(): number {
    return Math.max(0, this.#clock.monotonicMs() - this.#failedSinceMs);
  }

  get failed(): ReadonlySet<string> {
    return this.#failed;
  }

  /** It will be down when no answer comes for some more time. */
  get isSuspect(): boolean {
    return !this.#isDown && this.#isEvidence;
  }

  /** An attempt reached no server of the provider, or its domain could not be looked up. */
  noAnswer(provider: string): void {
    if (this.#failed.size >= PROVIDERS_MAX || this.#failed.has(provider)) return;
    if (this.#failed.size === 0) this.#failedSinceMs = this.#clock.monotonicMs();
    this.#failed.add(provider);
    const isKnown = this.#known.has(provider);
    if (isKnown) this.#knownFailed += 1;
    const group = groupOf(provider);
    this.#groups.set(group, isKnown || this.#groups.get(group) === true);
  }

  /** @returns whether it goes down now; to be called after each failure, and in intervals while `isSuspect` */
  goesDown(): boolean {
    const sinceAnswerMs = this.#clock.monotonicMs() - this.#answeredAtMs;
    if (!this.isSuspect || sinceAnswerMs < this.#rules.noAnswerMs) return false;
    this.#isDown = true;
    return true;
  }

  /** A server answered: a new phase begins. `failed` and `failedForMs` are to be read before. */
  answered(provider: string): void {
    this.#answeredAtMs = this.#clock.monotonicMs();
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

  /** How long a provider is suspended while it is down. Strangers' dead hosts do not delay the probes of others. */
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

/** Answers on sessions that are kept open are reported at most once in this time. */
const ANSWER_REPORTED_EVERY_MS = 1_000;

type UplinkMessage = Extract<BrokerMessage, { kind: 'uplink' }>;

/** `failedForMs`: how long no server had answered, when it was found down or was up again. */
export type UplinkChange = { isDown: boolean; failedForMs: number };

export class UplinkView {
  /** Before the next attempt at a message that got no answer while it is down. */
  readonly retryMs: number;
  readonly #clock: Clock;
  readonly #send: (message: WorkerMessage) => void;
  #isDown = false;
  #upAgainAtMs = -Infinity;
  #reportedAtMs = -Infinity;
  #onChange: (change: UplinkChange) => void = () => {};

  constructor(
    rules: UplinkRules,
    { clock, send }: { clock: Clock; send: (message: WorkerMessage) => void },
  ) {
    this.retryMs = rules.retryMs;
    this.#clock = clock;
    this.#send = send;
  }

  get isDown(): boolean {
    return this.#isDown;
  }

  /** Whether it was down at some time of an attempt that began then, so that its failure says nothing of the receiver. */
  wasDownSince(startedMs: number): boolean {
    return this.#isDown || startedMs <= this.#upAgainAtMs;
  }

  onChange(listener: (change: UplinkChange) => void): void {
    this.#onChange = listener;
  }

  receive({ isDown, failedForMs }: UplinkMessage): void {
    if (this.#isDown === isDown) return;
    this.#isDown = isDown;
    if (!isDown) this.#upAgainAtMs = this.#clock.monotonicMs();
    this.#onChange({ isDown, failedForMs });
  }

  answered(provider: string): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#reportedAtMs < ANSWER_REPORTED_EVERY_MS) return;
    this.#reportedAtMs = nowMs;
    this.#send({ kind: 'answered', provider });
  }

  /** No server of the domain is known, because DNS did not answer usefully. */
  unresolved(provider: string): void {
    this.#send({ kind: 'unresolved', provider });
  }
}
