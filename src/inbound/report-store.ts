/**
 * Stores received reports: finds the recipient of a return path, and commits messages with the changes of their
 * recipients (group commit).
 *
 * Guarantee: a message with the result `stored` is on disk once, with its change, event and webhooks, however often the
 * report is repeated. While the database is unavailable `add` throws, and the reporting server retries. A report about
 * a recipient that has not ended is not stored, because the outcome of its delivery may not be stored yet.
 */
import { failpoint } from '../lib/failpoint.ts';
import { isFinal, type StoredStatus, STATUS_RANK } from '../core/statuses.ts';
import {
  type Database,
  type Queryable,
  DatabaseUnavailable,
  isLockTimeout,
} from '../database/database.ts';
import { GroupCommit } from '../database/group-commit.ts';
import { queueNotices } from '../notices/notice-store.ts';
import { storeFull } from '../settle/settle-full-path.ts';
import type { Settlement } from '../settle/settlement.ts';
import type { Environment } from '../core/scope.ts';
import { type Address, type Mailbox, parseMailbox } from '../mail/address.ts';
import type { Dsn } from '../mail/dsn-parameters.ts';

export type NewInboundMessage = {
  id: string;
  /** Hash of the whole message and the recipient. */
  reportHash: Buffer;
  remoteAddress: string;
  sender: string;
  recipient: string;
  kind: string;
  about: { projectId: string; environment: string; emailId: string; position: number } | null;
  sizeBytes: number;
  content: Buffer;
};

export type InboundItem = {
  message: NewInboundMessage;
  settlement: Settlement | null;
  /** A delay or relay that the sender requested. It changes no status. */
  reported?: Settlement;
};

/** `open`: the recipient has not ended, so nothing was stored. */
export type InboundResult = { kind: 'stored'; change: StoredStatus | null } | { kind: 'open' };

export type ReportStoreOptions = {
  onWebhooksQueued: () => void;
  /** Called for each change after the commit. */
  onSettled?: (settlement: Settlement) => void;
};

const BATCHES_AT_ONCE = 2;
/** Lock timeout per message, after a batch timed out waiting for one email's row. */
const SINGLE_LOCK_TIMEOUT_MS = 50;

export class ReportStore {
  readonly #commits: GroupCommit<InboundItem, InboundResult>;

  constructor(db: Database['inbound'], options: ReportStoreOptions) {
    this.#commits = new GroupCommit({
      commit: (batch) => commitTogetherOrSingly(db, batch, options),
      sizeBytes: ({ message }) => message.content.length + 2_000,
      mayTryOneByOne: (error) => !(error instanceof DatabaseUnavailable),
      exclusiveKey: ({ message: { about } }) => about && `${about.emailId} ${about.position}`,
      concurrency: BATCHES_AT_ONCE,
    });
  }

  /** @throws DatabaseUnavailable */
  add(item: InboundItem): Promise<InboundResult> {
    return this.#commits.add(item);
  }
}

/** A locked row fails only its own report, which the sender retries. */
async function commitTogetherOrSingly(
  db: Database['inbound'],
  batch: readonly InboundItem[],
  options: ReportStoreOptions,
): Promise<(InboundResult | Promise<InboundResult>)[]> {
  try {
    return await commitBatch(db, batch, options);
  } catch (error) {
    if (batch.length === 1 || !isLockTimeout(error)) throw error;
  }
  const results: Promise<InboundResult>[] = [];
  for (const item of batch) {
    const singly = { ...options, lockTimeoutMs: SINGLE_LOCK_TIMEOUT_MS };
    const result = commitBatch(db, [item], singly).then(([only]) => only!);
    await result.catch(() => {});
    results.push(result);
  }
  return results;
}

async function commitBatch(
  db: Database['inbound'],
  batch: readonly InboundItem[],
  { onWebhooksQueued, onSettled, lockTimeoutMs }: ReportStoreOptions & { lockTimeoutMs?: number },
): Promise<InboundResult[]> {
  failpoint('inbound_before_commit');
  const { results, queuedWebhooks } = await db.transaction(async (tx) => {
    if (lockTimeoutMs !== undefined) await tx.query(`set local lock_timeout = ${lockTimeoutMs}`);
    const settled = await settleLate(tx, batch);
    const stored = batch.filter((_, index) => settled.results[index]?.kind === 'stored');
    if (stored.length > 0) await insertMessages(tx, stored, settled.changed);
    await queueNotices(
      tx,
      stored.flatMap(({ reported }) => reported ?? []),
    );
    return settled;
  });
  failpoint('inbound_after_commit');
  if (queuedWebhooks > 0) onWebhooksQueued();
  for (const [index, result] of results.entries()) {
    const settlement = batch[index]?.settlement;
    if (settlement && result.kind === 'stored' && result.change !== null) onSettled?.(settlement);
  }
  return results;
}

