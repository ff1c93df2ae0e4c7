/**
 * Settles deliveries of mail: group commits of outcomes, each on one of two paths. outcome-batches.ts contains group
 * commit and fencing.
 *
 * A short statement (settle-fast-path.ts) stores most outcomes, in a separate commit. The full path
 * (settle-full-path.ts) stores the others and those that the fast path skips. Both queue webhook deliveries.
 * `onWebhooksQueued` is called after such a commit: service/worker/server.ts connects it to `webhooks.wake()`
 * (webhooks/sending/loop.ts).
 */
import type { Logger } from 'pino';
import { failpoint } from '../lib/failpoint.ts';
import type { World } from '../lib/world.ts';
import type { Queryable } from '../database/database.ts';
import { OutcomeBatches, type CommitContext } from './outcome-batches.ts';
import { fastOutcomesOf, storeFast } from './settle-fast-path.ts';
import { storeFull } from './settle-full-path.ts';
import type { Settlement } from './settlement.ts';
import type { Extent } from './unsettled.ts';

type SettleStoreOptions = {
  leaseId: () => string | null;
  /** Called after a commit that queued webhook deliveries. */
  onWebhooksQueued: () => void;
  onSettled?: (settlement: Settlement) => void;
  onFailure?: (sqlState: string) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

/** A rough size: 64 outcomes always fit a batch. */
const OUTCOME_BYTES_ESTIMATE = 2_000;
/** Outcomes wait up to this long for a batch. If the process dies meanwhile, their mail is sent again. */
const SETTLE_PACE_MS = 25;

/** `fenced`: the outcome did not count, because another worker has claimed the recipient. */
export type SettledMail = 'counted' | 'fenced';

export class SettleStore extends OutcomeBatches<Settlement, SettledMail> {
  constructor(db: Queryable, options: SettleStoreOptions) {
    const { onWebhooksQueued, onSettled } = options;
    super({
      ...options,
      fencedResult: 'fenced',
      commitFull: async (batch, context) => {
        const counted = await commitFull(db, batch, { ...context, onWebhooksQueued });
        return counted.map((counts) => (counts ? 'counted' : 'fenced'));
      },
      commitFast: (batch, leaseId) => commitFast(db, batch, { leaseId, onWebhooksQueued }),
      shorten: shortenSettlement,
      describe: ({ emailId, position, status }) => ({ email_id: emailId, position, status }),
      lockKeyOf: ({ emailId }) => emailId,
      onSettled: (settlement, result) => result === 'counted' && onSettled?.(settlement),
      exclusiveKey: ({ emailId, position }) => `${emailId} ${position}`,
      itemBytes: OUTCOME_BYTES_ESTIMATE,
      paceMs: SETTLE_PACE_MS,
    });
  }
}

/** Removes text of remote servers. `bare` also sends no webhooks and suppresses no address. */
function shortenSettlement(one: Settlement, extent: Exclude<Extent, 'all'>): Settlement {
  const { reason: _reason, smtp: _smtp, ...data } = one.data as Record<string, unknown>;
  const { number } = (one.attempt ?? {}) as { number?: number };
  return {
    ...one,
    data,
    attempt: one.attempt && { number, transcript: [] },
    smtp: null,
    reason: null,
    suppress: extent === 'bare' ? null : one.suppress,
    ...(one.notice && {
      notice: { ...one.notice, facts: { ...one.notice.facts, diagnostic: null, advice: null } },
    }),
  };
}

/**
 * A mixed batch runs both statements, so the fast path pays off only from this many outcomes. A batch that is all for
 * the fast path may be smaller.
 */
const FAST_PATH_MIN = 32;

/** Stores the outcomes that the fast path takes, if there are enough of them. */
async function commitFast(
  db: Queryable,
  batch: readonly Settlement[],
  { leaseId, onWebhooksQueued }: { leaseId: string; onWebhooksQueued: () => void },
): Promise<ReadonlyMap<Settlement, SettledMail>> {
  const fast = fastOutcomesOf(batch);
  if (fast.length < Math.min(batch.length, FAST_PATH_MIN)) return new Map();
  const { stored } = await commitAndReport(() => storeFast(db, fast, leaseId), onWebhooksQueued);
  return new Map(stored.map((one) => [one, 'counted']));
}

/** Stores a batch in one transaction. @returns which outcomes counted */
export async function commitFull(
  db: Queryable,
  batch: readonly Settlement[],
  { leaseId, onWebhooksQueued, extent }: CommitContext & { onWebhooksQueued: () => void },
): Promise<boolean[]> {
  const { counted } = await commitAndReport(
    () => storeFull(db, batch, { leaseId, extent }),
    onWebhooksQueued,
  );
  return counted;
}

async function commitAndReport<T extends { queuedWebhooks: number }>(
  run: () => Promise<T>,
  onWebhooksQueued: () => void,
): Promise<T> {
  failpoint('settle_before_commit');
  const done = await run();
  failpoint('settle_after_commit');
  if (done.queuedWebhooks > 0) onWebhooksQueued();
  return done;
}
