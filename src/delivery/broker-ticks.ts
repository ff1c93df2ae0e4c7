/**
 * The broker's clock: calls its `tick` as long as something is to happen with time, and not at all
 * while there is no mail.
 */
import type { Broker } from './broker.ts';

export class BrokerTicks {
  readonly #broker: Pick<Broker, 'tick' | 'tickWithinMs'>;
  #timer: NodeJS.Timeout | undefined;
  #setForMs = Infinity;

  constructor(broker: Pick<Broker, 'tick' | 'tickWithinMs'>) {
    this.#broker = broker;
  }

  /** To be called whenever the broker has heard something. */
  wind(): void {
    const withinMs = this.#broker.tickWithinMs;
    if (withinMs >= this.#setForMs) return;
    clearTimeout(this.#timer);
    this.#setForMs = withinMs;
    this.#timer = setTimeout(() => {
      this.#setForMs = Infinity;
      this.#broker.tick();
      this.wind();
    }, withinMs).unref();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#setForMs = 0;
  }
}
