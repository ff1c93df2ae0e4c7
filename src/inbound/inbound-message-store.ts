/**
 * Messages received by SMTP, which operators can read until their retention ends, and unmatched mail.
 *
 * Any sender can send unmatched mail, and it has no effect. Its table therefore has a fixed size: a ring of eight
 * segments (migrations/0009). When the current segment is full, the oldest one is emptied. The ring has one writer at
 * a time: each worker commits one batch at a time, in separate transactions, so that reports never wait for the lock
 * of the ring.
 */
import type { Environment } from '../core/scope.ts';
import { readIdBefore } from '../database/expiry.ts';
import { isId } from '../database/ids.ts';
import { type Queryable, type Database, DatabaseUnavailable } from '../database/database.ts';
import { messageRow, type NewInboundMessage } from './report-store.ts';
import { GroupCommit } from '../database/group-commit.ts';

export const INBOUND_KINDS = [
  'bounce',
  'delay',
  'complaint',
  'delivered',
  'auto_reply',
  'unsubscribe',
  'other',
] as const;

export type InboundMessage = {
  id: string;
  receivedAt: Date;
  remoteAddress: string;
  sender: string;
  recipient: string;
  kind: (typeof INBOUND_KINDS)[number];
  projectId: string | null;
  environment: Environment | null;
  emailId: string | null;
  position: number | null;
  change: string | null;
  sizeBytes: number;
};

const COLUMNS = `id, received_at as "receivedAt", remote_address as "remoteAddress", sender, recipient,
       kind, project_id as "projectId", environment, email_id as "emailId", position, change,
       size_bytes as "sizeBytes"`;
const UNMATCHED_COLUMNS = COLUMNS.replace('change', 'null::text as change');

const PAGE = `where id < $1::uuid and ($2::text is null or kind = $2) order by id desc limit $3`;

// Each part has its own limit, so that both use their index.
const LIST = `
select * from ((select ${COLUMNS} from inbound_messages ${PAGE})
               union all (select ${UNMATCHED_COLUMNS} from inbound_unmatched ${PAGE})) message
 order by id desc limit $3`;

const LAST_ID = 'ffffffff-ffff-ffff-ffff-ffffffffffff';

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
const UNMATCHED_H = 7 * 24;

type Table = 'inbound_messages' | 'inbound_unmatched';

const deleteOldSql = (table: Table) => `
delete from ${table} where id = any(array(
  select id from ${table} where id < $1::uuid order by id limit ${BATCH})) returning 1`;

const deleteOldOfProjectSql = (table: Table) => `
delete from ${table} where id = any(array(
  select id from ${table} where project_id = $2 and id < $1::uuid
   order by project_id, id limit ${BATCH})) returning 1`;

type InboundRetention = {
  /** Null keeps messages forever. */
  contentH: number | null;
  projectId: string | null;
};

/**
 * Removes one batch of messages older than the retention of content. Unmatched mail is removed after a week at the
 * latest.
 * @returns whether there may be more
 */
export async function deleteOldInbound(
  db: Queryable,
  { contentH, projectId }: InboundRetention,
): Promise<boolean> {
  const unmatchedH = Math.min(contentH ?? UNMATCHED_H, UNMATCHED_H);
  const deletedUnmatched = await deleteBatch(db, 'inbound_unmatched', {
    projectId,
    ageH: unmatchedH,
  });
  if (contentH === null) return deletedUnmatched === BATCH;
  const deleted = await deleteBatch(db, 'inbound_messages', { projectId, ageH: contentH });
  return Math.max(deleted, deletedUnmatched) === BATCH;
}

async function deleteBatch(
  db: Queryable,
  table: Table,
  { projectId, ageH }: { projectId: string | null; ageH: number },
): Promise<number> {
  const before = await readIdBefore(db, ageH);
  const deleted =
    projectId === null
      ? await db.query(deleteOldSql(table), [before])
      : await db.query(deleteOldOfProjectSql(table), [before, projectId]);
  return deleted.length;
}

