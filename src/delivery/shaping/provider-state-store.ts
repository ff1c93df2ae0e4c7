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
select nodes.id, input.provider, input.state, input.reason,
       app_now() + input.for_ms * interval '1 millisecond',
       input.connections_max, input.connections_open, app_now()
  from nodes
 cross join unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::int[], $7::int[])
       as input(provider, state, reason, for_ms, connections_max, connections_open)
 where nodes.id = $1::uuid
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
  select providers.provider, nodes.instance, nodes.uplink_down, providers.connections_max,
         providers.connections_open,
         case when providers.until <= app_now() then 'open' else providers.state end as state,
         case when providers.until <= app_now() then null else providers.reason end as reason,
         case when providers.until <= app_now() then null else providers.until end as until
    from providers join nodes on nodes.id = providers.node
), machines as (
  select provider, instance, max(connections_max) as connections_max,
         sum(connections_open) as connections_open
    from current group by provider, instance
), totals as (
  select provider, sum(connections_max)::int as "connectionsMax",
         sum(connections_open)::int as "connectionsOpen"
    from machines group by provider
)
select totals.provider, writer.state, writer.reason, totals."connectionsMax", totals."connectionsOpen",
       extract(epoch from writer.until - app_now())::float8 * 1000 as "forMs",
       writer.state = 'suspended' and writer.uplink_down as "isUplinkDown"
  from totals
 cross join lateral (
    select current.state, current.reason, current.until,
           current.uplink_down from current where current.provider = totals.provider
     order by array_position(array['suspended', 'slowed', 'full', 'open'], current.state), current.until desc
     limit 1) writer
 order by totals.provider`;

const BLOCKED = `
select distinct on (provider_blocks.provider) provider_blocks.provider, provider_blocks.subject,
       provider_blocks.reply,
       greatest(0, extract(epoch from provider_blocks.next_probe_at - app_now()) * 1000)::float8 as "forMs"
  from provider_blocks
 where provider_blocks.since is not null and provider_blocks.about = 'address'
 order by provider_blocks.provider, provider_blocks.next_probe_at`;

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
