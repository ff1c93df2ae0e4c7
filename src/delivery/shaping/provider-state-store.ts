/**
 * Stores the state of providers in each worker for other processes (`letterhaus queue`). A worker stores changes
 * every few seconds (provider-report.ts). Its rows are deleted with its row in `nodes`. Delivery
 * does not read them.
 */
import { PROVIDER_TRANSITIONS, type ProviderState as ProviderStateName } from './provider-state.ts';
import { nextState } from '../../lib/state-machine.ts';
import type { Queryable } from '../../database/database.ts';

export type StoredProviderState = {
  provider: string;
  state: ProviderStateName;
  reason: string | null;
  /** Milliseconds until the state ends; in a block, until the next probe. */
  forMs: number | null;
  connectionsMax: number;
  connectionsOpen: number;
  /** True when it is suspended because no mail server answers that machine (delivery/queue/worker-store.ts). */
  isUplinkDown: boolean;
};

const WRITE = `
insert into providers (node, provider, state, reason, until, connections_max, connections_open, updated_at)
select n.id, i.provider, i.state, i.reason, app_now() + i.for_ms * interval '1 millisecond',
       i.connections_max, i.connections_open, app_now()
  from nodes n
 cross join unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::int[], $7::int[])
       as i(provider, state, reason, for_ms, connections_max, connections_open)
 where n.id = $1::uuid
    on conflict (node, provider) do update
       set state = excluded.state, reason = excluded.reason, until = excluded.until,
           connections_max = excluded.connections_max,
           connections_open = excluded.connections_open, updated_at = excluded.updated_at`;

const REMOVE = 'delete from providers where node = $1::uuid and provider = any($2::text[])';

/** Stores the changes of one worker. Does nothing for an expired worker. */
export async function writeProviderStates(
  db: Queryable,
  node: string,
  {
    changed,
    removed,
  }: {
    changed: readonly Omit<StoredProviderState, 'isUplinkDown'>[];
    removed: readonly string[];
  },
): Promise<void> {
  if (removed.length > 0) await db.query(REMOVE, [node, removed]);
  if (changed.length === 0) return;
  await db.query(WRITE, [
    node,
    changed.map(({ provider }) => provider),
    changed.map(({ state }) => state),
    changed.map(({ reason }) => reason),
    changed.map(({ forMs }) => forMs),
    changed.map(({ connectionsMax }) => connectionsMax),
    changed.map(({ connectionsOpen }) => connectionsOpen),
  ]);
}

/** Reads the worst state of any machine. A suspension or slowdown that has ended counts as `open`. */
const READ = `
with current as (
  select l.provider, n.instance, n.uplink_down, l.connections_max, l.connections_open,
         case when l.until <= app_now() then 'open' else l.state end as state,
         case when l.until <= app_now() then null else l.reason end as reason,
         case when l.until <= app_now() then null else l.until end as until
    from providers l join nodes n on n.id = l.node
), machines as (
  select provider, instance, max(connections_max) as connections_max,
         sum(connections_open) as connections_open
    from current group by provider, instance
), totals as (
  select provider, sum(connections_max)::int as "connectionsMax",
         sum(connections_open)::int as "connectionsOpen"
    from machines group by provider
)
select t.provider, w.state, w.reason, t."connectionsMax", t."connectionsOpen",
       extract(epoch from w.until - app_now())::float8 * 1000 as "forMs",
       w.state = 'suspended' and w.uplink_down as "isUplinkDown"
  from totals t
 cross join lateral (
    select c.state, c.reason, c.until, c.uplink_down from current c where c.provider = t.provider
     order by array_position(array['suspended', 'slowed', 'full', 'open'], c.state), c.until desc
     limit 1) w
 order by t.provider`;

const BLOCKED = `
select distinct on (b.provider) b.provider, b.subject, b.reply,
       greatest(0, extract(epoch from b.next_probe_at - app_now()) * 1000)::float8 as "forMs"
  from provider_blocks b
 where b.since is not null and b.about = 'address'
 order by b.provider, b.next_probe_at`;

type Blocked = Pick<StoredProviderState, 'provider' | 'forMs'> & { subject: string; reply: string };

/** Returns each provider that a worker reported, over all machines, and each that refuses our mail. */
export async function readProviderStates(db: Queryable): Promise<StoredProviderState[]> {
  const rows = await db.query<StoredProviderState>(READ);
  const states = new Map(rows.map((row) => [row.provider, row]));
  for (const { provider, subject, reply, forMs } of await db.query<Blocked>(BLOCKED)) {
    const { state = 'open', connectionsMax = 0, connectionsOpen = 0 } = states.get(provider) ?? {};
    states.set(provider, {
      provider,
      state: nextState(PROVIDER_TRANSITIONS, state, 'refused'),
      reason: `it refuses all mail from ${subject}: ${reply}`,
      forMs,
      connectionsMax,
      connectionsOpen,
      isUplinkDown: false,
    });
  }
  return [...states.values()];
}
