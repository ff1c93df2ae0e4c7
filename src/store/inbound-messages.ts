/** What came back by SMTP, for a person to look at, and until it is past its retention. */
import { isId } from './ids.ts';
import type { Queryable } from './database.ts';
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

const LIST = `
select ${COLUMNS} from inbound_messages
 where id < $1::uuid and ($2::text is null or kind = $2)
 order by id desc limit $3`;

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

/** Newest first. */
export function listInbound(
  db: Queryable,
  { limit, kind, before }: { limit: number; kind: string | null; before: string | null },
): Promise<InboundMessage[]> {
  return db.query<InboundMessage>(LIST, [before ?? LAST_ID, kind, limit]);
}

const FIND = `select ${COLUMNS}, content from inbound_messages where id = $1`;

export async function findInbound(
  db: Queryable,
  id: string,
): Promise<(InboundMessage & { content: Buffer }) | null> {
  if (!isId(id)) return null;
  const [row] = await db.query<InboundMessage & { content: Buffer }>(FIND, [id]);
  return row ?? null;
}

const BATCH = 500;

const FORGET = `
delete from inbound_messages where id = any(array(
  select id from inbound_messages where id < $1::uuid order by id limit ${BATCH})) returning 1`;

const FORGET_OF_PROJECT = `
delete from inbound_messages where id = any(array(
  select id from inbound_messages where project_id = $2 and id < $1::uuid
   order by project_id, id limit ${BATCH})) returning 1`;

/**
 * Removes one batch of what came longer ago than content is kept.
 * @param projectId only of this project; null: all
 * @returns whether there may be more
 */
export async function forgetInbound(
  db: Queryable,
  { contentH, projectId }: { contentH: number; projectId: string | null },
): Promise<boolean> {
  const [now] = await db.query<{ ms: number }>(
    `select extract(epoch from app_now() - $1::int * interval '1 hour')::float8 * 1000 as ms`,
    [contentH],
  );
  const before = firstUuidOf(Math.max(0, Math.floor(now?.ms ?? 0)));
  const gone =
    projectId === null
      ? await db.query(FORGET, [before])
      : await db.query(FORGET_OF_PROJECT, [before, projectId]);
  return gone.length === BATCH;
}
