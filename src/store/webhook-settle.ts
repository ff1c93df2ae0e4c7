/**
 * Group commit of webhook outcomes: the delivery's log and status, its place in the queue and the
 * health of the endpoint, in one transaction.
 *
 * Promise: an outcome counts only while its queue row names this holder and this claim. Success ends
 * a delivery; a failure puts it back with its delay, or ends it when there is none, or when the
 * endpoint is disabled. 410 disables, and so do five days in which everything failed. An outcome that
 * the database refuses is kept and tried again (unsettled.ts): nothing is posted again because of it.
 */
import type { Logger } from 'pino';
import { failpoint } from '../core/failpoint.ts';
import type { World } from '../core/world.ts';
import { type Queryable, whenAvailable } from './postgres/database.ts';
import { GroupCommit } from './postgres/group-commit.ts';
import { type Extent, Unsettled } from './unsettled.ts';
import type { LoggedAttempt } from './webhook-deliveries.ts';
import { type ClaimedWebhook, TROUBLE_FAILURES } from './webhook-queue.ts';

export type WebhookOutcome = Pick<
  ClaimedWebhook,
  'projectId' | 'endpointId' | 'eventId' | 'claim'
> & {
  holder: string;
  /** `gone`: the endpoint wants no more of anything (410). */
  verdict: 'delivered' | 'failed' | 'gone';
  /** Wait before the next attempt; null: this was the last. */
  retryMs: number | null;
  /** The endpoint asked to be left in peace as a whole for so long. */
  restMs: number;
  /** Null when nothing was attempted: the event is no longer stored. */
  attempt: Omit<LoggedAttempt, 'at'> | null;
};

/** What became of it; `fenced`: nothing was written, somebody else holds it now. */
export type SettledWebhook = 'delivered' | 'failed' | 'retried' | 'fenced';

/**
 * Rests of an endpoint in trouble: 5 s after the fifth failure in a row, doubling to 5 minutes; a
 * success ends them. `blocked_until = now` rather than null tells the loops of all nodes.
 * A first attempt never disables: an endpoint that is told something once a month must not be
 * switched off by one hiccup after an old failure.
 * Endpoints are locked in one order, and only when their health changes: a healthy one is read.
 * The ids are named wherever rows are changed: however a join is planned, it starts from them.
 */
const SETTLE = `
with t as materialized (select app_now() as now),
input as materialized (
  select i.* from json_to_recordset($1::json) as i(
    project_id uuid, endpoint_id uuid, event_id uuid, claim int, holder uuid, verdict text,
    retry_ms float8, rest_ms float8, attempt jsonb)
),
held as materialized (
  select i.*, q.attempts + 1 as number
    from input i cross join lateral (
      select q.attempts from webhook_queue q
       where q.endpoint_id = i.endpoint_id and q.event_id = i.event_id
         and q.holder = i.holder and q.claim = i.claim for update) q
),
tally as materialized (
  select project_id, endpoint_id, bool_or(verdict = 'delivered') as works,
         bool_or(verdict = 'gone') as gone, max(rest_ms) * interval '1 millisecond' as rest,
         (count(*) filter (where verdict <> 'delivered'))::int as failures,
         max(number) filter (where verdict <> 'delivered') as number
    from held where attempt is not null group by 1, 2
),
endpoint as materialized (
  select e.* from webhook_endpoints e
   where (e.project_id, e.id) in (select project_id, endpoint_id from tally)
     and (e.failing_since is not null
          or e.id in (select endpoint_id from tally where failures > 0))
   order by e.id for update
),
health as materialized (
  select e.project_id, e.id, e.status, e.blocked_until, y.works, y.rest,
         case when y.works then 0 else e.failures + y.failures end as failures,
         case when not y.works then coalesce(e.failing_since, t.now) end as failing_since,
         case when e.status = 'disabled' then e.disabled_reason
              when y.gone then 'It answered 410 Gone: it wants no more webhooks.'
              when not y.works and y.number > 1 and e.failing_since <= t.now - interval '5 days'
              then 'Every attempt since ' || wire_time(e.failing_since) || ' failed.'
         end as disabled_reason
    from t, endpoint e join tally y on y.project_id = e.project_id and y.endpoint_id = e.id
),
judged as (
  update webhook_endpoints e
     set failures = h.failures, failing_since = h.failing_since,
         status = case when h.disabled_reason is null then e.status else 'disabled' end,
         disabled_reason = h.disabled_reason,
         blocked_until = case
           when h.disabled_reason is not null then t.now
           when h.works then case when h.blocked_until is not null then t.now end
           when h.failures >= ${TROUBLE_FAILURES} then t.now + greatest(h.rest,
             least(interval '5 s' * 2 ^ least(h.failures - ${TROUBLE_FAILURES}, 10), '5 minutes'))
           when h.rest > '0' then t.now + h.rest
           else h.blocked_until end
    from t, health h where e.project_id = h.project_id and e.id = h.id
),
ended as materialized (
  select h.*, case when h.verdict = 'delivered' then 'delivered'
                   when h.retry_ms is null or e.id is null or e.status = 'disabled'
                     or e.disabled_reason is not null then 'failed'
                   else 'pending' end as status
    from held h left join health e on e.project_id = h.project_id and e.id = h.endpoint_id
),
told as (
  update webhook_deliveries d
     set status = h.status, attempts = d.attempts + (h.attempt is not null)::int,
         completed_at = case when h.status <> 'pending' then t.now end,
         log = case when h.attempt is null then d.log
                    when jsonb_array_length(d.log) < 20 then d.log else d.log - 0 end
               || case when h.attempt is null then '[]' else jsonb_build_array(
                    jsonb_build_object('at', wire_time(
                      t.now - (h.attempt->'latency_ms')::float8 * interval '1 millisecond'))
                    || h.attempt) end
    from t, ended h
   where d.project_id = h.project_id and d.endpoint_id = h.endpoint_id
     and d.event_id = h.event_id and d.project_id = any($2::uuid[])
     and d.endpoint_id = any($3::uuid[]) and d.event_id = any($4::uuid[])
),
finished as (
  delete from webhook_queue q using ended h
   where q.endpoint_id = h.endpoint_id and q.event_id = h.event_id and h.status <> 'pending'
     and q.event_id = any($4::uuid[])
),
again as (
  update webhook_queue q
     set holder = null, attempts = h.number, due_at = t.now + h.retry_ms * interval '1 millisecond'
    from t, ended h
   where q.endpoint_id = h.endpoint_id and q.event_id = h.event_id and h.status = 'pending'
     and q.event_id = any($4::uuid[])
)
select endpoint_id as "endpointId", event_id as "eventId",
       case status when 'pending' then 'retried' else status end as settled
  from ended`;

