/**
 * Messages of one worker to the broker, in order and one batch per turn of the event loop. A delivery that stops and
 * resumes waiting within a turn sends nothing.
 */
import type { WorkerMessage } from '../broker/broker-messages.ts';
import type { SessionPool } from './session-pool.ts';

const ACCEPTED_BATCHED_FOR_MS = 10;

export class BrokerOutbox {
  readonly #sendBatch: (messages: readonly WorkerMessage[]) => void;
  #messages: WorkerMessage[] = [];
  #isFlushing = false;
  /** Pools whose number of waiting deliveries changed since the last batch. */
  readonly #poolsWithNewDemand = new Set<SessionPool>();
  readonly #acceptedWhileBusy = new Map<SessionPool, number>();

  constructor(sendBatch: (messages: readonly WorkerMessage[]) => void) {
    this.#sendBatch = sendBatch;
  }

  send(message: WorkerMessage): void {
    this.#messages.push(message);
    this.#flushSoon();
  }

  /** Reads the demand of the pool when the batch is sent. */
  noteDemand(pool: SessionPool): void {
    this.#poolsWithNewDemand.add(pool);
    this.#flushSoon();
  }

  /** Counts a message that was accepted while all connections of the pool were busy. Counts are sent together. */
  countAccepted(pool: SessionPool): void {
    if (this.#acceptedWhileBusy.size === 0)
      setTimeout(() => this.#sendAccepted(), ACCEPTED_BATCHED_FOR_MS);
    this.#acceptedWhileBusy.set(pool, (this.#acceptedWhileBusy.get(pool) ?? 0) + 1);
  }

  #sendAccepted(): void {
    for (const [{ provider, source }, count] of this.#acceptedWhileBusy) {
      this.send({ kind: 'accepted', provider, source, count });
    }
    this.#acceptedWhileBusy.clear();
  }

  #flushSoon(): void {
    if (this.#isFlushing) return;
    this.#isFlushing = true;
    setImmediate(() => {
      this.#isFlushing = false;
      const messages = [
        ...this.#messages,
        ...[...this.#poolsWithNewDemand].flatMap((pool) => pool.takeDemandMessage() ?? []),
      ];
      this.#messages = [];
      this.#poolsWithNewDemand.clear();
      if (messages.length > 0) this.#sendBatch(messages);
    });
  }
}
