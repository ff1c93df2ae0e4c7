/**
 * Rows that are written beside the work that makes them: kept in memory and stored every second.
 * Rows that cannot be stored are dropped, because a log must neither delay requests nor fill the memory of a worker.
 */
const WRITE_EVERY_MS = 1_000;
const WAITING_MAX = 5_000;

export class WriteBehind<Row> {
  readonly #write: (rows: readonly Row[]) => Promise<void>;
  #waiting: Row[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (rows: readonly Row[]) => Promise<void>) {
    this.#write = write;
  }

  add(row: Row): void {
    if (this.#waiting.length >= WAITING_MAX) return;
    this.#waiting.push(row);
    this.#timer ??= setTimeout(() => void this.flush(), WRITE_EVERY_MS).unref();
  }

  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length > 0) await this.#write(batch).catch(() => {});
  }
}
