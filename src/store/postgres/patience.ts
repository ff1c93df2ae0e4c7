/**
 * Waiting for the database, measured fairly: time counts only as far as this process had the time to
 * look. A process that is busy with ten thousand requests finds its timers late and the answer of the
 * database behind them, unread: a plain time-out then takes a database that answers for one that is
 * away, and turns all of them down.
 */
import pg from 'pg';

/** In so many parts, each of which is a turn of the event loop in which sockets were read. */
const PARTS = 20;

/** Calls `end` when the time is over; @returns what calls it off */
export function afterPatience(ms: number, end: () => void): () => void {
  let parts = 0;
  const timer = setInterval(() => {
    parts += 1;
    if (parts < PARTS) return;
    clearInterval(timer);
    end();
  }, ms / PARTS).unref();
  return () => clearInterval(timer);
}

/** A client for a pool, which connects it at once: gives up after a fair time. */
export function patientClient(timeoutMs: number, lead: (client: pg.Client) => void) {
  return class PatientClient extends pg.Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config);
      lead(this);
      const cancel = afterPatience(timeoutMs, () => {
        this.connection.stream.destroy(new Error('no connection in time'));
      });
      this.once('connect', cancel);
      this.once('end', cancel);
    }
  };
}

type Waiting = { go: () => void; fail: (error: Error) => void };

/**
 * Turns on a fixed number of connections, first come, first served. Waiting long is no mistake of the
 * database's as long as turns end: only when none does for a while those who wait are told so.
 */
export class Turns {
  #free: number;
  readonly #standstillMs: number;
  readonly #waiting: Waiting[] = [];
  #cancel: () => void = () => {};

  constructor(count: number, standstillMs: number) {
    this.#free = count;
    this.#standstillMs = standstillMs;
  }

  /** Resolves when it is one's turn, which ends with `done`. */
  async next(): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#waiting.push({ go: resolve, fail: reject });
    if (this.#waiting.length === 1) this.#watch();
    return promise;
  }

  done(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next.go();
    this.#watch();
  }

  #watch(): void {
    this.#cancel();
    if (this.#waiting.length === 0) return;
    this.#cancel = afterPatience(this.#standstillMs, () => {
      const error = new Error('no connection became free in time');
      for (const { fail } of this.#waiting.splice(0)) fail(error);
    });
  }
}
