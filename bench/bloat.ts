/**
 * `npm run bench -- bloat`: measures whether the queue stays as small and as fast after many emails as at the start.
 * The service accepts each email over HTTP, queues it and delivers it to the sink, which leaves dead rows in the queue.
 * The autovacuum of the embedded PostgreSQL removes them with the settings of the product.
 */
import { Sink } from './parts/children.ts';
import { machineMs } from './parts/machine-clock.ts';
import { Rig } from './parts/rig.ts';
import { median, show } from './numbers.ts';
import { endToEndRound } from './rates.ts';
import { alignColumns } from './report.ts';

export type BloatOptions = { emails: number; workers: number };

const ROUNDS = 10;
const HTML_BYTES = 2_048;
const TIMED = 5;

const SIZES = `
select pg_relation_size('queue')::float8 as rows,
       (select sum(pg_relation_size(indexrelid))::float8 from pg_index
         where indrelid = 'queue'::regclass) as indexes,
       coalesce(n_dead_tup, 0)::float8 as dead, coalesce(autovacuum_count, 0)::int as vacuums
  from pg_stat_user_tables where relid = 'queue'::regclass`;

/**
 * Reads the rows that a claim reads first (delivery/queue/claim-store.ts). Dead index entries before them slow it down.
 */
const OLDEST = `
explain (analyze, buffers, timing off, format json)
select email_id from queue where holder is null and claim >= 0 and due_at <= app_now()
 order by due_at limit 512`;

type Claim = { ms: number; pages: number };

/** @returns the table as text */
export async function measureBloat(
  { emails, workers }: BloatOptions,
  say: (line: string) => void,
): Promise<string> {
  await using sink = await Sink.start();
  await using rig = await Rig.start({ workers, mxPort: sink.port });
  const count = Math.ceil(emails / ROUNDS);
  const rows: string[][] = [await look(rig, 0, '')];
  for (let round = 1; round <= ROUNDS; round += 1) {
    const startedMs = machineMs();
    const { perSecond } = await endToEndRound(
      { rig, sink },
      { count, htmlBytes: HTML_BYTES, batch: 100, connections: 8 },
    );
    say(
      `  ${(count * round).toLocaleString('en-US')} emails; this round took ${Math.round((machineMs() - startedMs) / 1000)} s`,
    );
    rows.push(await look(rig, count * round, show(perSecond)));
  }
  const head = ['emails', 'a second', 'queue, KB', 'its indexes, KB', 'dead rows', 'vacuums'];
  return `${alignColumns([[...head, 'claim, ms', 'claim, pages'], ...rows])}\n`;
}

async function look(rig: Rig, emails: number, rate: string): Promise<string[]> {
  const [{ rows, indexes, dead, vacuums }] = await rig.service.sql(SIZES);
  const claims: Claim[] = [];
  for (let time = 0; time < TIMED; time += 1) claims.push(await timeClaim(rig));
  return [
    emails.toLocaleString('en-US'),
    rate,
    show(rows / 1024),
    show(indexes / 1024),
    show(dead),
    show(vacuums),
    median(claims.map(({ ms }) => ms)).toFixed(2),
    show(median(claims.map(({ pages }) => pages))),
  ];
}

async function timeClaim(rig: Rig): Promise<Claim> {
  const [row] = await rig.service.sql(OLDEST);
  const [{ Plan: plan, 'Execution Time': ms }] = row['QUERY PLAN'];
  return { ms, pages: plan['Shared Hit Blocks'] + plan['Shared Read Blocks'] };
}