/** Same number as in migrations/0009. */
const SEGMENTS = 8;
/** Bytes of a row besides its text: header, four indexes, its part of half-full pages. */
const ROW_BYTES = 600;
/** Factor that TOAST adds to content: a header for every 2 KB, and an index. */
const TOAST_TIMES = 1.06;

/** `no_space`: the oldest segment cannot be emptied now, so nothing was stored. */
type UnmatchedResult = 'stored' | 'no_space';

export class InboundMessageStore {
  readonly #commits: GroupCommit<NewInboundMessage, UnmatchedResult>;

  /** @param options.ringBytesMax maximum size of the table on disk; must be equal on all nodes */
  constructor(db: Database['inbound'], { ringBytesMax }: { ringBytesMax: number }) {
    const segmentBytesMax = Math.floor(ringBytesMax / SEGMENTS);
    this.#commits = new GroupCommit({
      commit: (batch) => db.transaction((tx) => commitUnmatched(tx, batch, segmentBytesMax)),
      sizeBytes: (message) => message.content.length + 2_000,
      mayTryOneByOne: (error) => !(error instanceof DatabaseUnavailable),
      concurrency: 1,
    });
  }

  /** @throws DatabaseUnavailable */
  add(message: NewInboundMessage): Promise<UnmatchedResult> {
    return this.#commits.add(message);
  }
}

const TAKE_SPACE = `select take_unmatched_room($1::bigint, $2::bigint) as slot`;

async function commitUnmatched(
  tx: Queryable,
  batch: readonly NewInboundMessage[],
  segmentBytesMax: number,
): Promise<UnmatchedResult[]> {
  const results: UnmatchedResult[] = [];
  // A batch may be larger than a segment, so it is stored in parts that fit.
  for (const part of splitBySize(batch, segmentBytesMax)) {
    const bytes = part.reduce((sum, message) => sum + diskBytes(message), 0);
    const [row] = await tx.query<{ slot: number | null }>(
      { name: 'take_unmatched_room', text: TAKE_SPACE },
      [bytes, segmentBytesMax],
    );
    const slot = row?.slot ?? null;
    if (slot !== null) await insertUnmatched(tx, part, slot);
    results.push(...part.map((): UnmatchedResult => (slot === null ? 'no_space' : 'stored')));
  }
  return results;
}

function splitBySize(
  batch: readonly NewInboundMessage[],
  bytesMax: number,
): (readonly NewInboundMessage[])[] {
  const parts: NewInboundMessage[][] = [];
  let bytes = Infinity;
  for (const message of batch) {
    bytes += diskBytes(message);
    if (bytes > bytesMax) {
      parts.push([]);
      bytes = diskBytes(message);
    }
    parts.at(-1)?.push(message);
  }
  return parts;
}

function diskBytes({ content, sender, recipient }: NewInboundMessage): number {
  const text = Buffer.byteLength(sender) + Buffer.byteLength(recipient);
  return Math.ceil(content.length * TOAST_TIMES) + text + ROW_BYTES;
}

// A repeated report that was stored with its effect is not stored here again.
const INSERT = `
insert into inbound_unmatched (slot, id, received_at, report_hash, remote_address, sender, recipient, kind,
                               project_id, environment, email_id, position, size_bytes, content)
select $4::smallint, input.id, app_now(), content.report_hash, input.remote_address, input.sender,
       input.recipient, input.kind,
       input.project_id, input.environment, input.email_id, input.position, input.size_bytes, content.content
  from json_to_recordset($1::json) as input(
         n int, id uuid, remote_address text, sender text, recipient text, kind text,
         project_id uuid, environment text, email_id uuid, position smallint, size_bytes int)
  join unnest($2::bytea[], $3::bytea[]) with ordinality as content(report_hash, content, n)
    on content.n = input.n
 where not exists (select from inbound_messages where inbound_messages.report_hash = content.report_hash)
on conflict do nothing`;

async function insertUnmatched(
  tx: Queryable,
  messages: readonly NewInboundMessage[],
  slot: number,
): Promise<void> {
  await tx.query({ name: 'insert_unmatched', text: INSERT }, [
    JSON.stringify(messages.map(messageRow)),
    messages.map(({ reportHash }) => reportHash),
    messages.map(({ content }) => content),
    slot,
  ]);
}
