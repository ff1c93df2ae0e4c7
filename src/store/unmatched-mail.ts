/**
 * Unmatched mail: what came in by SMTP and changes nothing, kept for people to look at. Anybody may
 * send it, so that it has a table of fixed size for the installation: a ring of eight segments
 * (migrations/0009), of which the oldest is emptied when the present one is full.
 *
 * Group commit, with one batch under way per worker: the ring has one writer at a time. On a connection
 * with reports that count, but in transactions of its own: those wait for no lock of the ring.
 */
import type { NewInboundMessage } from './inbound-commit.ts';
import { type Database, DatabaseUnavailable, type Queryable } from './postgres/database.ts';
import { GroupCommit } from './postgres/group-commit.ts';

/** As in migrations/0009. */
const SEGMENTS = 8;
/** Beside the text of a row: its header, four indexes, its part of half-full pages. */
const ROW_BYTES = 600;
/** What TOAST adds to content: a header for every 2 KB and an index. */
const TOAST_TIMES = 1.06;

/** `no_room`: the oldest segment cannot be emptied at present; nothing was written. */
export type UnmatchedResult = 'kept' | 'no_room';

export class UnmatchedStore {
  readonly #commits: GroupCommit<NewInboundMessage, UnmatchedResult>;

  /** @param options.ringBytesMax what the table may take on disk; the same on all nodes */
  constructor(db: Database['receiving'], { ringBytesMax }: { ringBytesMax: number }) {
    const segmentBytesMax = Math.floor(ringBytesMax / SEGMENTS);
    this.#commits = new GroupCommit({
      commit: (batch) => db.transaction((tx) => commit(tx, batch, segmentBytesMax)),
      sizeBytes: (message) => message.content.length + 2_000,
      mayTryOneByOne: (error) => !(error instanceof DatabaseUnavailable),
      concurrency: 1,
    });
  }

  /** @throws DatabaseUnavailable */
  keep(message: NewInboundMessage): Promise<UnmatchedResult> {
    return this.#commits.add(message);
  }
}

const TAKE_ROOM = `select take_unmatched_room($1::bigint, $2::bigint) as slot`;

async function commit(
  tx: Queryable,
  batch: readonly NewInboundMessage[],
  segmentBytesMax: number,
): Promise<UnmatchedResult[]> {
  const results: UnmatchedResult[] = [];
  // A batch may be larger than a segment: it goes in by parts that are not.
  for (const part of partsOf(batch, segmentBytesMax)) {
    const bytes = part.reduce((sum, message) => sum + diskBytes(message), 0);
    const [row] = await tx.query<{ slot: number | null }>(
      { name: 'take_unmatched_room', text: TAKE_ROOM },
      [bytes, segmentBytesMax],
    );
    const slot = row?.slot ?? null;
    if (slot !== null) await insert(tx, part, slot);
    results.push(...part.map((): UnmatchedResult => (slot === null ? 'no_room' : 'kept')));
  }
  return results;
}

function partsOf(
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

// What was kept as a report that counted is not kept again when it comes once more.
const INSERT = `
insert into inbound_unmatched (slot, id, received_at, report_hash, remote_address, sender, recipient, kind,
                               project_id, environment, email_id, position, size_bytes, content)
select $4::smallint, i.id, app_now(), b.report_hash, i.remote_address, i.sender, i.recipient, i.kind,
       i.project_id, i.environment, i.email_id, i.position, i.size_bytes, b.content
  from json_to_recordset($1::json) as i(
         n int, id uuid, remote_address text, sender text, recipient text, kind text,
         project_id uuid, environment text, email_id uuid, position smallint, size_bytes int)
  join unnest($2::bytea[], $3::bytea[]) with ordinality as b(report_hash, content, n) on b.n = i.n
 where not exists (select from inbound_messages m where m.report_hash = b.report_hash)
on conflict do nothing`;

async function insert(
  tx: Queryable,
  messages: readonly NewInboundMessage[],
  slot: number,
): Promise<void> {
  const rows = messages.map((message, index) => ({
    n: index + 1,
    id: message.id,
    remote_address: message.remoteAddress,
    sender: message.sender,
    recipient: message.recipient,
    kind: message.kind,
    project_id: message.about?.projectId ?? null,
    environment: message.about?.environment ?? null,
    email_id: message.about?.emailId ?? null,
    position: message.about?.position ?? null,
    size_bytes: message.sizeBytes,
  }));
  await tx.query({ name: 'insert_unmatched', text: INSERT }, [
    JSON.stringify(rows),
    messages.map(({ reportHash }) => reportHash),
    messages.map(({ content }) => content),
    slot,
  ]);
}
