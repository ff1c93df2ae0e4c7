/**
 * Settles the outcomes of webhooks (group commit and fencing are in `settle/outcome-batches.ts`).
 *
 * A success ends a delivery. After a failure it is due again, or it ends when its retries are used up or the endpoint
 * is disabled. The health of an endpoint is decided without a lock: this file reads it, `webhooks/health.ts` decides,
 * and the decision is stored only if the endpoint has not changed. Otherwise both steps are repeated. The random pause
 * before each repetition grows, so that workers with outcomes of one endpoint do not collide again.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import { OutcomeBatches } from '../../settle/outcome-batches.ts';
import type { Queryable } from '../../database/database.ts';
import type { Extent } from '../../settle/unsettled.ts';
import { readHealth, settleWebhooks, type WebhookSettlement } from './queue-store.ts';
import { nextHealth, type Tally } from '../health.ts';

export type WebhookOutcome = Omit<WebhookSettlement, 'status'> & {
  /** `gone` means that the endpoint refuses all further webhooks (410). */
  meaning: 'delivered' | 'failed' | 'gone';
  /** Milliseconds until the next attempt; null after the last one. */
  retryMs: number | null;
  /** Milliseconds for which the endpoint asked for no requests. */
  suspendMs: number;
};

/** `fenced`: nothing was stored, because this worker no longer leases the delivery. */
export type SettledWebhook = 'delivered' | 'failed' | 'retried' | 'fenced';

const OUTCOME_BYTES = 6_000;
/** Collects outcomes for this time: larger batches make settling and the next claim cheaper for each row. */
const SETTLE_PACE_MS = 10;
const ROUNDS_MAX = 100;
/** Milliseconds between two rounds. Longer than a write takes. */
const PAUSE_MAX_MS = 64;

type WebhookOutcomesOptions = {
  holder: () => string | null;
  onSettled: (outcome: WebhookOutcome, settled: SettledWebhook) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

export class WebhookOutcomes extends OutcomeBatches<WebhookOutcome, SettledWebhook> {
  constructor(db: Queryable, options: WebhookOutcomesOptions) {
    super({
      ...options,
      fencedResult: 'fenced',
      write: (batch, { holder }) => commit(db, batch, { holder, world: options.world }),
      shorten,
      describe: ({ endpointId, eventId, meaning }) => ({
        endpoint_id: endpointId,
        event_id: eventId,
        meaning,
      }),
      lockKeyOf: ({ endpointId }) => endpointId,
      itemBytes: OUTCOME_BYTES,
      paceMs: SETTLE_PACE_MS,
    });
  }
}

function shorten(outcome: WebhookOutcome, extent: Extent): WebhookOutcome {
  if (outcome.attempt === null) return outcome;
  const attempt = { ...outcome.attempt, answer: null, error: null };
  return { ...outcome, attempt: extent === 'bare' ? null : attempt };
}

type Writing = { holder: string; world: Pick<World, 'random'> };

async function commit(
  db: Queryable,
  batch: readonly WebhookOutcome[],
  writing: Writing,
): Promise<SettledWebhook[]> {
  failpoint('webhook_before_commit');
  const statuses = await write(db, batch, writing);
  failpoint('webhook_after_commit');
  return batch.map((outcome) => {
    const status = statuses.get(outcome);
    return status === 'pending' ? 'retried' : (status ?? 'fenced');
  });
}

/**
 * Stores the outcomes whose deliveries are leased, in one commit. Repeats when another worker changed something
 * between the read and the write.
 */
async function write(
  db: Queryable,
  outcomes: readonly WebhookOutcome[],
  writing: Writing,
  round = 0,
): Promise<Map<WebhookOutcome, WebhookSettlement['status']>> {
  if (outcomes.length === 0) return new Map();
  if (round === ROUNDS_MAX)
    throw new Error('webhook endpoints have changed each time before a commit');
  const byEndpoint = Map.groupBy(outcomes, ({ endpointId }) => endpointId);
  const endpoints = [...byEndpoint.values()].map(([first]) => first!);
  // A success changes nothing at a healthy endpoint, which is the frequent case. The statement checks the assumption.
  const assumesHealthy = round === 0 && outcomes.every(({ meaning }) => meaning === 'delivered');
  const facts = assumesHealthy ? [] : await readHealth(db, endpoints);
  const health = facts.flatMap((endpoint) => {
    const tally = tallyOf(byEndpoint.get(endpoint.endpointId)!);
    const next = tally && nextHealth(endpoint, tally);
    return next === null ? [] : [{ ...endpoint, ...next }];
  });
  const isOpen = new Set(facts.filter(({ status }) => status === 'enabled').map(idOf));
  for (const one of health) if (one.disabledReason !== null) isOpen.delete(idOf(one));
  const settlements = outcomes.map((one) => ({ ...one, status: statusOf(one, isOpen) }));
  const { leased, isStored } = await settleWebhooks(db, settlements, {
    holder: writing.holder,
    health,
    assumesHealthy,
  });
  if (isStored) return new Map(outcomes.map((one, ord) => [one, settlements[ord]!.status]));
  const left = outcomes.filter((_, ord) => leased.has(ord));
  const hasChanged = !assumesHealthy && left.length === outcomes.length;
  if (hasChanged) await pause(writing.world.random() * Math.min(PAUSE_MAX_MS, 2 ** round));
  return write(db, left, writing, round + 1);
}

const idOf = ({ endpointId }: { endpointId: string }): string => endpointId;

/** Returns null for outcomes without an attempt, which have no information about the endpoint. */
function tallyOf(outcomes: readonly WebhookOutcome[]): Tally | null {
  const attempted = outcomes.filter(({ attempt }) => attempt !== null);
  if (attempted.length === 0) return null;
  const failed = attempted.filter(({ meaning }) => meaning !== 'delivered');
  return {
    hasSucceeded: failed.length < attempted.length,
    failures: failed.length,
    isGone: failed.some(({ meaning }) => meaning === 'gone'),
    suspendMs: Math.max(0, ...failed.map(({ suspendMs }) => suspendMs)),
    attempt: Math.max(0, ...failed.map(({ attempts }) => attempts + 1)),
  };
}

/** A failed delivery ends after its last attempt, or when its endpoint is disabled. */
function statusOf(
  { meaning, retryMs, endpointId }: WebhookOutcome,
  isOpen: ReadonlySet<string>,
): WebhookSettlement['status'] {
  if (meaning === 'delivered') return 'delivered';
  return retryMs === null || !isOpen.has(endpointId) ? 'failed' : 'pending';
}