type LateSettlement = {
  results: InboundResult[];
  changed: ReadonlySet<string>;
  queuedWebhooks: number;
};

async function settleLate(tx: Queryable, batch: readonly InboundItem[]): Promise<LateSettlement> {
  const settlements = batch.flatMap(({ settlement }) => settlement ?? []);
  if (settlements.length === 0) {
    return {
      results: batch.map(() => ({ kind: 'stored', change: null })),
      changed: new Set(),
      queuedWebhooks: 0,
    };
  }
  const { counted, queuedWebhooks } = await storeFull(tx, settlements, {
    leaseId: null,
    extent: 'all',
  });
  const changed = new Set(settlements.filter((_, index) => counted[index]).map(keyOf));
  await recomputeWorst(
    tx,
    settlements.filter(({ status, ...ids }) => status === 'delivered' && changed.has(keyOf(ids))),
  );
  const unchanged = settlements.filter((settlement) => !changed.has(keyOf(settlement)));
  const open = await findOpen(tx, unchanged);
  return {
    results: batch.map(({ settlement }): InboundResult => {
      if (settlement === null) return { kind: 'stored', change: null };
      if (open.has(keyOf(settlement))) return { kind: 'open' };
      return { kind: 'stored', change: changed.has(keyOf(settlement)) ? settlement.status : null };
    }),
    changed,
    queuedWebhooks,
  };
}

function keyOf({ emailId, position }: { emailId: string; position: number }): string {
  return `${emailId} ${position}`;
}

const STATUSES = `
select recipients.email_id as "emailId", recipients.position, recipients.status
  from unnest($1::uuid[], $2::uuid[], $3::smallint[]) as input(project_id, email_id, position)
 cross join lateral (
    select * from recipients
     where recipients.project_id = input.project_id and recipients.email_id = input.email_id
       and recipients.position = input.position
     offset 0) recipients`;

async function findOpen(tx: Queryable, settlements: readonly Settlement[]): Promise<Set<string>> {
  if (settlements.length === 0) return new Set();
  const rows = await tx.query<{ emailId: string; position: number; status: StoredStatus }>(
    { name: 'inbound_statuses', text: STATUSES },
    [
      settlements.map((settlement) => settlement.projectId),
      settlements.map((settlement) => settlement.emailId),
      settlements.map((settlement) => settlement.position),
    ],
  );
  return new Set(rows.filter(({ status }) => !isFinal(status)).map(keyOf));
}

// Recomputes `worst`: only `delivered` after `sent` lowers it. The settle statement has locked the email, so
// its recipients do not change before the commit.
const WORST = `
update emails
   set worst = worst_recipient.worst
  from unnest($1::uuid[], $2::text[], $3::uuid[]) as input(project_id, environment, id)
 cross join lateral (
    select coalesce(max(ranks.value::smallint), 0::smallint) as worst
      from recipients join json_each_text($4::json) ranks on ranks.key = recipients.status
     where recipients.project_id = input.project_id and recipients.email_id = input.id) worst_recipient
 where emails.project_id = input.project_id and emails.environment = input.environment
   and emails.id = input.id
   and emails.id = any($3::uuid[])`;

async function recomputeWorst(tx: Queryable, delivered: readonly Settlement[]): Promise<void> {
  if (delivered.length === 0) return;
  await tx.query({ name: 'inbound_worst', text: WORST }, [
    delivered.map((settlement) => settlement.projectId),
    delivered.map((settlement) => settlement.environment),
    delivered.map((settlement) => settlement.emailId),
    JSON.stringify(STATUS_RANK),
  ]);
}

// Sorted by hash, so that concurrent transactions cannot deadlock.
const INSERT_MESSAGES = `
insert into inbound_messages (id, received_at, report_hash, remote_address, sender, recipient, kind,
                              project_id, environment, email_id, position, change, size_bytes, content)
select input.id, app_now(), content.report_hash, input.remote_address, input.sender, input.recipient,
       input.kind, input.project_id,
       input.environment, input.email_id, input.position, input.change, input.size_bytes, content.content
  from json_to_recordset($1::json) as input(
         n int, id uuid, remote_address text, sender text, recipient text, kind text,
         project_id uuid, environment text, email_id uuid, position smallint, change text,
         size_bytes int)
  join unnest($2::bytea[], $3::bytea[]) with ordinality as content(report_hash, content, n)
    on content.n = input.n
 order by content.report_hash
on conflict (report_hash) do nothing`;

