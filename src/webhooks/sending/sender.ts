/**
 * The webhook sender: sends claimed deliveries and settles their outcomes. When it stops, it waits for deliveries
 * under way, then releases them.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../../lib/at-most.ts';
import { findTraceparent } from '../../delivery/message/message-store.ts';
import { failpoint } from '../../lib/failpoint.ts';
import { createHttpAgents, type HttpAgents } from '../../net/http/guarded-client.ts';
import type { Queryable } from '../../database/database.ts';
import { isTracing } from '../../lib/tracing/spans.ts';
import { SecretUnopenable } from '../../secrets/secret-box.ts';
import { markAndLogUnusable } from '../../secrets/unusable-store.ts';
import type { ClaimedDelivery } from './webhook-queue-store.ts';
import { attemptWebhook, type WebhookAttemptOptions } from './attempt.ts';
import type { AttemptOutcome } from './response.ts';
import type { Pace } from './endpoint-queue.ts';
import type { Settled } from '../../settle/unsettled.ts';
import { type SettledWebhook, WebhookOutcomes } from './webhook-outcomes.ts';

type WebhookSenderOptions = Omit<WebhookAttemptOptions, 'agents'> & {
  db: Queryable;
  log: Pick<Logger, 'info' | 'warn' | 'error'>;
  leaseId: () => string | null;
  isFresh: () => boolean;
  /** Never rejects. */
  release: (claims: readonly ClaimedDelivery[], delayMs: number) => Promise<void>;
};

export const QUICK_MS = 1_000;
const STOP_WITHIN_MS = 10_000;
/** How long `stop` retries outcomes that the database refused. */
const STOP_SETTLE_WITHIN_MS = 3_000;
const ERROR_DELAY_MS = 60_000;
/** Delay while the signing secret cannot be opened. Nothing is lost, and a new secret repairs the endpoint. */
const UNSIGNED_DELAY_MS = 60_000;
/** Delay until the next heartbeat shows which worker leases the delivery. */
const DOUBT_DELAY_MS = 2_000;

/** Retention removed the data of the event. */
const WITHOUT_EVENT: AttemptOutcome = {
  kind: 'failed',
  retryMs: null,
  suspendMs: 0,
  attempt: null,
};

export class WebhookSender {
  readonly counts: Record<SettledWebhook, number> = {
    delivered: 0,
    retried: 0,
    failed: 0,
    fenced: 0,
  };
  readonly running = new Set<ClaimedDelivery>();
  readonly #options: WebhookSenderOptions;
  readonly #agents: HttpAgents = createHttpAgents();
  readonly #outcomes: WebhookOutcomes;
  #hasStopped = false;
  #resolveIdle: (() => void) | undefined;

  constructor(options: WebhookSenderOptions) {
    this.#options = options;
    // Deliveries that stop() released are neither settled nor awaited.
    const leaseId = (): string | null => (this.#hasStopped ? null : options.leaseId());
    this.#outcomes = new WebhookOutcomes(options.db, {
      ...options,
      leaseId,
      onSettled: (_, settled) => (this.counts[settled] += 1),
    });
  }

  /** True while the database refuses outcomes, so nothing may be sent. */
  get mustWait(): boolean {
    return this.#outcomes.mustWait;
  }

  /** Yields all deliveries leased to this worker, including those whose outcome is not stored yet. */
  *leased(): Iterable<Pick<ClaimedDelivery, 'endpointId' | 'eventId'>> {
    yield* this.running;
    yield* this.#outcomes.kept();
  }

  get keptCount(): number {
    return this.#outcomes.keptCount;
  }

  /** Never rejects. The delivery ends settled, released, or reclaimed by another worker. */
  async send(claimed: ClaimedDelivery): Promise<Pace> {
    this.running.add(claimed);
    const pace = await this.#attempt(claimed);
    this.running.delete(claimed);
    if (this.running.size === 0) this.#resolveIdle?.();
    return pace;
  }

  /** Waits 10 s for running deliveries, then releases them. */
  async stop(): Promise<void> {
    const idle = new Promise<void>((resolve) => (this.#resolveIdle = resolve));
    if (this.running.size > 0) await waitAtMost(STOP_WITHIN_MS, idle);
    await this.#options.release([...this.running], 0);
    await this.#outcomes.stop(STOP_SETTLE_WITHIN_MS);
    this.#hasStopped = true;
    await this.#agents.close();
  }

  async #attempt(claimed: ClaimedDelivery): Promise<Pace> {
    try {
      const outcome = await this.#post(claimed);
      if (outcome === null) {
        await this.#options.release([claimed], DOUBT_DELAY_MS);
        return 'slow';
      }
      const settled = await this.#outcomes.settle({ ...claimed, ...outcome });
      this.#log(claimed, outcome, settled);
      return paceOf(outcome);
    } catch (error) {
      await this.#releaseAfterError(claimed, error);
      return 'failed';
    }
  }

  async #releaseAfterError(claimed: ClaimedDelivery, error: unknown): Promise<void> {
    const { projectId, endpointId, eventId } = claimed;
    const { log, release } = this.#options;
    if (error instanceof SecretUnopenable) {
      await markAndLogUnusable(this.#options, {
        kind: 'webhook',
        ownerId: projectId,
        id: endpointId,
      });
      return release([claimed], UNSIGNED_DELAY_MS);
    }
    const logFields = { err: error, endpoint_id: endpointId, event_id: eventId };
    log.error(
      logFields,
      'this worker could not finish a webhook delivery; it tries again in a minute',
    );
    return release([claimed], ERROR_DELAY_MS);
  }

  /** Returns null when nothing was sent, because another worker may have reclaimed the delivery. */
  async #post(claimed: ClaimedDelivery): Promise<AttemptOutcome | null> {
    const { type, createdAt, data } = claimed;
    if (type === null || createdAt === null || data === null) return WITHOUT_EVENT;
    failpoint('webhook_before_post');
    if (!this.#options.isFresh() || this.#options.leaseId() !== claimed.leaseId) return null;
    const options = { ...this.#options, agents: this.#agents };
    const outcome = await attemptWebhook(options, {
      ...claimed,
      event: { type, createdAt, data },
      traceparent: isTracing() ? await this.#traceparentOf(claimed, data) : null,
    });
    failpoint('webhook_after_post');
    return outcome;
  }

  async #traceparentOf({ projectId }: ClaimedDelivery, data: string): Promise<string | null> {
    const { email_id: emailId } = JSON.parse(data) as { email_id?: string };
    if (emailId === undefined) return null;
    return findTraceparent(this.#options.db, { projectId, emailId });
  }

  #log(
    claimed: ClaimedDelivery,
    { attempt }: AttemptOutcome,
    settled: Settled<SettledWebhook>,
  ): void {
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

function paceOf({ kind, attempt }: AttemptOutcome): Pace {
  if (kind !== 'delivered') return 'failed';
  return (attempt?.latency_ms ?? 0) < QUICK_MS ? 'quick' : 'slow';
}
