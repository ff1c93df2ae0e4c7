/** What came back by SMTP, matched and unmatched, for a person to look at until it is past its retention. */
import { isId } from './ids.ts';
import type { Queryable } from './postgres/database.ts';
import { firstUuidOf } from './partitions.ts';

export type InboundMessage = {
  id: string;
  receivedAt: Date;
  remoteAddress: string;
  sender: string;
  recipient: string;
  kind: string;
  projectId: string | null;
  environment: string | null;
  emailId: string | null;
  position: number | null;
  /** The status that it brought its recipient to; null: none. */
  change: string | null;
  sizeBytes: number;
};

const COLUMNS = `id, received_at as "receivedAt", remote_address as "remoteAddress", sender, recipient,
       kind, project_id as "projectId", environment, email_id as "emailId", position, change,
       size_bytes as "sizeBytes"`;
const UNMATCHED_COLUMNS = COLUMNS.replace('change', 'null::text as change');

const PAGE = `where id < $1::uuid and ($2::text is null or kind = $2) order by id desc limit $3`;

// Each has a limit of its own, so that both are read by their index.
const LIST = `
select * from ((select ${COLUMNS} from inbound_messages ${PAGE})
               union all (select ${UNMATCHED_COLUMNS} from inbound_unmatched ${PAGE})) m
 order by id desc limit $3`;

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Newest first. */
export function listInbound(
  db: Queryable,
  { limit, kind, before }: { limit: number; kind: string | null; before: string | null },
): Promise<InboundMessage[]> {
  return db.query<InboundMessage>(LIST, [before ?? LAST_ID, kind, limit]);
}

const FIND = `
select ${COLUMNS}, content from inbound_messages where id = $1
 union all select ${UNMATCHED_COLUMNS}, content from inbound_unmatched where id = $1`;

export async function findInbound(
  db: Queryable,
  id: string,
): Promise<(InboundMessage & { content: Buffer }) | null> {
  if (!isId(id)) return null;
  const [row] = await db.query<InboundMessage & { content: Buffer }>(FIND, [id]);
  return row ?? null;
}

const BATCH = 500;
/** Unmatched mail is not kept for longer. */
const UNMATCHED_H = 7 * 24;

type Table = 'inbound_messages' | 'inbound_unmatched';

const forget = (table: Table) => `
delete from ${table} where id = any(array(
  select id from ${table} where id < $1::uuid order by id limit ${BATCH})) returning 1`;

const forgetOfProject = (table: Table) => `
delete from ${table} where id = any(array(
  select id from ${table} where project_id = $2 and id < $1::uuid
   order by project_id, id limit ${BATCH})) returning 1`;

export type Forgetting = {
  /** Null: kept for ever. */
  contentH: number | null;
  /** Only of this project; null: of all. */
  projectId: string | null;
};

/**
 * Removes one batch of what came longer ago than content is kept; of unmatched mail, than a week.
 * @returns whether there may be more
 */
export async function forgetInbound(
  db: Queryable,
  { contentH, projectId }: Forgetting,
): Promise<boolean> {
  const unmatchedH = Math.min(contentH ?? UNMATCHED_H, UNMATCHED_H);
  const goneUnmatched = await forgetIn(db, 'inbound_unmatched', { projectId, ageH: unmatchedH });
  if (contentH === null) return goneUnmatched === BATCH;
  const gone = await forgetIn(db, 'inbound_messages', { projectId, ageH: contentH });
  return Math.max(gone, goneUnmatched) === BATCH;
}

async function forgetIn(
  db: Queryable,
  table: Table,
  { projectId, ageH }: { projectId: string | null; ageH: number },
): Promise<number> {
  const [now] = await db.query<{ ms: number }>(
    `select extract(epoch from app_now() - $1::int * interval '1 hour')::float8 * 1000 as ms`,
    [ageH],
  );
  const before = firstUuidOf(Math.max(0, Math.floor(now?.ms ?? 0)));
  const gone =
    projectId === null
      ? await db.query(forget(table), [before])
      : await db.query(forgetOfProject(table), [before, projectId]);
  return gone.length;
}
