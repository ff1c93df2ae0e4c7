/**
 * Counts what came of TLS sessions (RFC 8460), never on the way of an email: a crash loses the last
 * seconds, which a statistic can bear.
 */
import { Sums } from '../store/sums.ts';
import type { TlsCount } from '../store/tls-results.ts';

/** With more kinds than this it is written at once. */
const KINDS_MAX = 2_000;

export class TlsCounters {
  readonly #sums: Sums<TlsCount>;

  constructor(write: (counts: readonly TlsCount[]) => Promise<void>) {
    this.#sums = new Sums({
      write,
      keyOf: ({ domain, policy, result }) => `${domain} ${policy} ${result}`,
      merge: (sum, { sessions }) => (sum.sessions += sessions),
    });
  }

  add(kind: Omit<TlsCount, 'sessions'>): void {
    const isNew = this.#sums.add({ ...kind, sessions: 1 });
    // Once on the way up: while the database is away the timer decides.
    if (isNew && this.#sums.size === KINDS_MAX) void this.flush();
  }

  flush(): Promise<void> {
    return this.#sums.flush();
  }
}
