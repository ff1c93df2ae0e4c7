/**
 * Recipients that the queue table says this worker holds and that it does not know of: nobody would
 * try them again, not even when they expire. They come from a commit whose answer was lost, from an
 * error on the way from the statement into memory, and from a fail-over to a standby that lacks
 * the last commits, where a settled recipient is back in the queue under its old holder.
 *
 * Promise: every few minutes, after the database was away or is another server, and when an operator
 * asks for it, table and memory are compared, and what only the table has is given back. The caller claims nothing
 * meanwhile: then a claim that is committed and not in memory has lost its answer. A recipient that
 * was handed over by an accept (claim 1) may be committed and its answer still on the way: it is
 * looked at twice, farther apart than any answer takes.
 */
import type { Logger } from 'pino';
import type { World } from '../core/world.ts';
import type { Queryable } from '../store/postgres/database.ts';
import { findStrays, releaseClaims, type Stray, STRAYS_MAX } from '../store/queue.ts';

export type StraysOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs'>;
  log: Logger;
  /** Everything that this worker knows it holds. */
  known: () => Iterable<Pick<Stray, 'emailId' | 'position'>>;
  /** After so long a statement without an answer has happened or never will. */
  fateKnownAfterMs: number;
};

const COMPARE_EVERY_MS = 5 * 60_000;

export class Strays {
  readonly #options: StraysOptions;
  #compareAtMs: number;
  /** Handed over by an accept, as far as the table says, and unknown when last looked at. */
  #suspects: readonly Stray[] = [];
  #suspectsAtMs = Infinity;

  constructor(options: StraysOptions) {
    this.#options = options;
    this.#compareAtMs = options.world.monotonicMs() + COMPARE_EVERY_MS;
  }

  /** A statement was not answered, or the database is another one than before. */
  compareLater(): void {
    const { world, fateKnownAfterMs } = this.#options;
    this.#compareAtMs = world.monotonicMs() + fateKnownAfterMs;
  }

  compareNow(): void {
    this.#compareAtMs = -Infinity;
  }

  /** Compares if it is time to. @throws DatabaseUnavailable */
  async release(holder: string): Promise<void> {
    const { world, fateKnownAfterMs } = this.#options;
    const nowMs = world.monotonicMs();
    if (nowMs >= this.#suspectsAtMs) {
      // After a freeze an answer may lie unread in its socket: a round trip later it has been read.
      await this.#options.db.query('select 1');
      await this.#giveBack(this.#takeSuspects(), holder);
    }
    if (nowMs < this.#compareAtMs) return;
    const found = await findStrays(this.#options.db, holder, [...this.#options.known()]);
    const [claimed, accepted] = [
      found.filter(({ claim }) => claim > 1),
      found.filter(({ claim }) => claim <= 1),
    ];
    await this.#giveBack(claimed, holder);
    this.#suspects = accepted;
    this.#suspectsAtMs = accepted.length === 0 ? Infinity : nowMs + fateKnownAfterMs;
    this.#compareAtMs = found.length < STRAYS_MAX ? nowMs + COMPARE_EVERY_MS : this.#suspectsAtMs;
  }

  #takeSuspects(): readonly Stray[] {
    const suspects = this.#suspects;
    this.#suspects = [];
    this.#suspectsAtMs = Infinity;
    return suspects;
  }

  /** Those that are still unknown, as they were found: a claim made since is left alone. */
  async #giveBack(strays: readonly Stray[], holder: string): Promise<void> {
    if (strays.length === 0) return;
    const known = new Set([...this.#options.known()].map(keyOf));
    const free = strays.filter((stray) => !known.has(keyOf(stray)));
    if (free.length === 0) return;
    const released = await releaseClaims(
      this.#options.db,
      free.map((stray) => ({ ...stray, holder, delayMs: 0 })),
    );
    if (released === 0) return;
    this.#options.log.warn({ released }, 'recipients that this worker did not know of are free');
  }
}

function keyOf({ emailId, position }: Pick<Stray, 'emailId' | 'position'>): string {
  return `${emailId} ${position}`;
}
