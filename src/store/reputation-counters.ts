/**
 * Counts what became of recipients by sending domain, in memory, and writes the sums every few seconds:
 * settling an email pays a look into a map for it. What could not be written is added to the next
 * time; a crash loses the last seconds, which a share over a day can bear.
 *
 * `count` is told of every outcome that was written, early and late ones, by whoever settles
 * (store/settle.ts, `onSettled`). Next: store/reputation.ts.
 */
import type { ReputationCount } from './reputation.ts';
import type { Settlement } from './settle.ts';

const WRITE_EVERY_MS = 5_000;
/** While the database is away; new domains are not counted then. */
const DOMAINS_MAX = 20_000;

const ENDINGS: ReadonlySet<string> = new Set(['delivered', 'sent', 'bounced', 'failed']);

export class ReputationCounters {
  readonly #write: (counts: readonly ReputationCount[]) => Promise<void>;
  #counts = new Map<string, ReputationCount>();
  #timer: NodeJS.Timeout | undefined;
  #writing: Promise<void> = Promise.resolve();

  constructor(write: (counts: readonly ReputationCount[]) => Promise<void>) {
    this.#write = write;
  }

  /** News about mail that had ended already adds a bounce or a complaint, and no further ending. */
  count({ projectId, environment, senderDomain: domain, status, late }: Settlement): void {
    const ended = !late && ENDINGS.has(status) ? 1 : 0;
    const bounced = status === 'bounced' ? 1 : 0;
    const complained = status === 'complained' ? 1 : 0;
    if (ended + bounced + complained === 0) return;
    this.#add({ projectId, environment, domain, ended, bounced, complained });
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
      for (const count of counts) this.#add(count);
    });
  }

  #add(count: ReputationCount): void {
    this.#timer ??= setTimeout(() => void this.flush(), WRITE_EVERY_MS).unref();
    const key = `${count.projectId} ${count.environment} ${count.domain}`;
    const known = this.#counts.get(key);
    if (known === undefined) {
      if (this.#counts.size < DOMAINS_MAX) this.#counts.set(key, count);
      return;
    }
    known.ended += count.ended;
    known.bounced += count.bounced;
    known.complained += count.complained;
  }
}
