/**
 * Logs for a machine why it accepts or sends no mail (core/readiness.ts), and when that ends. Each has one line,
 * however many workers notice it and however many emails are refused meanwhile. A state that comes and goes within
 * seconds counts as one.
 */
import type { Logger } from 'pino';
import { remedyFor, type Unready, type UnreadyCode } from '../../core/readiness.ts';
import type { World } from '../../lib/world.ts';

const EVENT = 'node.unready';
/** A reason ends when no worker has had it for this time. */
const OVER_AFTER_MS = 5_000;

type Open = { reason: string; sinceMs: number; isOver: NodeJS.Timeout | undefined };

type Options = { log: Pick<Logger, 'warn' | 'info'>; world: Pick<World, 'monotonicMs'> };

export class ReadinessLog {
  readonly #options: Options;
  readonly #byWorker = new Map<number, readonly UnreadyCode[]>();
  readonly #open = new Map<UnreadyCode, Open>();

  constructor(options: Options) {
    this.#options = options;
  }

  /** Notes the reasons why a worker is unready. Empty: it is ready, or has ended. */
  note(worker: number, reasons: readonly Unready[]): void {
    // A stop is left out: it is no state, and whoever requested it knows of it.
    const lasting = reasons.filter(({ code }) => code !== 'shutting_down');
    if (lasting.length === 0) this.#byWorker.delete(worker);
    else
      this.#byWorker.set(
        worker,
        lasting.map(({ code }) => code),
      );
    for (const reason of lasting) this.#begin(reason);
    const current = new Set([...this.#byWorker.values()].flat());
    for (const [code, open] of this.#open) {
      if (current.has(code)) continue;
      open.isOver ??= setTimeout(() => this.#end(code, open), OVER_AFTER_MS).unref();
    }
  }

  #begin(unready: Unready): void {
    const { code, reason, isAccepting } = unready;
    const open = this.#open.get(code);
    if (open !== undefined) {
      clearTimeout(open.isOver);
      open.isOver = undefined;
      return;
    }
    const sinceMs = this.#options.world.monotonicMs();
    this.#open.set(code, { reason, sinceMs, isOver: undefined });
    const what = isAccepting === true ? 'sends' : 'accepts';
    this.#options.log.warn(
      { event: EVENT, state: 'raised', reason: code, remedy: remedyFor(code) },
      `this node ${what} no mail: ${reason}`,
    );
  }

  #end(code: UnreadyCode, { reason, sinceMs }: Open): void {
    this.#open.delete(code);
    const forS = Math.round((this.#options.world.monotonicMs() - sinceMs) / 1_000);
    this.#options.log.info(
      { event: EVENT, state: 'cleared', reason: code, for_s: forS },
      `no longer: ${reason}`,
    );
  }
}