async function insertMessages(
  tx: Queryable,
  items: readonly InboundItem[],
  changed: ReadonlySet<string>,
): Promise<void> {
  const rows = items.map(({ message, settlement }, index) => ({
    ...messageRow(message, index),
    change: settlement !== null && changed.has(keyOf(settlement)) ? settlement.status : null,
  }));
  await tx.query({ name: 'insert_inbound', text: INSERT_MESSAGES }, [
    JSON.stringify(rows),
    items.map(({ message }) => message.reportHash),
    items.map(({ message }) => message.content),
  ]);
}

/** Returns the columns that both tables of received mail share. `n` counts from 1. */
export function messageRow(message: NewInboundMessage, index: number): object {
  const { id, remoteAddress, sender, recipient, kind, about, sizeBytes } = message;
  return {
    n: index + 1,
    id,
    remote_address: remoteAddress,
    sender,
    recipient,
    kind,
    project_id: about?.projectId ?? null,
    environment: about?.environment ?? null,
    email_id: about?.emailId ?? null,
    position: about?.position ?? null,
    size_bytes: sizeBytes,
  };
}

/** Reports arrive within days. Later mail to a return path is not a report. */
export const RETURN_PATH_VALID_DAYS = 45;

export type SentRecipient = {
  projectId: string;
  environment: Environment;
  position: number;
  address: Address;
  status: StoredStatus;
  email: { id: string; from: Mailbox; dsn?: Dsn };
  isTooOld: boolean;
};

// Includes removed domains, whose mail may still bounce.
const FIND_SENT = `
select emails.project_id as "projectId", emails.environment, recipients.position, recipients.address,
       recipients.status, emails.id,
       emails.from_address as "fromAddress", emails.from_name as "fromName", contents.dsn,
       greatest(emails.created_at, emails.scheduled_at) + ${RETURN_PATH_VALID_DAYS} * interval '1 day'
         < app_now() as "isTooOld"
  from (select distinct project_id, environment from domains where name = $1) scope
 cross join lateral (
    select * from emails
     where emails.project_id = scope.project_id and emails.environment = scope.environment
       and emails.id = $2::uuid
     offset 0) emails
 cross join lateral (
    select * from recipients
     where recipients.project_id = scope.project_id and recipients.email_id = $2::uuid
       and recipients.position = $3
     offset 0) recipients
  left join lateral (
    select contents.dsn from contents
     where contents.project_id = scope.project_id and contents.email_id = $2::uuid
     offset 0) contents on true
 limit 1`;

type SentRow = Omit<SentRecipient, 'email'> & {
  id: string;
  fromAddress: string;
  fromName: string | null;
  dsn: Dsn | null;
};

/** Returns null when the recipient does not exist or retention removed it. */
export async function findSentRecipient(
  db: Queryable,
  { domain, emailId, position }: { domain: string; emailId: string; position: number },
): Promise<SentRecipient | null> {
  const statement = { name: 'find_sent_recipient', text: FIND_SENT };
  const [row] = await db.query<SentRow>(statement, [domain, emailId, position]);
  if (row === undefined) return null;
  const { projectId, environment, address, status, isTooOld } = row;
  const from = { name: row.fromName, address: parseStoredMailbox(row.fromAddress).address };
  return {
    projectId,
    environment,
    position: row.position,
    address,
    status,
    isTooOld,
    email: { id: row.id, from, ...(row.dsn && { dsn: row.dsn }) },
  };
}

/** Stored mailboxes were parsed at acceptance, so a parse error is a bug. */
function parseStoredMailbox(text: string) {
  const parsed = parseMailbox(text);
  if (!parsed) throw new Error('a stored mailbox cannot be parsed');
  return parsed;
}

const HAS_DOMAIN = `select 1 from domains where name = $1 and deleted_at is null limit 1`;

export async function hasDomain(db: Queryable, name: string): Promise<boolean> {
  const rows = await db.query({ name: 'has_domain', text: HAS_DOMAIN }, [name]);
  return rows.length > 0;
}
