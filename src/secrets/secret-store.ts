/**
 * The secret keys that nodes use, and the rotation of sealed values to a new key. Every step of a rotation is
 * idempotent, so an interrupted rotation can continue.
 */
import type { Queryable } from '../database/database.ts';
import type { SecretBox } from './secret-box.ts';

const FIRST_UUID = '00000000-0000-0000-0000-000000000000';
const BATCH_ROWS = 100;

/** The columns with sealed values: table, column, column of the owner. */
const SEALED_COLUMNS = [
  ['domains', 'rsa_private_key', 'project_id'],
  ['domains', 'ed25519_private_key', 'project_id'],
  ['domains', 'next_rsa_private_key', 'project_id'],
  ['domains', 'next_ed25519_private_key', 'project_id'],
  ['domains', 'previous_rsa_private_key', 'project_id'],
  ['domains', 'previous_ed25519_private_key', 'project_id'],
  ['webhook_endpoints', 'secret', 'project_id'],
  ['webhook_endpoints', 'previous_secret', 'project_id'],
  ['webhook_endpoints', 'earlier_secret', 'project_id'],
  ['members', 'totp_secret', 'organization_id'],
  ['acme_accounts', 'private_key', 'id'],
  ['acme_certificates', 'private_key', 'id'],
  ['acme_certificates', 'order_key', 'id'],
  ['receipt_keys', 'private_key', 'id'],
] as const;
type SealedColumn = (typeof SEALED_COLUMNS)[number];

const RECORD = `
with known as (
  insert into known_secret_keys (instance, keys, noted_at) values ($1, $2, app_now())
  on conflict (instance) do update set keys = excluded.keys, noted_at = excluded.noted_at
)
insert into secret_keys (id, current_since) values (($2::text[])[1], app_now())
on conflict do nothing`;

export async function recordSecretKeys(
  db: Queryable,
  { instance, keyIds }: { instance: string; keyIds: readonly string[] },
): Promise<void> {
  await db.query(RECORD, [instance, keyIds]);
}

/** Records the key that seals and signs, even without a running service. */
export async function recordFirstKey(db: Queryable, id: string): Promise<void> {
  await db.query(
    'insert into secret_keys (id, current_since) values ($1, app_now()) on conflict do nothing',
    [id],
  );
}

const NODES = `
select nodes.instance, min(nodes.host) as host, sum(nodes.beat)::int8 as heartbeats, known_secret_keys.keys
  from nodes left join known_secret_keys on known_secret_keys.instance = nodes.instance
 group by nodes.instance, known_secret_keys.keys`;

/** `keys` is null for versions without key rotation. */
export type NodeKeys = {
  instance: string;
  host: string;
  heartbeats: number;
  keys: string[] | null;
};

export function listNodeKeys(db: Queryable): Promise<NodeKeys[]> {
  return db.query<NodeKeys>(NODES);
}

/** Returns since when each key has been the first one. Keys that never were are absent. */
export async function listFirstKeys(db: Queryable): Promise<Map<string, Date>> {
  const rows = await db.query<{ id: string; since: Date }>(
    'select id, current_since as since from secret_keys',
  );
  return new Map(rows.map(({ id, since }) => [id, since]));
}

// Reads in the order of ids across batches, so that values that no key opens are skipped.
const selectStale = ([table, column, owner]: SealedColumn) => `
select ${owner} as "ownerId", id, ${column} as sealed from ${table}
 where (${owner}, id) > ($1, $2) and substring(${column} from 1 for length($3::bytea)) <> $3::bytea
 order by ${owner}, id limit $4`;

// Updates only unchanged values, because a webhook's secret may have been replaced meanwhile.
const updateSealed = ([table, column, owner]: SealedColumn) => `
update ${table} stored set ${column} = resealed.sealed
  from unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::bytea[]) as resealed(owner_id, id, before, sealed)
 where stored.${owner} = resealed.owner_id and stored.id = resealed.id and stored.${column} = resealed.before
returning 1`;

type StaleRow = { ownerId: string; id: string; sealed: Buffer };

type ResealCounts = { sealed: number; unreadable: number };

/** Seals all values with the first key. `unreadable` counts those that no key opens. */
export async function resealAll(
  db: Queryable,
  secrets: SecretBox,
  batchRows = BATCH_ROWS,
): Promise<ResealCounts> {
  const counts: ResealCounts = { sealed: 0, unreadable: 0 };
  for (const column of SEALED_COLUMNS) {
    let after: Pick<StaleRow, 'ownerId' | 'id'> | undefined = {
      ownerId: FIRST_UUID,
      id: FIRST_UUID,
    };
    while (after !== undefined) {
      const values: unknown[] = [after.ownerId, after.id, secrets.head, batchRows];
      const rows: StaleRow[] = await db.query<StaleRow>(selectStale(column), values);
      const batch = await resealRows(db, secrets, { column, rows });
      counts.sealed += batch.sealed;
      counts.unreadable += batch.unreadable;
      after = rows.length < batchRows ? undefined : rows.at(-1);
    }
  }
  return counts;
}

async function resealRows(
  db: Queryable,
  secrets: SecretBox,
  { column, rows }: { column: SealedColumn; rows: readonly StaleRow[] },
): Promise<ResealCounts> {
  const readable = rows.flatMap((row) => reseal(row, secrets));
  const unreadable = rows.length - readable.length;
  if (readable.length === 0) return { sealed: 0, unreadable };
  const updated = await db.query(updateSealed(column), [
    readable.map(({ ownerId }) => ownerId),
    readable.map(({ id }) => id),
    readable.map(({ sealed }) => sealed),
    readable.map(({ resealed }) => resealed),
  ]);
  return { sealed: updated.length, unreadable };
}

/** Returns the row with its value sealed again; nothing when no key opens it. */
function reseal(row: StaleRow, secrets: SecretBox): (StaleRow & { resealed: Buffer })[] {
  try {
    return [{ ...row, resealed: secrets.seal(secrets.open(row.sealed, row.id), row.id) }];
  } catch {
    return [];
  }
}
