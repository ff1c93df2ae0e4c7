/**
 * Fills tables by SQL as they are after months of mail: accepted and delivered emails and webhooks over some weeks,
 * the newest still open. Nothing is analysed, as in quickly growing tables, so plans must be good without
 * statistics. Indexes are maintained meanwhile, as with real mail.
 */
import {
  clientQueries,
  connectAsOwner,
  type DatabaseAddress,
  type Queryable,
} from '../../src/database/database.ts';
import { ensurePartitions, WEEK_MS } from '../../src/database/partitions.ts';
import type { Sender } from './mail-store.ts';

export type Filling = {
  sender: Sender;
  /** Number of emails, with one recipient each. */
  count: number;
  /** Number of the newest emails that have not ended. They are due now. */
  open: number;
  /** Number of weeks, up to now, in which they were accepted. */
  weeks: number;
  /** The endpoint that has received the last event of each email. */
  endpointId: string;
  /** The endpoint that has not received the open events, which are due now. */
  deadEndpointId: string;
  htmlBytes: number;
  /** Empties the tables first, which doubles the speed. Otherwise the rows are added. */
  anew: boolean;
  /** Called repeatedly with the number of emails. */
  onProgress?: (emails: number) => void;
};

/** One of every hundred emails is sent to this address, and one bounces. */
export const BUSY_ADDRESS = 'reports@customers0.test';
const BATCH = 100_000;

/** Creates the partitions of the weeks; a migrated database only has those of today. */
export async function makeWeeks(owner: Queryable, weeks: number): Promise<void> {
  for (let week = 0; week <= weeks; week += 8) {
    await ensurePartitions(owner, Date.now() - week * WEEK_MS);
  }
  await ensurePartitions(owner, Date.now() - weeks * WEEK_MS);
}

/**
 * Inserts emails and their other rows. Each of two connections fills half of the tables, for two cores. The queue is
 * committed last, because a service may be working on it.
 */
export async function fillMail(address: DatabaseAddress, filling: Filling): Promise<void> {
  const run = { ...filling, untilMs: Date.now() - 1_000, suffix: newRun() };
  const clients = await Promise.all(HALVES.map(() => connectAsOwner(address, 'fill')));
  const filled = HALVES.map(() => 0);
  const fillHalf = (tables: readonly Table[], half: number): Promise<void> =>
    fillTables(clientQueries(clients[half]!), tables, run, (emails) => {
      filled[half] = emails;
      filling.onProgress?.(Math.min(...filled));
    });
  try {
    await Promise.all(HALVES.map(fillHalf));
    for (const client of clients) await client.query('commit');
  } finally {
    await Promise.all(clients.map((client) => client.end()));
  }
}

/** Both halves use the same ids and times. */
type Run = Filling & { untilMs: number; suffix: string };

/** Runs in a transaction that the caller commits: new tables then need no WAL. */
async function fillTables(
  owner: Queryable,
  tables: readonly Table[],
  run: Run,
  onBatch: (emails: number) => void,
): Promise<void> {
  const { count, weeks, untilMs, suffix } = run;
  await owner.query('begin');
  if (run.anew) await owner.query(`truncate ${tables.join(', ')}`);
  await owner.query(`create temp table made (n int, id uuid, at timestamptz, address text)
                       on commit drop`);
  for (let from = 0; from < count; from += BATCH) {
    const to = Math.min(from + BATCH, count);
    await owner.query('truncate made');
    await owner.query(MAKE, [from, to - 1, count, weeks, BUSY_ADDRESS, suffix, untilMs]);
    for (const table of tables) await owner.query(INSERT[table], valuesOf(table, run));
    onBatch(to);
  }
}

function valuesOf(table: Table, run: Run): unknown[] {
  const { projectId, domainId, keyId } = run.sender;
  const { endpointId, deadEndpointId } = run;
  const firstOpen = run.count - run.open;
  const values: Record<Table, unknown[]> = {
    emails: [domainId, keyId, firstOpen],
    contents: ['x'.repeat(run.htmlBytes)],
    recipients: [firstOpen],
    events: [firstOpen],
    queue: [firstOpen],
    webhook_deliveries: [endpointId, deadEndpointId, firstOpen],
    webhook_queue: [deadEndpointId, firstOpen],
    suppressions: [],
    idempotency: [],
    stats: [],
  };
  return [projectId, ...values[table]];
}

let runs = 0;

/** Keeps the ids of two runs apart. */
function newRun(): string {
  runs += 1;
  return runs.toString(16).padStart(4, '0');
}

const MAKE = `
insert into made
select number,
       (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '7' || substr(hash, 1, 3)
        || '8' || substr(hash, 4, 11) || $6::text)::uuid,
       at,
       case when number % 100 = 7 then $5 else 'jo' || number / 3 || '@customers' || number % 10 || '.test' end
  from generate_series($1::int, $2::int) number
 cross join lateral (
    select to_timestamp($7::float8 / 1000)
             - ($3::int - number)::float8 / $3::int * $4::float8 * interval '1 week' as at,
           md5(number::text) as hash) drawn
 order by number`;

