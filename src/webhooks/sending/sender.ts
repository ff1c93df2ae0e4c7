/**
 * The webhook sender: sends claimed deliveries and settles their outcomes. When it stops, it waits for them or
 * releases them.
 */
import type { Logger } from 'pino';
import { atMost } from '../../lib/at-most.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { createHttpAgents, type HttpAgents } from '../../net/http/guarded-client.ts';
import type { Queryable } from '../../database/database.ts';
import { SecretUnopenable } from '../../secrets/secret-store.ts';
import { noteUnusable } from '../../secrets/unusable-store.ts';
import type { ClaimedWebhook } from './queue-store.ts';
import { attemptWebhook, type Outbound, type Verdict } from './attempt.ts';
import type { Pace } from './fair-queue.ts';
import { type SettledWebhook, WebhookOutcomes } from './outcomes.ts';

type SenderOptions = Omit<Outbound, 'agents'> & {
  db: Queryable;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
  holder: () => string | null;
  isFresh: () => boolean;
  /** Never rejects. */
  release: (claims: readonly ClaimedWebhook[], delayMs: number) => Promise<void>;
};

/** An endpoint that answers later is slow. */
export const QUICK_MS = 1_000;
const STOP_WITHIN_MS = 10_000;
/** How long outcomes that the database refused are then retried. */
const STOP_SETTLE_WITHIN_MS = 3_000;
const ERROR_DELAY_MS = 60_000;
/** The delay while the signing secret cannot be opened: nothing is lost, and a new secret mends it. */
const UNSIGNED_DELAY_MS = 60_000;
/** The delay until the next heartbeat shows whose lease the delivery is under. */
const DOUBT_DELAY_MS = 2_000;

/** An event whose data was removed by retention cannot be sent. */
const NOTHING_TO_SEND: Verdict = { verdict: 'failed', retryMs: null, restMs: 0, attempt: null };

export class Sender {
  readonly counts: Record<SettledWebhook, number> = {
    delivered: 0,
    retried: 0,
    failed: 0,
    fenced: 0,
  };
  readonly underWay = new Set<ClaimedWebhook>();
  readonly #options: SenderOptions;
  readonly #agents: HttpAgents = createHttpAgents();
  readonly #outcomes: WebhookOutcomes;
  #hasStopped = false;
  #idle: (() => void) | undefined;

  constructor(options: SenderOptions) {
    this.#options = options;
    // Deliveries that were released by stop() are neither settled nor awaited.
    const holder = (): string | null => (this.#hasStopped ? null : options.holder());
    this.#outcomes = new WebhookOutcomes(options.db, {
      ...options,
      holder,
      onSettled: (_, settled) => (this.counts[settled] += 1),
    });
  }

  /** Outcomes are refused and kept: nothing may be sent. */
  get isBlocked(): boolean {
    return this.#outcomes.isBlocked;
  }

  /** All deliveries that are leased to this worker, including those with an outcome that is not stored yet. */
  *leased(): Iterable<Pick<ClaimedWebhook, 'endpointId' | 'eventId'>> {
    yield* this.underWay;
    yield* this.#outcomes.kept();
  }

  get unsettled(): number {
    return this.#outcomes.keptCount;
  }

  /** Never rejects: the delivery ends settled, released, or reclaimed by another worker. */
  async send(claimed: ClaimedWebhook): Promise<Pace> {
    this.underWay.add(claimed);
    const pace = await this.#attempt(claimed);
    this.underWay.delete(claimed);
    if (this.underWay.size === 0) this.#idle?.();
    return pace;
  }

  /** Waits 10 s for deliveries in progress, then releases them. */
  async stop(): Promise<void> {
    const idle = new Promise<void>((resolve) => (this.#idle = resolve));
    if (this.underWay.size > 0) await atMost(STOP_WITHIN_MS, idle);
    await this.#options.release([...this.underWay], 0);
    await this.#outcomes.stop(STOP_SETTLE_WITHIN_MS);
    this.#hasStopped = true;
    await this.#agents.close();
  }

  async #attempt(claimed: ClaimedWebhook): Promise<Pace> {
    try {
      const verdict = await this.#verdict(claimed);
      if (verdict === null) {
        await this.#options.release([claimed], DOUBT_DELAY_MS);
        return 'slow';
      }
      const settled = await this.#outcomes.settle({ ...claimed, ...verdict });
      this.#log(claimed, verdict, settled);
      if (verdict.verdict !== 'delivered') return 'failed';
      return (verdict.attempt?.latency_ms ?? 0) < QUICK_MS ? 'quick' : 'slow';
    } catch (error) {
      const { projectId, endpointId, eventId } = claimed;
      if (error instanceof SecretUnopenable) {
        await noteUnusable(this.#options, { kind: 'webhook', ownerId: projectId, id: endpointId });
        await this.#options.release([claimed], UNSIGNED_DELAY_MS);
        return 'failed';
      }
      this.#options.log.error(
        { err: error, endpoint_id: endpointId, event_id: eventId },
        'a webhook attempt ended in an error',
      );
      await this.#options.release([claimed], ERROR_DELAY_MS);
      return 'failed';
    }
  }

  /** Null: nothing was sent, because another worker may have reclaimed it. */
  async #verdict(claimed: ClaimedWebhook): Promise<Verdict | null> {
    const { type, createdAt, data } = claimed;
    if (type === null || createdAt === null || data === null) return NOTHING_TO_SEND;
    failpoint('webhook_before_post');
    if (!this.#options.isFresh() || this.#options.holder() !== claimed.holder) return null;
    const outbound = { ...this.#options, agents: this.#agents };
    const verdict = await attemptWebhook(outbound, {
      ...claimed,
      event: { type, createdAt, data },
    });
    failpoint('webhook_after_post');
    return verdict;
  }

  #log(claimed: ClaimedWebhook, { attempt }: Verdict, settled: SettledWebhook | 'kept'): void {
    this.#options.log.info(
      {
        endpoint_id: claimed.endpointId,
        event_id: claimed.eventId,
        type: claimed.type,
        attempt: claimed.attempts + 1,
        status: attempt?.status,
        latency_ms: attempt?.latency_ms,
        outcome: settled,
      },
      'webhook',
    );
  }
}
