/** Counts results of TLS sessions (RFC 8460) in memory. A crash loses the counts of the last seconds. */
import { BufferedSums } from '../../database/buffered-sums.ts';
import type { TlsCount } from './transport-security-store.ts';

/** Limit on kinds of result. At this number the counts are stored at once. */
const KINDS_MAX = 2_000;

export class TlsCounters {
  readonly #sums: BufferedSums<TlsCount>;

  constructor(write: (counts: readonly TlsCount[]) => Promise<void>) {
    this.#sums = new BufferedSums({
      write,
      kindOf: ({ domain, policy, result }) => `${domain} ${policy} ${result}`,
      merge: (sum, { sessions }) => (sum.sessions += sessions),
    });
  }

  add(kind: Omit<TlsCount, 'sessions'>): void {
    const isNew = this.#sums.add({ ...kind, sessions: 1 });
    // `===`, not `>=`: while the database is unavailable only the timer retries.
    if (isNew && this.#sums.size === KINDS_MAX) void this.flush();
  }

  flush(): Promise<void> {
    return this.#sums.flush();
  }
}
