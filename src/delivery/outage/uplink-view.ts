/** A worker's copy of the state of the uplink (uplink.ts). It also reports replies of mail servers to the broker. */
import type { World } from '../../lib/world.ts';
import type { BrokerMessage, WorkerMessage } from '../broker/broker-messages.ts';
import type { UplinkRules } from '../shaping/settings.ts';
import type { UplinkChange } from './uplink.ts';

type Clock = Pick<World, 'monotonicMs'>;

const REPLY_REPORTED_EVERY_MS = 1_000;

type UplinkMessage = Extract<BrokerMessage, { kind: 'uplink' }>;

export class UplinkView {
  /** Milliseconds before the next attempt at a message that got no reply while the uplink is down. */
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

  /** Returns whether the uplink was down at some time since `startedMs`, so the provider is not at fault. */
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

  reportReply(provider: string): void {
    const nowMs = this.#clock.monotonicMs();
    if (nowMs - this.#reportedAtMs < REPLY_REPORTED_EVERY_MS) return;
    this.#reportedAtMs = nowMs;
    this.#send({ kind: 'replied', provider });
  }

  reportUnresolved(provider: string): void {
    this.#send({ kind: 'unresolved', provider });
  }
}
