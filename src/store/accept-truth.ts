/**
 * What became of a batch of emails whose connection died around the commit. Their ids were made
 * before the statement, so the truth can be asked. Used by accept.ts.
 */
import type { AcceptRow, NewEmail } from './accept.ts';
import type { Queryable } from './postgres/database.ts';

/** How long, and how far apart, the truth is asked for. */
const TRUTH_WITHIN_MS = 4_000;
const TRUTH_PAUSE_MS = 400;

const FIND_EMAILS = `
select e.id, wire_time(e.created_at) as created_at, e.created_at as at, e.domain_id, e.dual_signed,
       (select c.tls from contents c where c.project_id = e.project_id and c.email_id = e.id) as tls,
       (select array_agg(r.position) from recipients r
         where r.project_id = e.project_id and r.email_id = e.id and r.status = 'suppressed')
         as suppressed_positions,
       coalesce((select bool_or(q.held) from queue q where q.email_id = e.id), false) as is_held
  from unnest($1::uuid[], $2::text[], $3::uuid[]) as i(project_id, environment, id)
 cross join lateral (
    select * from emails e
     where e.project_id = i.project_id and e.environment = i.environment and e.id = i.id limit 1) e`;

type FoundEmail = {
  id: string;
  created_at: string;
  at: Date;
  domain_id: string;
  dual_signed: boolean;
  tls: AcceptRow['tls'];
  suppressed_positions: number[] | null;
  is_held: boolean;
};

/**
 * The connection died. What is found stored now was accepted. What is not found is unknown: the
 * statement may still be running on a server that has not noticed that its client is gone.
 */
export async function findOutWhatHappened(
  db: Queryable,
  emails: readonly NewEmail[],
  holder: string | null,
): Promise<AcceptRow[] | null> {
  const timeUp = AbortSignal.timeout(TRUTH_WITHIN_MS);
  const late = new Promise<[]>((resolve) => timeUp.addEventListener('abort', () => resolve([])));
  while (!timeUp.aborted) {
    await new Promise((resolve) => setTimeout(resolve, TRUTH_PAUSE_MS));
    const asked = db.query<FoundEmail>(FIND_EMAILS, [
      emails.map((email) => email.projectId),
      emails.map((email) => email.environment),
      emails.map((email) => email.id),
    ]);
    const found = await Promise.race([asked.catch(() => []), late]);
    if (found.length === 0) continue;
    const byId = new Map(found.map((row) => [row.id, row]));
    return emails.map((email) => truthOf(email, byId.get(email.id), holder));
  }
  return null;
}

/** One batch is one transaction: an email that is missing beside others was refused by its rules. */
function truthOf(email: NewEmail, row: FoundEmail | undefined, holder: string | null): AcceptRow {
  // The limit's state is not asked again: it is only a hint for headers.
  const limit = { limit: 0, remaining: 0, resetS: 0, windowS: 60 };
  if (!row) {
    return {
      outcome: 'unknown',
      response: null,
      fingerprint: null,
      domainId: null,
      dualSigned: false,
      tls: null,
      createdAt: new Date(0),
      suppressedPositions: [],
      holder: null,
      limit,
    };
  }
  return {
    outcome: 'accepted',
    response: email.response.replace('@created_at', row.created_at),
    fingerprint: null,
    domainId: row.domain_id,
    dualSigned: row.dual_signed,
    tls: row.tls,
    createdAt: row.at,
    suppressedPositions: row.suppressed_positions ?? [],
    holder: email.handOver && !row.is_held ? holder : null,
    limit,
  };
}
