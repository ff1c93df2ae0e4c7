/**
 * Stores MTA-STS policies of recipient domains for all workers (net/tls/mta-sts.ts applies them), and counts of TLS
 * sessions by day, domain and policy (RFC 8460).
 */
import type { Queryable } from '../../database/database.ts';
import { GroupCommit } from '../../database/group-commit.ts';
import { batchDelete } from '../../database/expiry.ts';

type Policy = { mode: 'enforce' | 'testing' | 'none'; mx: readonly string[]; maxAgeS: number };

type StoredPolicy = {
  cached: { id: string; policy: Policy; ageMs: number; remainingMs: number } | null;
  failedAgoMs: number | null;
};

const LOAD = `
with used as (
  update mta_sts_policies set used_at = app_now()
   where domain = any($1::text[]) and used_at < app_now() - interval '1 day'
)
select domain, id, mode, mx, max_age_s as "maxAgeS",
       extract(epoch from app_now() - fetched_at)::float8 * 1000 as "ageMs",
       extract(epoch from expires_at - app_now())::float8 * 1000 as "remainingMs",
       extract(epoch from app_now() - failed_at)::float8 * 1000 as "failedAgoMs"
  from mta_sts_policies
 where domain = any($1::text[])`;

type Row = { domain: string; failedAgoMs: number | null } & (
  | ({ id: string; ageMs: number; remainingMs: number } & Policy)
  | { id: null }
);

const SAVE = `
insert into mta_sts_policies (domain, id, mode, mx, max_age_s, fetched_at, expires_at, used_at)
values ($1, $2, $3, $4, $5, app_now(), app_now() + $5::int * interval '1 second', app_now())
on conflict (domain) do update
   set id = excluded.id, mode = excluded.mode, mx = excluded.mx, max_age_s = excluded.max_age_s,
       fetched_at = excluded.fetched_at, expires_at = excluded.expires_at, failed_at = null`;

const SAVE_FAILURE = `
insert into mta_sts_policies (domain, failed_at, used_at)
values ($1, app_now(), app_now())
on conflict (domain) do update set failed_at = excluded.failed_at`;

export class StsPolicies {
  readonly #db: Queryable;
  readonly #loads: GroupCommit<string, StoredPolicy>;

  constructor(db: Queryable) {
    this.#db = db;
    this.#loads = new GroupCommit({
      commit: (domains) => this.#loadAll(domains),
      sizeBytes: (domain) => domain.length,
      mayTryOneByOne: () => false,
    });
  }

  load(domain: string): Promise<StoredPolicy> {
    return this.#loads.add(domain);
  }

  async save(domain: string, id: string, { mode, mx, maxAgeS }: Policy): Promise<void> {
    await this.#db.query(SAVE, [domain, id, mode, mx, maxAgeS]);
  }

  async saveFailure(domain: string): Promise<void> {
    await this.#db.query(SAVE_FAILURE, [domain]);
  }

  async #loadAll(domains: readonly string[]): Promise<StoredPolicy[]> {
    const rows = await this.#db.query<Row>({ name: 'load_sts', text: LOAD }, [domains]);
    const byDomain = new Map(rows.map((row) => [row.domain, fromRow(row)]));
    return domains.map((domain) => byDomain.get(domain) ?? { cached: null, failedAgoMs: null });
  }
}

function fromRow(row: Row): StoredPolicy {
  const { failedAgoMs } = row;
  if (row.id === null || row.remainingMs <= 0) return { cached: null, failedAgoMs };
  const { id, mode, mx, maxAgeS, ageMs, remainingMs } = row;
  return { cached: { id, policy: { mode, mx, maxAgeS }, ageMs, remainingMs }, failedAgoMs };
}

const TO_RENEW = `
select domain from mta_sts_policies
 where mode <> 'none' and fetched_at < app_now() - interval '1 day' and expires_at > app_now()
   and used_at > app_now() - interval '30 days'
   and (failed_at is null or failed_at < app_now() - interval '1 hour')
 order by fetched_at
 limit $1`;

/** Returns domains with mail in the last 30 days whose policy is a day old, oldest policy first. */
export async function listPoliciesToRenew(db: Queryable, limit: number): Promise<string[]> {
  return (await db.query<{ domain: string }>(TO_RENEW, [limit])).map(({ domain }) => domain);
}

export const deleteExpiredStsPolicies = batchDelete(
  'mta_sts_policies',
  `coalesce(expires_at, '-infinity') <= app_now()
     and coalesce(failed_at, '-infinity') <= app_now() - interval '1 hour'`,
);

export type TlsCount = {
  domain: string;
  policy: 'tlsa' | 'sts' | 'no-policy-found';
  /** `success`, or a result type of RFC 8460 §4.3. */
  result: string;
  sessions: number;
};

/** Sorted, so that concurrent workers cannot deadlock. */
const ADD_TLS_RESULTS = `
insert into tls_results (day, domain, policy, result, sessions)
select (app_now() at time zone 'UTC')::date, input.domain, input.policy, input.result, input.sessions
  from unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) as input(domain, policy, result, sessions)
 order by 1, 2, 3, 4
on conflict (day, domain, policy, result) do update set sessions = tls_results.sessions + excluded.sessions`;

/** Adds to today's counts. Each kind may occur only once in a call. */
export async function addTlsResults(db: Queryable, counts: readonly TlsCount[]): Promise<void> {
  await db.query({ name: 'add_tls_results', text: ADD_TLS_RESULTS }, [
    counts.map(({ domain }) => domain),
    counts.map(({ policy }) => policy),
    counts.map(({ result }) => result),
    counts.map(({ sessions }) => sessions),
  ]);
}

const READ_TLS_RESULTS = `
select day::text, domain, policy, result, sessions from tls_results
 where day > (app_now() at time zone 'UTC')::date - $1::int and ($2::text is null or domain = $2)
 order by day desc, domain, policy, sessions desc, result
 limit $3`;

/** Returns the counts of the last `days` days including today, newest first, at most `limit` rows. */
export function readTlsResults(
  db: Queryable,
  { days, domain, limit }: { days: number; domain: string | null; limit: number },
): Promise<(TlsCount & { day: string })[]> {
  return db.query<TlsCount & { day: string }>(READ_TLS_RESULTS, [days, domain, limit]);
}

/** Days; enough for daily reports and a review of the last month. */
const KEPT_DAYS = 30;

export const deleteOldTlsResults = batchDelete(
  'tls_results',
  `day < (app_now() at time zone 'UTC')::date - ${KEPT_DAYS}`,
);
