/**
 * Group commit of outcomes: status, event, webhook deliveries, retry or suppression of many
 * recipients in one transaction.
 *
 * Promise: an outcome that was handed in here is written exactly once, or was fenced off because
 * somebody else holds the recipient now. While the database is away it waits and tries again, and
 * what the database refuses is kept (unsettled.ts): what a mail server answered must not be forgotten,
 * whatever the reason. Repeating is safe, the second time is fenced. What waits here a crash forgets,
 * and its mail is sent again: `flow` says when to begin no more of it.
 */
import type { Logger } from 'pino';
import { failpoint } from '../core/failpoint.ts';
import type { EventType } from '../core/events.ts';
import { type StoredStatus, STATUS_RANK, isFinal } from '../core/statuses.ts';
import type { World } from '../core/world.ts';
import type { Environment } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import { DatabaseUnavailable, isLockTimeout, type Queryable } from './postgres/database.ts';
import { Flow } from './flow.ts';
import { GroupCommit } from './postgres/group-commit.ts';
import { SETTLE_BATCH, SETTLE_BATCH_BARE } from './settle-statement.ts';
import { type Extent, Unsettled } from './unsettled.ts';

export type Settlement = {
  projectId: string;
  environment: Environment;
  emailId: string;
  /** Whose reputation it is about: the domain of the From address. */
  senderDomain: string;
  position: number;
  claim: number;
  status: StoredStatus;
  eventId: string;
  eventType: EventType;
  /** `data` of the event, as webhooks get it. */
  data: object;
  /** What the timeline shows of the attempt; null when nothing was attempted. */
  attempt: object | null;
  smtp: object | null;
  reason: object | null;
  /** Wait before the next attempt, for `deferred`. */
  retryMs: number | null;
  /** Whose turn it shares the next time. */
  provider: string;
  /** Puts the address on the suppression list; `days` null: for ever. */
  suppress: {
    address: string;
    reason: 'hard_bounce' | 'complaint';
    days: number | null;
    eventId: string;
  } | null;
  /** About a recipient that has ended already: news that came back after delivery. */
  late: boolean;
};

/**
 * true: counted. false: fenced off, somebody else holds the recipient now. `kept`: the database refuses
 * it; it is written later, and until then the recipient stays with this worker.
 */
export type Settled = boolean | 'kept';

export type SettleStoreOptions = {
  holder: () => string | null;
  /** Webhook deliveries were queued. */
  onTold: () => void;
  /** Told of each outcome that counted, once it is written. */
  onSettled?: (settlement: Settlement) => void;
  /** The database refused one, with this SQLSTATE. */
  onFailure?: (sqlState: string) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

const UNAVAILABLE_PAUSE_MS = 500;
/** A rough size; outcomes are small and 64 of them always fit a batch. */
const OUTCOME_BYTES = 2_000;
/** Nobody waits for it; a crash repeats what was sent in so long, as it does during a commit. */
const SETTLE_PACE_MS = 15;

export class SettleStore {
  readonly flow = new Flow();
  readonly #commits: GroupCommit<Settlement, Settled>;
  readonly #unsettled: Unsettled<Settlement, boolean>;

  constructor(db: Queryable, options: SettleStoreOptions) {
    const { log, world, onFailure, onSettled } = options;
    this.#unsettled = new Unsettled({
      write: (batch, extent) => {
        const shortened = extent === 'all' ? batch : batch.map((one) => shorter(one, extent));
        return commitPatiently(db, shortened, { ...options, extent, flow: this.flow });
      },
      describe: ({ emailId, position, status }) => ({ emailId, position, status }),
      lockOf: ({ emailId }) => emailId,
      onSettled: (settlement, counts) => counts && onSettled?.(settlement),
      onChange: () => this.#showFlow(),
      ...(onFailure && { onFailure }),
      log,
      world,
    });
    this.#commits = new GroupCommit({
      commit: async (batch) => {
        this.flow.begun();
        const settled = await this.#unsettled.settle(batch);
        this.#showFlow();
        if (onSettled) batch.forEach((one, index) => settled[index] === true && onSettled(one));
        return settled;
      },
      sizeBytes: () => OUTCOME_BYTES,
      mayTryOneByOne: () => false,
      exclusiveKey: (one) => `${one.emailId} ${one.position}`,
      paceMs: SETTLE_PACE_MS,
    });
  }

  /** Never rejects for what the database says: see `Settled`. */
  settle(settlement: Settlement): Promise<Settled> {
    return this.#commits.add(settlement);
  }

  /** Outcomes are refused and kept: nothing is to be begun that needs another one written. */
  get isBlocked(): boolean {
    return this.#unsettled.isBlocked;
  }

  /** What is kept; its recipients are with this worker although nothing is done for them. */
  kept(): Iterable<Settlement> {
    return this.#unsettled.items();
  }

  get keptCount(): number {
    return this.#unsettled.size;
  }

  /** Tries what is kept for so long, and says what is left. */
  stop(withinMs: number): Promise<void> {
    return this.#unsettled.stop(withinMs);
  }

  #showFlow(): void {
    if (this.#unsettled.isBlocked) this.flow.failed();
    else this.flow.through();
  }
}

