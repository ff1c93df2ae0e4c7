/**
 * Settles the outcomes of webhooks (group commit and fencing are in settle/outcome-batches.ts).
 *
 * A success ends a delivery. After a failure it is due again, or it ends when its retries are used up or the endpoint
 * is disabled. The health of an endpoint is decided without a lock: this file reads it, webhooks/endpoint-health.ts
 * decides, and the decision is stored only if the endpoint has not changed. Otherwise both steps are repeated. The
 * random pause before each repetition grows, so that workers with outcomes of one endpoint do not collide again.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import { OutcomeBatches } from '../../settle/outcome-batches.ts';
import type { Queryable } from '../../database/database.ts';
import type { Extent } from '../../settle/unsettled.ts';
import {
  type DecidedHealth,
  readHealth,
  settleWebhooks,
  type WebhookSettlement,
} from './webhook-queue-store.ts';
import { nextHealth, type AttemptTally } from '../endpoint-health.ts';

export type WebhookOutcome = Omit<WebhookSettlement, 'status'> & {
  /** `gone` means that the endpoint refuses all further webhooks (410). */
  kind: 'delivered' | 'failed' | 'gone';
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
const WRITE_ROUNDS_MAX = 100;
/** Milliseconds between two rounds. Longer than a write takes. */
const ROUND_PAUSE_MAX_MS = 64;

type WebhookOutcomesOptions = {
  leaseId: () => string | null;
  onSettled: (outcome: WebhookOutcome, settled: SettledWebhook) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

export class WebhookOutcomes extends OutcomeBatches<WebhookOutcome, SettledWebhook> {
  constructor(db: Queryable, options: WebhookOutcomesOptions) {
    super({
      ...options,
      fencedResult: 'fenced',
      commitFull: (batch, { leaseId }) =>
        commitOutcomes(db, batch, { leaseId, world: options.world }),
      shorten,
      describe: ({ endpointId, eventId, kind }) => ({
        endpoint_id: endpointId,
        event_id: eventId,
        outcome: kind,
      }),
      lockKeyOf: ({ endpointId }) => endpointId,
      itemBytes: OUTCOME_BYTES,
      paceMs: SETTLE_PACE_MS,
    });
  }
}

/** Removes texts of the response, or with `bare` the whole attempt, from an outcome that cannot be stored. */
function shorten(outcome: WebhookOutcome, extent: Extent): WebhookOutcome {
  if (outcome.attempt === null) return outcome;
  const attempt = { ...outcome.attempt, answer: null, error: null };
  return { ...outcome, attempt: extent === 'bare' ? null : attempt };
}

type StoreContext = { leaseId: string; world: Pick<World, 'random'> };

async function commitOutcomes(
  db: Queryable,
  batch: readonly WebhookOutcome[],
  context: StoreContext,
): Promise<SettledWebhook[]> {
  failpoint('webhook_before_commit');
  const statuses = await storeOutcomes(db, batch, context);
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
async function storeOutcomes(
  db: Queryable,
  outcomes: readonly WebhookOutcome[],
  context: StoreContext,
  round = 0,
): Promise<Map<WebhookOutcome, WebhookSettlement['status']>> {
  if (outcomes.length === 0) return new Map();
  if (round === WRITE_ROUNDS_MAX)
    throw new Error('webhook endpoints have changed each time before a commit');
  // A success changes nothing at a healthy endpoint, which is the frequent case. The statement checks the assumption.
  const assumesHealthy = round === 0 && outcomes.every(({ kind }) => kind === 'delivered');
  const { health, enabledIds } = assumesHealthy
    ? { health: [], enabledIds: new Set<string>() }
    : await decideHealth(db, outcomes);
  const settlements = outcomes.map((outcome) => ({
    ...outcome,
    status: statusOf(outcome, enabledIds),
  }));
  const { leased, isStored } = await settleWebhooks(db, settlements, {
    leaseId: context.leaseId,
    health,
    assumesHealthy,
  });
  if (isStored) {
    return new Map(outcomes.map((outcome, index) => [outcome, settlements[index]!.status]));
  }
  const remaining = outcomes.filter((_, index) => leased.has(index));
  const hasChanged = !assumesHealthy && remaining.length === outcomes.length;
  if (hasChanged) await pause(context.world.random() * Math.min(ROUND_PAUSE_MAX_MS, 2 ** round));
  return storeOutcomes(db, remaining, context, round + 1);
}

type HealthDecision = {
  health: DecidedHealth[];
  /** Endpoints that are enabled before and after the decision. */
  enabledIds: ReadonlySet<string>;
};

/** Reads the endpoints of the outcomes and decides their next health, without a lock. */
async function decideHealth(
  db: Queryable,
  outcomes: readonly WebhookOutcome[],
): Promise<HealthDecision> {
  const byEndpoint = Map.groupBy(outcomes, ({ endpointId }) => endpointId);
  const endpoints = await readHealth(
    db,
    [...byEndpoint.values()].map(([first]) => first!),
  );
  const health = endpoints.flatMap((endpoint) => {
    const ofEndpoint = byEndpoint.get(endpoint.endpointId)!;
    const tally = tallyOf(ofEndpoint);
    const next = tally && nextHealth(endpoint, tally);
    const lastFailure =
      ofEndpoint.findLast(({ kind, attempt }) => kind !== 'delivered' && attempt !== null)
        ?.attempt ?? null;
    return next === null ? [] : [{ ...endpoint, ...next, lastFailure }];
  });
  const enabled = endpoints.filter(({ status }) => status === 'enabled');
  const enabledIds = new Set(enabled.map(({ endpointId }) => endpointId));
  for (const { endpointId, disabledReason } of health) {
    if (disabledReason !== null) enabledIds.delete(endpointId);
  }
  return { health, enabledIds };
}

/** Returns null for outcomes without an attempt, which have no information about the endpoint. */
function tallyOf(outcomes: readonly WebhookOutcome[]): AttemptTally | null {
  const attempted = outcomes.filter(({ attempt }) => attempt !== null);
  if (attempted.length === 0) return null;
  const failed = attempted.filter(({ kind }) => kind !== 'delivered');
  return {
    hasSucceeded: failed.length < attempted.length,
    failures: failed.length,
    isGone: failed.some(({ kind }) => kind === 'gone'),
    suspendMs: Math.max(0, ...failed.map(({ suspendMs }) => suspendMs)),
    attempt: Math.max(0, ...failed.map(({ attempts }) => attempts + 1)),
  };
}

/** A failed delivery ends after its last attempt, or when its endpoint is disabled. */
function statusOf(
  { kind, retryMs, endpointId }: WebhookOutcome,
  enabledIds: ReadonlySet<string>,
): WebhookSettlement['status'] {
  if (kind === 'delivered') return 'delivered';
  return retryMs === null || !enabledIds.has(endpointId) ? 'failed' : 'pending';
}
