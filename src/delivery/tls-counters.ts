/**
 * Counts what came of TLS sessions (RFC 8460), in memory, and writes the sums every few seconds:
 * never on the way of an email. What could not be written is added to the next time; a crash loses
 * the last seconds, which a statistic can bear.
 */
import type { TlsCount } from '../store/tls-results.ts';

const WRITE_EVERY_MS = 5_000;
/** With more kinds than this it is written at once. */
const KINDS_MAX = 2_000;
/** While the database is away; new kinds are not counted then. */
const DROPPED_BEYOND = 20_000;

export class TlsCounters {
  readonly #write: (counts: readonly TlsCount[]) => Promise<void>;
  #counts = new Map<string, TlsCount>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(write: (counts: readonly TlsCount[]) => Promise<void>) {
    this.#write = write;
  }

  add(kind: Omit<TlsCount, 'sessions'>): void {
    const isNew = this.#keep(kind, 1);
    // Once on the way up: while the database is away the timer decides.
    if (isNew && this.#counts.size === KINDS_MAX) void this.flush();
  }

  /** Resolves when everything counted so far is written or was tried. */
  flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#writing = this.#writing.then(() => this.#writeNow());
    return this.#writing;
  }

  async #writeNow(): Promise<void> {
    if (this.#counts.size === 0) return;
    const counts = [...this.#counts.values()];
    this.#counts = new Map();
    await this.#write(counts).catch(() => {
      for (const { sessions, ...kind } of counts) this.#keep(kind, sessions);
    });
  }

  /** @returns whether this is the first of its kind */
  #keep(kind: Omit<TlsCount, 'sessions'>, sessions: number): boolean {
    this.#timer ??= setTimeout(() => void this.flush(), WRITE_EVERY_MS).unref();
    const key = `${kind.domain} ${kind.policy} ${kind.result}`;
    const known = this.#counts.get(key);
    if (known !== undefined) known.sessions += sessions;
    else if (this.#counts.size < DROPPED_BEYOND) this.#counts.set(key, { ...kind, sessions });
    return known === undefined;
  }
}
