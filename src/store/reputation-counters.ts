/**
 * Counts what became of recipients by sending domain: settling an email pays a look into a map for
 * it. A crash loses the last seconds, which a share over a day can bear.
 *
 * `count` is told of every outcome that was written, early and late ones, by whoever settles
 * (store/settle.ts, `onSettled`).
 */
import type { ReputationCount } from './reputation.ts';
import type { Settlement } from './settle.ts';
import { Sums } from './sums.ts';

const ENDINGS: ReadonlySet<string> = new Set(['delivered', 'sent', 'bounced', 'failed']);

export class ReputationCounters {
  readonly #sums: Sums<ReputationCount>;

  constructor(write: (counts: readonly ReputationCount[]) => Promise<void>) {
    this.#sums = new Sums({
      write,
      keyOf: ({ projectId, environment, domain }) => `${projectId} ${environment} ${domain}`,
      merge: (sum, { ended, bounced, complained }) => {
        sum.ended += ended;
        sum.bounced += bounced;
        sum.complained += complained;
      },
    });
  }

  /** News about mail that had ended already adds a bounce or a complaint, and no further ending. */
  count({ projectId, environment, senderDomain: domain, status, late }: Settlement): void {
    const ended = !late && ENDINGS.has(status) ? 1 : 0;
    const bounced = status === 'bounced' ? 1 : 0;
    const complained = status === 'complained' ? 1 : 0;
    if (ended + bounced + complained === 0) return;
    this.#sums.add({ projectId, environment, domain, ended, bounced, complained });
  }

  flush(): Promise<void> {
    return this.#sums.flush();
  }
}