/** $1 is the project. valuesOf has the other parameters. */
const INSERT = {
  emails: `
insert into emails (project_id, environment, id, created_at, expires_at, sent_at, completed_at,
                    domain_id, dual_signed, key_id, from_address, from_name, to_list, cc_list,
                    bcc_list, reply_to, subject, tags, metadata, open_count, worst, event_count,
                    last_event)
select $1, 'live', id, at, at + interval '3 days', at, case when n < $4 then at end, $2, true, $3,
       'orders@acme.com', 'The Shop', array[address], '{}', '{}', '{}', 'Your order ' || n,
       jsonb_build_array(jsonb_build_object('name', 'kind', 'value', 'order' || n % 5)),
       '{}', (n >= $4)::int, case when n >= $4 then 0 when n % 100 = 8 then 6 else 1 end,
       case when n < $4 then 2 else 1 end,
       case when n >= $4 then 'email.queued' when n % 100 = 8 then 'email.bounced'
            else 'email.delivered' end
  from made`,

  contents: `insert into contents (project_id, email_id, html) select $1, id, $2 from made`,

  recipients: `
insert into recipients (project_id, email_id, position, address, kind, status, attempts,
                        next_attempt_at, completed_at, smtp)
select $1, id, 0, address, 'to',
       case when n >= $2 then 'queued' when n % 100 = 8 then 'bounced' else 'delivered' end,
       (n < $2)::int, case when n >= $2 then at end, case when n < $2 then at end,
       case when n < $2 then '{"code":250,"message":"2.0.0 Ok: queued"}'::json end
  from made`,

  events: `
insert into events (project_id, environment, subject_id, seq, id, type, position, created_at, data,
                    attempt)
select $1, 'live', id, seq, case when seq = 1 then overlay(id::text placing 'a' from 20 for 1)::uuid
                                 else overlay(id::text placing 'b' from 20 for 1)::uuid end,
       case when seq = 1 then 'email.queued' else 'email.delivered' end,
       case when seq = 2 then 0 end, at,
       '{"from":"The Shop <orders@acme.com>","status":"queued"}',
       case when seq = 2 then '{"number":1,"mx":"mx.customers0.test","tls":null}'::json end
  from made cross join generate_series(1, 2) seq
 where seq = 1 or n < $2`,

  queue: `
insert into queue (project_id, email_id, position, environment, destination, provider, due_at)
select $1, id, 0, 'live', split_part(address, '@', 2), split_part(address, '@', 2), at
  from made where n >= $2`,

  webhook_deliveries: `
insert into webhook_deliveries (project_id, environment, endpoint_id, event_id, subject_id, seq,
                                type, status, attempts, created_at, completed_at)
select $1, 'live', case when n < $4 then $2::uuid else $3::uuid end,
       overlay(id::text placing case when n < $4 then 'b' else 'a' end from 20 for 1)::uuid, id,
       case when n < $4 then 2 else 1 end, 'email.delivered',
       case when n < $4 then 'delivered' else 'pending' end, 1, at, at
  from made`,

  webhook_queue: `
insert into webhook_queue (project_id, endpoint_id, event_id, due_at)
select $1, $2, overlay(id::text placing 'a' from 20 for 1)::uuid, at from made where n >= $3`,

  suppressions: `
insert into suppressions (project_id, environment, address_key, address, reason, created_at)
select $1, 'live', 'gone' || id || '@nowhere.test', 'gone' || id || '@nowhere.test', 'hard_bounce', at
  from made where n % 10 = 0`,

  idempotency: `
insert into idempotency (project_id, environment, key, fingerprint, email_id, response, expires_at)
select $1, 'live', 'order-' || id, '\\x00', id, '{}', now() + interval '1 day'
  from made where n % 10 = 0`,

  stats: `
insert into stats (project_id, environment, granularity, dimension, period, value, emails, recipients,
                   sent, delivered, deferred, bounced, failed, suppressed, canceled, complained, opened,
                   clicked, latencies)
select $1::uuid, 'live', granularity, dimension, date_trunc(granularity, at, 'UTC'), value,
       count(*), count(*), 0, count(*), 0, 0, 0, 0, 0, 0, 0, 0,
       array[count(*), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
  from made
 cross join (values ('hour'), ('day')) granularities(granularity)
 cross join lateral (values ('total', ''), ('domain', 'acme.com'), ('key', ''),
                            ('tag', 'kind:order' || n % 5),
                            ('provider', 'customers' || n % 10 || '.test')) dimensions(dimension, value)
 group by 1, 2, 3, 4, 5, 6
on conflict do nothing`,
} as const;

type Table = keyof typeof INSERT;

/** Two halves of about equal work. */
const HALVES: readonly (readonly Table[])[] = [
  ['contents', 'events', 'webhook_deliveries', 'webhook_queue'],
  ['emails', 'recipients', 'suppressions', 'idempotency', 'queue', 'stats'],
];
