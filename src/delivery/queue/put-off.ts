/**
 * Remembers which mail of this worker waits, so that what waits because our own uplink was down (delivery/outage/uplink.ts) is due at
 * once when a server answers again, and is retried in short intervals until then.
 *
 * Remembered are deliveries that were released or deferred without an answer of a server, the newest 10,000, from before
 * the uplink was found down, too. Each is fenced by its claim: what was claimed, held or ended meanwhile is not
 * changed. The memory ends with the worker; the mail is then tried at its time, as always.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { type Queryable, whenAvailable } from '../../database/database.ts';
import { bringForward, type PutOffClaim } from './put-off-store.ts';
import type { Delivery } from './fair-queue.ts';
import type { UplinkChange, UplinkView } from '../outage/uplink.ts';

type PutOffOptions = {
  db: Queryable;
  world: Pick<World, 'monotonicMs' | 'random'>;
  log: Pick<Logger, 'error'>;
  uplink: Pick<UplinkView, 'onChange' | 'retryMs'>;
  /** Mail has become due. */
  onDue: () => void;
  /** Called with everything that is noted: a provider's block may have ended meanwhile (delivery/blocks/provider-blocks.ts). */
  onNoted?: (deliveries: readonly NotedDelivery[], decidedMs: number) => void;
};

export type NotedDelivery = Pick<Delivery, 'message' | 'position' | 'claim' | 'provider'>;

/** `decidedMs`: when it was decided that it waits, before that was committed. */
type Waiting = PutOffClaim & { decidedMs: number };

/** Between two tries while the database is unavailable. */
const AWAY_PAUSE_MS = 1_000;
const REMEMBERED_MAX = 10_000;
const STEP = 500;
/** Retries are spread, and slower the more mail waits: at most about 200 a second of a worker. */
const SPREAD_MS = 10_000;
const EACH_MS = 5;
/** An attempt begins before its failure is counted, and messages between processes take time. */
const SLACK_MS = 2_000;

export class PutOff {
  readonly #options: PutOffOptions;
  readonly #waiting = new Map<string, Waiting>();
  /** The last change, and from when on mail was put off because of it. */
  #last: { isDown: boolean; fromMs: number; atMs: number } | null = null;

  constructor(options: PutOffOptions) {
    this.#options = options;
    options.uplink.onChange((change) => this.#changed(change));
  }

  /** The wait before the next attempt while the uplink is down. */
  retryMs(): number {
    const { uplink, world } = this.#options;
    const usualMs = Math.max(uplink.retryMs, this.#waiting.size * EACH_MS);
    return Math.round(usualMs + world.random() * Math.min(SPREAD_MS, usualMs));
  }

  /** These wait, by what was decided at `decidedMs` and is committed now. */
  note(deliveries: readonly NotedDelivery[], decidedMs: number) {
    this.#options.onNoted?.(deliveries, decidedMs);
    const noted = deliveries.map(({ message: { projectId, id: emailId }, position, claim }) => {
      return { projectId, emailId, position, claim, decidedMs };
    });
    for (const one of noted) this.#remember(one);
    const last = this.#last;
    // The uplink has changed since.
    if (last === null || decidedMs > last.atMs || decidedMs < last.fromMs) return;
    void this.#bringForward(noted, last.isDown);
  }

  #remember(one: Waiting): void {
    const key = `${one.emailId} ${one.position}`;
    this.#waiting.delete(key);
    this.#waiting.set(key, one);
    if (this.#waiting.size <= REMEMBERED_MAX) return;
    this.#waiting.delete(this.#waiting.keys().next().value!);
  }

  #changed({ isDown, failedForMs }: UplinkChange): void {
    const atMs = this.#options.world.monotonicMs();
    const fromMs = atMs - failedForMs - SLACK_MS;
    this.#last = { isDown, fromMs, atMs };
    const since = [...this.#waiting.values()].filter(({ decidedMs }) => decidedMs >= fromMs);
    if (!isDown) this.#waiting.clear();
    void this.#bringForward(since, isDown);
  }

  /** Never rejects: what is not brought forward is tried at its time. */
  async #bringForward(claims: readonly Waiting[], isDown: boolean): Promise<void> {
    const { db, log, onDue } = this.#options;
    try {
      for (let from = 0; from < claims.length; from += STEP) {
        const step = claims.slice(from, from + STEP).map((claim) => {
          return { ...claim, delayMs: isDown ? this.retryMs() : 0 };
        });
        await whenAvailable(() => bringForward(db, step), {
          pauseMs: AWAY_PAUSE_MS,
          mayRetry: () => this.#last?.isDown === isDown,
        });
        if (!isDown) onDue();
      }
    } catch (error) {
      log.error({ err: error }, 'mail that waited for the uplink is tried at its usual time');
    }
  }
}
