/**
 * Faults of a reachable database: long locks, aborted transactions and no free connection. They may not cause
 * duplicates, so none is recorded as a disturbance.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { RandomSource } from '../random.ts';
import type { Stage } from '../stage.ts';

type DatabaseFaultContext = { stage: Stage; random: RandomSource; log: (line: string) => void };

const LOCK = `
begin;
lock table emails, recipients, queue in access exclusive mode;
select pg_sleep($SECONDS);
commit`;

/**
 * Aborts statements at random, as deadlocks and failed serializations do. An aborted statement has no effect and may be
 * repeated.
 */
const BREAK_OFF = `
create or replace function chaos_break_off() returns trigger language plpgsql as $$
begin
  if random() < 0.2 then
    raise exception 'broken off by chaos'
      using errcode = case when random() < 0.5 then '40P01' else '40001' end;
  end if;
  return null;
end $$`;
const BROKEN_OFF = ['emails', 'events', 'queue', 'webhook_queue', 'nodes'] as const;
const BROKEN_FOR_MS = 5_000;

const OPEN = `select count(*)::int as open, current_setting('max_connections')::int as max
  from pg_stat_activity where backend_type = 'client backend'`;
/** Connections that the fault leaves free for all other clients. */
const FREE = 3;
const CROWDED_FOR_MS = 6_000;

export const DATABASE_FAULTS = {
  async database_locked({ stage, random }: DatabaseFaultContext): Promise<void> {
    await stage.sql(LOCK.replace('$SECONDS', String(random.between(3, 10))));
  },
  async database_deadlocks({ stage }: DatabaseFaultContext): Promise<void> {
    await stage.sql(BREAK_OFF);
    for (const table of BROKEN_OFF) {
      await stage.sql(
        `create or replace trigger chaos after insert or update or delete on ${table}
           for each statement execute function chaos_break_off()`,
      );
    }
    await delay(BROKEN_FOR_MS);
    for (const table of BROKEN_OFF) await stage.sql(`drop trigger if exists chaos on ${table}`);
  },
  async database_crowded({ stage, log }: DatabaseFaultContext): Promise<void> {
    const [{ open, max }] = await stage.sql(OPEN);
    const asked = Array.from({ length: max - open - FREE }, () =>
      stage.connect().catch(() => null),
    );
    const clients = (await Promise.all(asked)).filter((client) => client !== null);
    log(`${clients.length} connections are taken away`);
    await delay(CROWDED_FOR_MS);
    await Promise.all(clients.map((client) => client.end().catch(() => {})));
  },
} as const;