const UNAVAILABLE_PAUSE_MS = 500;
/** A rough size: the outcome and up to 4 KB of answer. */
const OUTCOME_BYTES = 6_000;

export type WebhookSettleOptions = {
  /** The lease that outcomes are written under; when it changes, they are fenced. */
  holder: () => string | null;
  /** What became of an outcome that had been kept. */
  onSettled: (settled: SettledWebhook) => void;
  log: Pick<Logger, 'warn' | 'error'>;
  world: Pick<World, 'monotonicMs' | 'random'>;
};

export class WebhookSettleStore {
  readonly #commits: GroupCommit<WebhookOutcome, SettledWebhook | 'kept'>;
  readonly #unsettled: Unsettled<WebhookOutcome, SettledWebhook>;

  constructor(db: Queryable, { holder, onSettled, log, world }: WebhookSettleOptions) {
    this.#unsettled = new Unsettled({
      write: (batch, extent) => {
        const shortened = batch.map((outcome) => shorter(outcome, extent));
        return whenAvailable(() => commit(db, shortened, holder), {
          pauseMs: UNAVAILABLE_PAUSE_MS,
        });
      },
      describe: ({ endpointId, eventId, verdict }) => ({
        endpoint_id: endpointId,
        event_id: eventId,
        verdict,
      }),
      lockOf: ({ endpointId }) => endpointId,
      onSettled: (_, settled) => onSettled(settled),
      log,
      world,
    });
    this.#commits = new GroupCommit({
      commit: (batch) => this.#unsettled.settle(batch),
      sizeBytes: () => OUTCOME_BYTES,
      mayTryOneByOne: () => false,
    });
  }

  /**
   * Writes one outcome. While the database is away it waits: repeating is safe, it is fenced. `kept`:
   * the database refuses it, and it is written later.
   */
  settle(outcome: WebhookOutcome): Promise<SettledWebhook | 'kept'> {
    return this.#commits.add(outcome);
  }

  /** Outcomes are refused and kept: nothing is to be posted that needs another one written. */
  get isBlocked(): boolean {
    return this.#unsettled.isBlocked;
  }

  /** What is kept; it is with this worker although nothing is done for it. */
  kept(): Iterable<WebhookOutcome> {
    return this.#unsettled.items();
  }

  get keptCount(): number {
    return this.#unsettled.size;
  }

  /** Tries what is kept for so long, and says what is left. */
  stop(withinMs: number): Promise<void> {
    return this.#unsettled.stop(withinMs);
  }
}

/** Without what the receiver answered; the bare one not even says when. */
function shorter(outcome: WebhookOutcome, extent: Extent): WebhookOutcome {
  if (extent === 'all' || outcome.attempt === null) return outcome;
  const attempt = { ...outcome.attempt, answer: null, error: null };
  return { ...outcome, attempt: extent === 'bare' ? null : attempt };
}

async function commit(
  db: Queryable,
  batch: readonly WebhookOutcome[],
  holder: () => string | null,
): Promise<SettledWebhook[]> {
  if (batch.every((outcome) => outcome.holder !== holder())) return batch.map(() => 'fenced');
  type Row = { endpointId: string; eventId: string; settled: SettledWebhook };
  failpoint('webhook_before_commit');
  const rows = await db.query<Row>({ name: 'webhooks_settle', text: SETTLE }, [
    JSON.stringify(batch.map(toInput)),
    [...new Set(batch.map((outcome) => outcome.projectId))],
    [...new Set(batch.map((outcome) => outcome.endpointId))],
    batch.map((outcome) => outcome.eventId),
  ]);
  failpoint('webhook_after_commit');
  const settled = new Map(rows.map((row) => [`${row.endpointId} ${row.eventId}`, row.settled]));
  return batch.map((one) => settled.get(`${one.endpointId} ${one.eventId}`) ?? 'fenced');
}

function toInput(outcome: WebhookOutcome): object {
  return {
    project_id: outcome.projectId,
    endpoint_id: outcome.endpointId,
    event_id: outcome.eventId,
    claim: outcome.claim,
    holder: outcome.holder,
    verdict: outcome.verdict,
    retry_ms: outcome.retryMs,
    rest_ms: outcome.restMs,
    attempt: outcome.attempt,
  };
}
