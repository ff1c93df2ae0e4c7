/** What came of TLS sessions, counted by day, recipient's domain and policy (RFC 8460). */
import type { Queryable } from './postgres/database.ts';

export type TlsCount = {
  domain: string;
  policy: 'tlsa' | 'sts' | 'no-policy-found';
  /** A result type of RFC 8460 §4.3, or `success`. */
  result: string;
  sessions: number;
};

/** In one order, so that two workers never wait for one another crosswise. */
const ADD = `
insert into tls_results as r (day, domain, policy, result, sessions)
select (app_now() at time zone 'UTC')::date, i.domain, i.policy, i.result, i.sessions
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as i(domain, policy, result, sessions)
 order by 1, 2, 3, 4
on conflict (day, domain, policy, result) do update set sessions = r.sessions + excluded.sessions`;

/** Adds to today's counts; each kind at most once per call. */
export async function addTlsResults(db: Queryable, counts: readonly TlsCount[]): Promise<void> {
  await db.query({ name: 'add_tls_results', text: ADD }, [
    counts.map(({ domain }) => domain),
    counts.map(({ policy }) => policy),
    counts.map(({ result }) => result),
    counts.map(({ sessions }) => sessions),
  ]);
}

const READ = `
select day::text, domain, policy, result, sessions from tls_results
 where day > (app_now() at time zone 'UTC')::date - $1::int and ($2::text is null or domain = $2)
 order by day desc, domain, policy, sessions desc, result
 limit $3`;

/** The counts of the last `days` days, today included; newest first, at most `limit` rows. */
export function readTlsResults(
  db: Queryable,
  { days, domain, limit }: { days: number; domain: string | null; limit: number },
): Promise<(TlsCount & { day: string })[]> {
  return db.query<TlsCount & { day: string }>(READ, [days, domain, limit]);
}

/** Enough for any report, which covers a day, and for looking back a month. */
const KEPT_DAYS = 30;

const FORGET = `
delete from tls_results where ctid = any(array(
  select ctid from tls_results where day < (app_now() at time zone 'UTC')::date - ${KEPT_DAYS}
   limit $1)) returning 1`;

/** @returns how many rows were forgotten, at most `limit` */
export async function forgetTlsResults(db: Queryable, limit: number): Promise<number> {
  return (await db.query(FORGET, [limit])).length;
}
