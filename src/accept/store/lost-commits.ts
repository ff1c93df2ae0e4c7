/**
 * After a connection was lost around a commit, determines whether the emails were stored. It asks the database for
 * them by their ids, which were generated before the commit.
 */
import { NOT_TRACKED, parseTracking } from '../../mail/links/tracking-link.ts';
import type { DatabaseUnavailable, Queryable } from '../../database/database.ts';
import type { QueuedEmail } from '../../delivery/queue/queue-store.ts';
import {
  type AcceptRequest,
  type EmailResult,
  type EmailResults,
  emailsOf,
  fillResponse,
  isBatch,
  type NewEmail,
} from './new-email.ts';

/** The connection was lost around the commit, and its result could not be determined in time. */
export class AcceptedUnknown extends Error {
  override readonly name = 'AcceptedUnknown';
}

const SEARCH_WITHIN_MS = 4_000;
const SEARCH_PAUSE_MS = 400;

/** Reads the columns of an EmailResult that insert.ts stored. Change both together. */
const FIND_EMAILS = `
select email.id, wire_time(email.created_at) as created_at, email.created_at as at,
       email.scheduled_at is not null as is_scheduled, email.domain_id, email.dual_signed,
       content.tls, content.tracking,
       (select array_agg(recipients.position) from recipients
         where recipients.project_id = email.project_id and recipients.email_id = email.id
           and recipients.status = 'suppressed')
         as suppressed_positions,
       coalesce((select bool_or(queue.held) from queue
                  where queue.project_id = email.project_id
                    and queue.email_id = email.id), false) as is_on_hold
  from unnest($1::uuid[], $2::text[], $3::uuid[]) as request(project_id, environment, id)
 cross join lateral (
    select * from emails email
     where email.project_id = request.project_id and email.environment = request.environment
       and email.id = request.id limit 1) email
  left join lateral (
    select content.tls, content.tracking from contents content
     where content.project_id = email.project_id and content.email_id = email.id limit 1) content on true`;

type FoundEmail = {
  id: string;
  created_at: string;
  at: Date;
  is_scheduled: boolean;
  domain_id: string;
  dual_signed: boolean;
  tls: EmailResult['tls'];
  tracking: string | null;
  suppressed_positions: number[] | null;
  is_on_hold: boolean;
};

/**
 * Returns the rows of each request of one transaction whose result was lost.
 * @param commit.onUnknown called for emails that may be stored under this worker's lease
 * @throws AcceptedUnknown when the result cannot be determined
 */
export async function findRowsOfLostCommit(
  db: Queryable,
  requests: readonly AcceptRequest[],
  commit: {
    leaseId: string | null;
    onUnknown: (emails: readonly QueuedEmail[]) => void;
    cause: DatabaseUnavailable;
  },
): Promise<readonly EmailResults[]> {
  const [first] = requests;
  const batch = first && isBatch(first) ? first : null;
  const emails = requests.flatMap(emailsOf);
  // The reasons for which emails of a permissive batch were refused are not stored.
  const rows =
    batch?.isStrict === false ? null : await findStoredEmails(db, emails, commit.leaseId);
  if (rows === null) {
    commit.onUnknown(emails);
    const message = 'the connection to the database was lost while the email was being stored';
    throw new AcceptedUnknown(message, { cause: commit.cause });
  }
  if (batch === null) return rows.map((row) => [row]);
  const response = batch.respond(rows.map(() => 'accepted'));
  return [rows.map((row) => ({ ...row, response }))];
}

/**
 * Searches for emails until one of them is found. Returns null when none was found in time. All are then unknown,
 * because the statement may still run on a server that has not noticed the lost connection.
 */
export async function findStoredEmails(
  db: Queryable,
  emails: readonly NewEmail[],
  leaseId: string | null,
): Promise<EmailResult[] | null> {
  const timeUp = AbortSignal.timeout(SEARCH_WITHIN_MS);
  const late = new Promise<[]>((resolve) => timeUp.addEventListener('abort', () => resolve([])));
  while (!timeUp.aborted) {
    await new Promise((resolve) => setTimeout(resolve, SEARCH_PAUSE_MS));
    const search = db.query<FoundEmail>(FIND_EMAILS, [
      emails.map((email) => email.projectId),
      emails.map((email) => email.environment),
      emails.map((email) => email.id),
    ]);
    const found = await Promise.race([search.catch(() => []), late]);
    if (found.length === 0) continue;
    const byId = new Map(found.map((row) => [row.id, row]));
    return emails.map((email) => resultOf(email, byId.get(email.id), leaseId));
  }
  return null;
}

/** A batch is one transaction: if others of the batch are stored, a missing email was refused. */
function resultOf(
  email: NewEmail,
  found: FoundEmail | undefined,
  leaseId: string | null,
): EmailResult {
  if (found === undefined) return REFUSED_FOR_UNKNOWN_REASON;
  return {
    outcome: 'accepted',
    response: fillResponse(email, { createdAt: found.created_at, isScheduled: found.is_scheduled }),
    fingerprint: null,
    domainId: found.domain_id,
    dualSigned: found.dual_signed,
    tls: found.tls,
    tracking: parseTracking(found.tracking),
    createdAt: found.at,
    suppressedPositions: found.suppressed_positions ?? [],
    leaseId: email.mayHandOver && !found.is_on_hold ? leaseId : null,
    limit: null,
  };
}

const REFUSED_FOR_UNKNOWN_REASON: EmailResult = {
  outcome: 'unknown',
  response: null,
  fingerprint: null,
  domainId: null,
  dualSigned: false,
  tls: null,
  tracking: NOT_TRACKED,
  createdAt: new Date(0),
  suppressedPositions: [],
  leaseId: null,
  limit: null,
};
