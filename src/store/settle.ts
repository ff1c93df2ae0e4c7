/**
 * Group commit of outcomes: status, event, webhook deliveries, retry or suppression of many
 * recipients in one transaction.
 *
 * Promise: an outcome that was handed in here is written exactly once, or was fenced off because
 * somebody else holds the recipient now. While the database is away it waits and tries again: what
 * a mail server answered must not be forgotten. Repeating is safe, the second time is fenced. What
 * waits here a crash forgets, and its mail is sent again: `flow` says when to begin no more of it.
 * Next: settle-statement.ts, then webhooks/loop.ts tells of it.
 */
import { failpoint } from '../core/failpoint.ts';
import type { EventType } from '../core/events.ts';
import { type StoredStatus, STATUS_RANK, isFinal } from '../core/statuses.ts';
import type { Environment } from '../core/scope.ts';
import { addressKey } from '../mail/address.ts';
import { DatabaseUnavailable, type Queryable } from './database.ts';
import { Flow } from './flow.ts';
import { GroupCommit } from './group-commit.ts';
import { SETTLE_BATCH } from './settle-statement.ts';

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
  lane: string;
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

/** true: counted. false: fenced off, somebody else holds the recipient now. */
export type Settled = boolean;

const UNAVAILABLE_PAUSE_MS = 500;
/** A rough size; outcomes are small and 64 of them always fit a batch. */
const OUTCOME_BYTES = 2_000;
/** Nobody waits for it; a crash repeats what was sent in so long, as it does during a commit. */
const SETTLE_PACE_MS = 15;

export class SettleStore {
  readonly flow = new Flow();
  readonly #commits: GroupCommit<Settlement, Settled>;

  constructor(
    db: Queryable,
    options: {
      holder: () => string | null;
      /** Webhook deliveries were queued. */
      onTold: () => void;
      /** Told of each outcome that counted, once it is written. */
      onSettled?: (settlement: Settlement) => void;
    },
  ) {
    this.#commits = new GroupCommit({
      commit: (batch) => {
        this.flow.begun();
        const committing = { ...options, flow: this.flow };
        return commitPatiently(db, batch, committing).finally(() => this.flow.through());
      },
      sizeBytes: () => OUTCOME_BYTES,
      mayTryOneByOne: () => true,
      exclusiveKey: (one) => `${one.emailId} ${one.position}`,
      paceMs: SETTLE_PACE_MS,
    });
  }

  settle(settlement: Settlement): Promise<Settled> {
    return this.#commits.add(settlement);
  }

  get pending(): number {
    return this.#commits.pendingItems;
  }
}

type Committing = {
  holder: () => string | null;
  onTold: () => void;
  onSettled?: (settlement: Settlement) => void;
  flow: Flow;
};

async function commitPatiently(
  db: Queryable,
  batch: readonly Settlement[],
  { holder: present, onTold, onSettled, flow }: Committing,
): Promise<Settled[]> {
  for (;;) {
    const holder = present();
    // The lease was lost: everything it held belongs to others now.
    if (holder === null) return batch.map(() => false);
    try {
      const settled = await commit(db, batch, { holder, onTold });
      if (onSettled) batch.forEach((one, index) => settled[index] && onSettled(one));
      return settled;
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error;
      flow.stuck();
      await new Promise((resolve) => setTimeout(resolve, UNAVAILABLE_PAUSE_MS));
    }
  }
}

async function commit(
  db: Queryable,
  batch: readonly Settlement[],
  { holder, onTold }: { holder: string; onTold: () => void },
): Promise<Settled[]> {
  failpoint('settle_before_commit');
  const rows = await db.query<{ emailId: string; position: number; told: number }>(
    { name: 'settle', text: SETTLE_BATCH },
    [JSON.stringify(batch.map(settlementInput)), batch.map((one) => one.emailId), holder],
  );
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
    lane: one.lane,
    counts_attempt: one.attempt !== null && !one.late,
    late: one.late,
    suppress_key: one.suppress && addressKey(one.suppress.address),
    suppress_address: one.suppress?.address ?? null,
    suppress_reason: one.suppress?.reason ?? null,
    suppress_days: one.suppress?.days ?? null,
    suppress_event_id: one.suppress?.eventId ?? null,
  };
}
