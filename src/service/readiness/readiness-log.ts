/**
 * Logs for a machine why it accepts or sends no mail (core/unready.ts), and when that ends. Each has one line,
 * however many workers notice it and however many emails are refused meanwhile. A state that comes and goes within
 * seconds counts as one.
 */
import type { Logger } from 'pino';
import { remedyFor, type Unready, type UnreadyCode } from '../../core/unready.ts';
import type { World } from '../../lib/world.ts';

const EVENT = 'node.unready';
/** A reason ends when no worker has had it for this time. */
const CLOSE_AFTER_MS = 5_000;

type OpenReason = { reason: string; sinceMs: number; endTimer: NodeJS.Timeout | undefined };

type ReadinessLogOptions = {
  log: Pick<Logger, 'warn' | 'info'>;
  world: Pick<World, 'monotonicMs'>;
};

export class ReadinessLog {
  readonly #options: ReadinessLogOptions;
  readonly #byWorker = new Map<number, readonly UnreadyCode[]>();
  readonly #openReasons = new Map<UnreadyCode, OpenReason>();

  constructor(options: ReadinessLogOptions) {
    this.#options = options;
  }

  /** Notes the reasons why a worker is unready. Empty: it is ready, or has ended. */
  note(worker: number, reasons: readonly Unready[]): void {
    // A stop is left out: it is no state, and the operator who requested it knows of it.
    const lasting = reasons.filter(({ code }) => code !== 'shutting_down');
    if (lasting.length === 0) this.#byWorker.delete(worker);
    else
      this.#byWorker.set(
        worker,
        lasting.map(({ code }) => code),
      );
    for (const reason of lasting) this.#openReason(reason);
    const current = new Set([...this.#byWorker.values()].flat());
    for (const [code, open] of this.#openReasons) {
      if (current.has(code)) continue;
      open.endTimer ??= setTimeout(() => this.#closeReason(code, open), CLOSE_AFTER_MS).unref();
    }
  }

  #openReason(unready: Unready): void {
    const { code, reason, isAccepting } = unready;
    const open = this.#openReasons.get(code);
    if (open !== undefined) {
      clearTimeout(open.endTimer);
      open.endTimer = undefined;
      return;
    }
    const sinceMs = this.#options.world.monotonicMs();
    this.#openReasons.set(code, { reason, sinceMs, endTimer: undefined });
    const verb = isAccepting === true ? 'sends' : 'accepts';
    this.#options.log.warn(
      { event: EVENT, state: 'raised', reason: code, remedy: remedyFor(code) },
      `this node ${verb} no mail: ${reason}`,
    );
  }

  #closeReason(code: UnreadyCode, { reason, sinceMs }: OpenReason): void {
    this.#openReasons.delete(code);
    const forS = Math.round((this.#options.world.monotonicMs() - sinceMs) / 1_000);
    this.#options.log.info(
      { event: EVENT, state: 'cleared', reason: code, for_s: forS },
      `no longer: ${reason}`,
    );
  }
}