/** Without what strangers wrote; the bare one tells no webhooks and suppresses nobody either. */
function shorter(one: Settlement, extent: Exclude<Extent, 'all'>): Settlement {
  const { reason: _reason, smtp: _smtp, ...data } = one.data as Record<string, unknown>;
  const { number } = (one.attempt ?? {}) as { number?: number };
  return {
    ...one,
    data,
    attempt: one.attempt && { number, transcript: [] },
    smtp: null,
    reason: null,
    suppress: extent === 'bare' ? null : one.suppress,
  };
}

type Committing = Pick<SettleStoreOptions, 'holder' | 'onTold'> & { extent: Extent; flow: Flow };

async function commitPatiently(
  db: Queryable,
  batch: readonly Settlement[],
  { holder: present, onTold, extent, flow }: Committing,
): Promise<boolean[]> {
  for (;;) {
    const holder = present();
    // The lease was lost: everything it held belongs to others now.
    if (holder === null) return batch.map(() => false);
    try {
      return await settleBatch(db, batch, { holder, onTold, extent });
    } catch (error) {
      // Who waits for one locked row in vain tries the others without it.
      if (!(error instanceof DatabaseUnavailable) || isLockTimeout(error)) throw error;
      flow.stuck();
      await new Promise((resolve) => setTimeout(resolve, UNAVAILABLE_PAUSE_MS));
    }
  }
}

/** Writes a batch at once or not at all. @returns which outcomes counted */
export async function settleBatch(
  db: Queryable,
  batch: readonly Settlement[],
  { holder, onTold, extent }: { holder: string; onTold: () => void; extent: Extent },
): Promise<boolean[]> {
  failpoint('settle_before_commit');
  const statement =
    extent === 'bare'
      ? { name: 'settle_bare', text: SETTLE_BATCH_BARE }
      : { name: 'settle', text: SETTLE_BATCH };
  const rows = await db.query<{ emailId: string; position: number; told: number }>(statement, [
    JSON.stringify(batch.map(settlementInput)),
    batch.map((one) => one.emailId),
    holder,
  ]);
  failpoint('settle_after_commit');
  if ((rows[0]?.told ?? 0) > 0) onTold();
  const counted = new Set(rows.map((row) => `${row.emailId} ${row.position}`));
  return batch.map((one) => counted.has(`${one.emailId} ${one.position}`));
}

/** As the settle statement takes it. */
export function settlementInput(one: Settlement): object {
  return {
    project_id: one.projectId,
    environment: one.environment,
    email_id: one.emailId,
    position: one.position,
    claim: one.claim,
    status: one.status,
    rank: isFinal(one.status) ? STATUS_RANK[one.status] : null,
    event_id: one.eventId,
    type: one.eventType,
    data: one.data,
    attempt: one.attempt,
    smtp: one.smtp,
    reason: one.reason,
    retry_ms: one.retryMs,
    provider: one.provider,
    counts_attempt: one.attempt !== null && !one.late,
    late: one.late,
    suppress_key: one.suppress && addressKey(one.suppress.address),
    suppress_address: one.suppress?.address ?? null,
    suppress_reason: one.suppress?.reason ?? null,
    suppress_days: one.suppress?.days ?? null,
    suppress_event_id: one.suppress?.eventId ?? null,
  };
}
