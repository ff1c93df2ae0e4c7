/**
 * What requests leave behind for a table that is written beside them: kept in memory and written every second.
 * What cannot be written is dropped: a log must not hold up requests, nor the memory of a worker.
 */
const WRITE_EVERY_MS = 1_000;
const WAITING_MAX = 5_000;

export class Notes<Row> {
  readonly #write: (rows: readonly Row[]) => Promise<void>;
  #waiting: Row[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (rows: readonly Row[]) => Promise<void>) {
    this.#write = write;
  }

  add(row: Row): void {
    if (this.#waiting.length >= WAITING_MAX) return;
    this.#waiting.push(row);
    this.#timer ??= setTimeout(() => void this.write(), WRITE_EVERY_MS).unref();
  }

  async write(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const batch = this.#waiting;
    this.#waiting = [];
    if (batch.length > 0) await this.#write(batch).catch(() => {});
  }
}
