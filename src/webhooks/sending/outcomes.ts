/**
 * Settles the outcomes of webhooks (settle/outcomes.ts: group commit and fencing).
 *
 * Success ends a delivery. A failure makes it due again after its delay, or ends it when there is no delay or the
 * endpoint is disabled. What the attempts mean for an endpoint is decided here, without a lock: its health is read,
 * webhooks/health.ts decides, and the decision is written if the endpoint has not changed meanwhile; otherwise both are
 * repeated, after a random pause that grows, so that workers with outcomes of one endpoint do not collide again.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { failpoint } from '../../lib/failpoint.ts';
import type { World } from '../../lib/world.ts';
import { OutcomeStore } from '../../settle/outcomes.ts';
import type { Queryable } from '../../database/database.ts';
import type { Extent } from '../../settle/unsettled.ts';
import { readHealth, settleWebhooks, type WebhookSettlement } from './queue-store.ts';
import { nextHealth, type Tally } from '../health.ts';

export type WebhookOutcome = Omit<WebhookSettlement, 'status'> & {
  /** `gone`: the endpoint refuses all further webhooks (410). */
  verdict: 'delivered' | 'failed' | 'gone';
  /** Wait before the next attempt; null: this was the last. */
  retryMs: number | null;
  /** How long the endpoint requested no further requests at all. */
  restMs: number;
};

/** The result of an outcome; `fenced`: not written, because the delivery is not leased to this worker any more. */
export type SettledWebhook = 'delivered' | 'failed' | 'retried' | 'fenced';

/** An approximate size: the outcome and up to 4 KB of response. */
const OUTCOME_BYTES = 6_000;
/** Outcomes settled together lead to joint claims: both statements then have more rows per fixed cost. */
const SETTLE_PACE_MS = 10;
const ROUNDS_MAX = 100;
/** Between two rounds: longer than a write takes. */
const PAUSE_MAX_MS = 64;

type WebhookOutcomesOptions = {
  holder: () => string | null;
  onSettled: (outcome: WebhookOutcome, settled: SettledWebhook) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

export class WebhookOutcomes extends OutcomeStore<WebhookOutcome, SettledWebhook> {
  constructor(db: Queryable, options: WebhookOutcomesOptions) {
    super({
      ...options,
      fenced: 'fenced',
      write: (batch, { holder }) => commit(db, batch, { holder, world: options.world }),
      shorter,
      describe: ({ endpointId, eventId, verdict }) => ({
        endpoint_id: endpointId,
        event_id: eventId,
        verdict,
      }),
      lockOf: ({ endpointId }) => endpointId,
      itemBytes: OUTCOME_BYTES,
      paceMs: SETTLE_PACE_MS,
    });
  }
}

/** Without the response of the receiver; `bare` also without the attempt. */
function shorter(outcome: WebhookOutcome, extent: Extent): WebhookOutcome {
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
 * Writes the outcomes whose deliveries are leased, in one commit. Repeated as long as something changes between
 * reading and writing, which is then the progress of another worker.
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
  // Successes change nothing at endpoints that are not failing, which is nearly always so: the statement checks it.
  const assumesHealthy = round === 0 && outcomes.every(({ verdict }) => verdict === 'delivered');
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

/** An outcome without an attempt says nothing about its endpoint. */
function tallyOf(outcomes: readonly WebhookOutcome[]): Tally | null {
  const attempted = outcomes.filter(({ attempt }) => attempt !== null);
  if (attempted.length === 0) return null;
  const failed = attempted.filter(({ verdict }) => verdict !== 'delivered');
  return {
    hasSucceeded: failed.length < attempted.length,
    failures: failed.length,
    isGone: failed.some(({ verdict }) => verdict === 'gone'),
    restMs: Math.max(0, ...failed.map(({ restMs }) => restMs)),
    attempt: Math.max(0, ...failed.map(({ attempts }) => attempts + 1)),
  };
}

/** A failed delivery ends without a further attempt, or when its endpoint takes no more. */
function statusOf(
  { verdict, retryMs, endpointId }: WebhookOutcome,
  isOpen: ReadonlySet<string>,
): WebhookSettlement['status'] {
  if (verdict === 'delivered') return 'delivered';
  return retryMs === null || !isOpen.has(endpointId) ? 'failed' : 'pending';
}
