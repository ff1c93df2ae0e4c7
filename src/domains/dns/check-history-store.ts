/**
 * The history of a sending domain in DNS: what its checks found, and when. A case file shows with it what receivers
 * could look up when an email was sent.
 *
 * Only a result that differs from the one before it gets a row, so the history grows with changes of DNS and not with
 * mail. An email stores nothing for it.
 */
import type { Scope } from '../../core/scope.ts';
import type { Queryable } from '../../database/database.ts';
import type { DmarcRecords } from './dmarc-records.ts';
import type { CheckedRecord } from './records.ts';

export type DomainCheckResult = {
  records: Pick<CheckedRecord, 'record' | 'name' | 'required' | 'status' | 'found'>[];
  /** Null: there is none. */
  dmarc: Extract<DmarcRecords, { kind: 'records' }> | { kind: 'error' } | null;
};

/**
 * Returns what is kept of a check. Name servers return records in any order, and their failures in any words, so
 * records are sorted and words omitted: they would be another result at each check.
 */
export function resultOf(
  records: readonly CheckedRecord[],
  dmarc: DmarcRecords | null,
): DomainCheckResult {
  const kept = records.map(({ record, name, required, status, found }) => {
    return { record, name, required, status, found: found.toSorted() };
  });
  if (dmarc?.kind !== 'records') return { records: kept, dmarc: dmarc && { kind: 'error' } };
  return { records: kept, dmarc: { ...dmarc, texts: dmarc.texts.toSorted() } };
}

export type PastCheck = { firstCheckedAt: Date; lastCheckedAt: Date; result: DomainCheckResult };

/** A domain whose records change at every check keeps the newest results. */
const RESULTS_MAX = 200;

// The caller has locked the domain, so checks are noted one after the other.
const NOTE = `
with latest as (
  select first_checked_at, result from domain_checks
   where project_id = $1 and domain_id = $2 order by first_checked_at desc limit 1),
same as (
  update domain_checks set last_checked_at = app_now() from latest
   where domain_checks.project_id = $1 and domain_checks.domain_id = $2
     and domain_checks.first_checked_at = latest.first_checked_at and latest.result = $3::jsonb
  returning 1)
insert into domain_checks (project_id, domain_id, first_checked_at, last_checked_at, result)
select $1, $2, app_now(), app_now(), $3::jsonb where not exists (select from same)
on conflict (project_id, domain_id, first_checked_at) do update set result = excluded.result
returning 1`;

const REMOVE_OLDEST = `
delete from domain_checks
 where project_id = $1 and domain_id = $2
   and first_checked_at <= (select first_checked_at from domain_checks
                             where project_id = $1 and domain_id = $2
                             order by first_checked_at desc offset ${RESULTS_MAX} limit 1)`;

/** Stores the result of a check, in the transaction that stores the state of the domain. */
export async function noteCheckResult(
  tx: Queryable,
  { projectId, id }: { projectId: string; id: string },
  result: DomainCheckResult,
): Promise<void> {
  const isNew = (await tx.query(NOTE, [projectId, id, JSON.stringify(result)])).length > 0;
  if (isNew) await tx.query(REMOVE_OLDEST, [projectId, id]);
}

/** Results that one case file has. */
const SHOWN_MAX = 50;

const LIST = `
with sender as materialized (
  select domain_id from emails where project_id = $1 and environment = $2 and id = $3)
select domain_checks.first_checked_at as "firstCheckedAt", domain_checks.last_checked_at as "lastCheckedAt",
       domain_checks.result
  from sender
  join domain_checks on domain_checks.project_id = $1 and domain_checks.domain_id = sender.domain_id
 where domain_checks.first_checked_at <= $5
   and domain_checks.first_checked_at >= coalesce(
         (select max(earlier.first_checked_at) from domain_checks earlier
           where earlier.project_id = $1 and earlier.domain_id = sender.domain_id
             and earlier.first_checked_at <= $4), '-infinity')
 order by domain_checks.first_checked_at limit ${SHOWN_MAX}`;

/**
 * Returns the result for the sending domain of an email that was current at `from`, if one is known, and later ones
 * up to `until`, oldest first.
 */
export function listCheckResults(
  db: Queryable,
  { projectId, environment, id }: Scope & { id: string },
  { from, until }: { from: Date; until: Date },
): Promise<PastCheck[]> {
  return db.query<PastCheck>(LIST, [projectId, environment, id, from, until]);
}
